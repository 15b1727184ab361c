"""What a bench is asked to do, in pgbench's terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pgstrata.errors import UsageError
from pgstrata.workload.core.language import Mode, PgbenchScript
from pgstrata.workload.core.scripts import read_scripts, weighted
from pgstrata.workload.pgbench.options import BuiltIn
from pgstrata.workload.pgbench.steps import BUILT_IN


@dataclass(frozen=True)
class BenchOptions:
    """What to run, in pgbench's terms; `seconds` or `transactions` (per client) ends it.

    rate: transactions/s over all clients, None as fast as possible. scale: None reads it from the
    database where a built-in script runs, as pgbench does. latency_limit: in seconds. where: parameters
    of the connection (host, port, user) that hold before those of the URL.
    """

    url: str
    where: dict[str, str] = field(default_factory=dict)
    files: Sequence[str] = ()
    builtin: Sequence[str] = ()
    clients: int = 1
    threads: int = 1
    seconds: float | None = None
    transactions: int | None = None
    mode: Mode = "simple"
    define: dict[str, str] = field(default_factory=dict)
    rate: float | None = None
    scale: int | None = None
    max_tries: int = 1
    seed: int | None = None
    vacuum: bool = True
    engine: Literal["auto", "blocking", "io_uring"] = "auto"
    allow_shell: bool = False
    latency_limit: float | None = None
    reconnect: bool = False
    failures_detailed: bool = False

    def scripts(self) -> list[PgbenchScript]:
        """Returns the scripts with their weights; TPC-B-like where none is given. Raises UsageError."""
        drawn = [f"{name}@{weight}" for name, weight in map(_weighted, self.files) if weight]
        own_scripts = read_scripts(drawn)
        names = self.builtin or ([] if self.files else ["tpcb-like"])
        scripts_to_run = own_scripts + [_builtin(name) for name in names]
        if not any(script.weight for script in scripts_to_run):
            raise UsageError(
                "all scripts have the weight 0, so none would run", "give at least one a weight: mine.sql@1"
            )
        return scripts_to_run


def _builtin(text: str) -> PgbenchScript:
    """Returns a built-in script by its name or the beginning of it, with a weight behind @, as pgbench's
    -b."""
    name, weight = _weighted(text)
    built_ins: list[BuiltIn] = [known for known in BUILT_IN if name and known.startswith(name)]
    if not built_ins:
        raise UsageError(
            f"there is no built-in script {name!r}", f"the built-in scripts are {', '.join(BUILT_IN)}"
        )
    if len(built_ins) > 1:
        raise UsageError(f"{name!r} is the beginning of several built-in scripts: {', '.join(built_ins)}")
    return PgbenchScript(BUILT_IN[built_ins[0]], f"<builtin: {built_ins[0]}>", weight)


def _weighted(text: str) -> tuple[str, int]:
    try:
        return weighted(text)
    except ValueError as error:
        raise UsageError(str(error), "a weight stands behind an @, as in mine.sql@3") from error

"""pgbench: its tables, its scripts, and scripts of the user's own, as a matrix of modes and clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgstrata.numbers import plural
from pgstrata.server.features import NEWEST, Features
from pgstrata.step_names import point_name
from pgstrata.workload.core.curve import curve_phases
from pgstrata.workload.core.language import Admin, FixedRate, Headline, Mode, PgbenchScript, Phase, Role, Step
from pgstrata.workload.core.options import RunCost, WorkloadOptions
from pgstrata.workload.core.scripts import RETRIED, read_scripts, stems
from pgstrata.workload.pgbench.load import (
    ACCOUNTS_PER_SCALE,
    BRANCHES,
    HISTORY,
    TABLES,
    TELLERS,
    TELLERS_PER_SCALE,
    initialise,
)
from pgstrata.workload.pgbench.options import BYTES_PER_SCALE, BuiltIn, PgbenchOptions

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

_AID = f"\\set aid random(1, {ACCOUNTS_PER_SCALE} * :scale)\n"
_BID = "\\set bid random(1, 1 * :scale)\n"
_TID = f"\\set tid random(1, {TELLERS_PER_SCALE} * :scale)\n"
_DELTA = "\\set delta random(-5000, 5000)\n"
_UPDATE_ACCOUNT = "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
_SELECT = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
_UPDATE_TELLER = "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n"
_UPDATE_BRANCH = "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n"
_INSERT = (
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
    "VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\n"
)
_DRAW = _AID + _BID + _TID + _DELTA

#: pgbench's own scripts.
BUILT_IN: dict[BuiltIn, str] = {
    "select-only": _AID + _SELECT,
    "simple-update": f"{_DRAW}BEGIN;\n{_UPDATE_ACCOUNT}{_SELECT}{_INSERT}END;\n",
    "tpcb-like": f"{_DRAW}BEGIN;\n{_UPDATE_ACCOUNT}{_SELECT}{_UPDATE_TELLER}{_UPDATE_BRANCH}{_INSERT}END;\n",
}


def pgbench_step(
    o: PgbenchOptions,
    name: str,
    scripts: Sequence[PgbenchScript],
    mode: Mode,
    clients: int,
    *,
    reads_only: bool,
) -> Step:
    """Returns a step whose name ends in the number of clients; steps of one group differ in that number
    only."""
    predefined = {"scale": o.scale, "random_seed": o.seed, "default_seed": o.seed}
    role = Role(
        "query",
        clients,
        scripts,
        mode=mode,
        prepare="lazy",
        allow_shell=o.allow_shell,
        rate=None if o.rate is None else FixedRate(o.rate / clients, "poisson"),
        retry_sqlstates=RETRIED if o.max_tries > 1 else (),
        max_tries=o.max_tries,
        variables={**predefined, **o.define},
    )
    return Step(
        point_name(f"{name}-{mode}", clients),
        [role],
        Headline("query", "operations", "transactions/s"),
        seconds=o.seconds,
        warmup=o.warmup,
        tables=TABLES if o.initialise or o.built_in else [],
        group=f"{name}, {mode}",
        reads_only=reads_only,
        summary=f"The script {name}, in query mode {mode}, on {clients} "
        f"{plural('connection', clients)} at a time.",
    )


def _before(o: PgbenchOptions, built_in: bool) -> list[Phase]:
    statements = (
        [f"vacuum {BRANCHES}", f"vacuum {TELLERS}", f"truncate {HISTORY}"] if o.vacuum and built_in else []
    )
    if o.checkpoint:
        statements.append("checkpoint")
    return [Admin("vacuum and checkpoint", statements)] if statements else []


def _phases(
    o: PgbenchOptions,
    name: str,
    scripts: Sequence[PgbenchScript],
    mode: Mode,
    built_in: bool,
    clients: int,
) -> list[Phase]:
    """Returns what measures scripts with a number of clients."""
    reads_only = name == "select-only" if built_in else o.reads_only
    return [*_before(o, built_in), pgbench_step(o, name, scripts, mode, clients, reads_only=reads_only)]


class Pgbench:
    """pgbench's tables and scripts."""

    name = "pgbench"
    summary = "pgbench: TPC-B-like, simple-update, select-only or own scripts, by query mode and clients"
    Options: type[WorkloadOptions] = PgbenchOptions
    scales: Mapping[str, Mapping[str, Any]] = {
        "count": {"scale": 1, "modes": ["simple", "prepared"], "clients": [1], "seconds": 1},
        "quick": {
            "scale": 1,
            "builtin": ["select-only", "tpcb-like"],
            "modes": ["prepared"],
            "clients": [1, 8],
            "seconds": 2,
            "warmup": 0.5,
        },
        "demo": {
            "scale": 10,
            "modes": ["simple", "prepared"],
            "clients": [1, 4, 16],
            "seconds": 5,
            "warmup": 1,
        },
        "small": {"scale": 10},
        "medium": {"scale": "50%"},
        "large": {"scale": "200%"},
    }

    def phases(self, options: PgbenchOptions, server: Features) -> list[Phase]:
        o = options
        mixes: list[tuple[str, list[PgbenchScript], bool]] = [
            (name, [PgbenchScript(BUILT_IN[name], name)], True) for name in o.built_in
        ]
        if own_scripts := read_scripts(o.scripts):
            mixes.append((stems(o.scripts), own_scripts, False))
        phases = initialise(o, server) if o.initialise else []
        for name, scripts, built_in in mixes:
            for mode in o.modes:
                at = partial(_phases, o, name, scripts, mode, built_in)
                phases += curve_phases(f"{name}-{mode}", o.clients, o.refine, at)
        return phases

    def only(self, steps: Sequence[str], seconds: float) -> Mapping[str, Any]:
        """Returns the options for these steps: they are few and share their data; their length can be
        chosen."""
        return {"seconds": seconds}

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the workload's section of the report."""
        from pgstrata.workload.pgbench.report import scaling  # what draws is loaded where something is drawn

        return scaling(results, workload)

    def estimate(self, options: PgbenchOptions) -> RunCost:
        """Returns the cost: 15 MB for each unit of scale; updated rows and the history: a quarter more and
        300 kB/s; write-ahead log: 1 GiB, or what the load writes if that is less."""
        o = options
        steps = [p for p in self.phases(o, NEWEST) if isinstance(p, Step)]
        seconds = sum(s.expected_seconds for s in steps)
        data = o.scale * BYTES_PER_SCALE * 1.25 * o.initialise + 300e3 * seconds
        return RunCost(seconds, int(data + min(2**30, data) + 40e6))

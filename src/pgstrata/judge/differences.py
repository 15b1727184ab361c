"""What differs between two runs: what was meant to, and what makes their rates hard to compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import structs

from pgstrata.judge.tuning import differences as setting_differences
from pgstrata.store import Run

Kind = Literal[
    "server", "config", "setting", "environment", "workload", "option", "host", "program", "step", "data"
]

# settings that say which server answered, not how it works; the server is compared by itself
_IDENTITY = {"server_version", "server_version_num", "application_name"}
_NAMED = 3  # steps in one sentence
_SIZE_PART = 0.01  # sizes closer than this are the same data
# How long, in which order and from which seed the same is done: rates stay comparable. An option that is not
# here decides what is done, and to how much data.
_SAME_WORK = {
    *(
        "seed",
        "steps",
        "seconds",
        "read_seconds",
        "write_seconds",
        "warmup",
        "cache_seconds",
        "warm_scan_seconds",
        "scans",
        "passes",
    ),
    *(
        "settle_base",
        "settle_per_million",
        "settle_max",
        "load_connections",
        "time_limit",
        "answers",
        "plans",
    ),
}


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same. `doubtful`: rates that differ in it are not measured alike.

    A doubtful difference is in what surrounds the comparison (host, options, programs); server, config,
    settings and environment are what variants are made of. `base` and `other` are None where a side lacks it.
    """

    kind: Kind
    name: str
    base: Any
    other: Any
    doubtful: bool

    @property
    def wrong(self) -> bool:
        """Whether the two did other work, so that the ratio of their rates says nothing of servers."""
        return self.kind == "workload" or (self.kind == "option" and self.name not in _SAME_WORK)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {_shown(self.base)} and {_shown(self.other)}"


def differences(base: Run, other: Run) -> list[Difference]:
    """Returns everything that differs between two runs, differences that make a comparison doubtful first.

    Settings are compared as SHOW ALL gave them, without those that only say where a cluster lives.
    """
    of_variants = [
        *_pairs("server", _server(base), _server(other)),
        *_pairs("config", {"name": base.record.config.name}, {"name": other.record.config.name}),
        *_settings(base, other),
        *_pairs("environment", _environment(base), _environment(other)),
    ]
    return [*_doubtful(base, other), *_data(base, other), *of_variants]


def _doubtful(base: Run, other: Run) -> list[Difference]:
    return [
        *_pairs("workload", {"name": base.workload}, {"name": other.workload}, doubtful=True),
        *_pairs("option", base.record.options, other.record.options, doubtful=True),
        *_pairs("host", structs.asdict(base.record.host), structs.asdict(other.record.host), doubtful=True),
        *_pairs("program", _programs(base), _programs(other), doubtful=True),
        *_engines(base, other),
        *_steps(base, other),
    ]


def other_work(base: Run, other: Run) -> bool:
    """Returns whether two runs of one workload did other work: whether they differ in an option that decides
    what is done."""
    options = _pairs("option", base.record.options, other.record.options, doubtful=True)
    return any(difference.wrong for difference in options)


def doubts(runs: Iterable[Run]) -> list[Difference]:
    """Returns the doubtful differences between the first of several runs and each later run, each named
    once."""
    runs = list(runs)
    differences: dict[tuple[str, str, str], Difference] = {}
    for other in runs[1:]:
        for difference in _doubtful(runs[0], other):
            differences.setdefault((difference.kind, difference.name, repr(difference.other)), difference)
    return list(differences.values())


def _pairs(
    kind: Kind, base: Mapping[str, Any], other: Mapping[str, Any], *, doubtful: bool = False
) -> list[Difference]:
    return [
        Difference(kind, name, base.get(name), other.get(name), doubtful)
        for name in sorted(base.keys() | other.keys())
        if base.get(name) != other.get(name)
    ]


def _server(run: Run) -> dict[str, str]:
    server = run.record.server
    return {"spec": server.spec, "version": server.version, "build": server.build}


def _environment(run: Run) -> dict[str, Any]:
    return {**run.record.env, "initdb": list(run.record.initdb)}


def _programs(run: Run) -> dict[str, Any]:
    return {"pgstrata": run.record.pgstrata_version, "driver": run.record.driver_version}


def _engines(base: Run, other: Run) -> list[Difference]:
    """Returns the steps that both runs measured with different engines of the driver.

    A load may be one side's alone: the other got a copy of its data.
    """
    before, after = _engine_of(base), _engine_of(other)
    common = [name for name in before if name in after]
    by_pair: dict[tuple[str, str], list[str]] = {}
    for name in common:
        if before[name] != after[name]:
            by_pair.setdefault((before[name], after[name]), []).append(name)
    return [
        Difference("program", _engine_in(steps, len(common)), ours, theirs, True)
        for (ours, theirs), steps in by_pair.items()
    ]


def _engine_of(run: Run) -> dict[str, str]:
    return {step.name: step.engine for step in run.steps if step.measured}


def _engine_in(steps: Sequence[str], of: int) -> str:
    if len(steps) == of:
        return "engine"
    rest = f" and {len(steps) - _NAMED} more" if len(steps) > _NAMED else ""
    return f"engine of {', '.join(steps[:_NAMED])}{rest}"


def _settings(base: Run, other: Run) -> list[Difference]:
    pairs = setting_differences(base.settings(), other.settings())
    return [
        Difference("setting", name, values[0], values[1], False)
        for name, values in pairs.items()
        if name not in _IDENTITY
    ]


def _steps(base: Run, other: Run) -> list[Difference]:
    """Returns measured steps of the same name whose transactions are not the same, though the options are: a
    script was edited. How a version is loaded is its own (`COPY … WITH (FREEZE)`)."""
    before, after = base.scripts, other.scripts
    measured = {step.name for run in (base, other) for step in run.steps if step.measured}
    return [
        Difference("step", name, "one script", "another", True)
        for name in sorted(before.keys() & after.keys() & measured)
        if before[name] != after[name]
    ]


def _data(base: Run, other: Run) -> list[Difference]:
    """Returns the sizes of the database at the end: not doubtful, versions store the same rows
    differently."""
    before, after = base.record.sizes.database_bytes, other.record.sizes.database_bytes
    if before is None or after is None or abs(before - after) <= _SIZE_PART * max(before, after):
        return []
    return [Difference("data", "database_bytes", before, after, False)]


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value) or "empty"

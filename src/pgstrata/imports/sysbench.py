"""sysbench's output, of 1.0 and later: its report, with the lines of `--report-interval` before it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgstrata.imports.model import MOST_INTERVALS, FormatError, Found, Lines, number, whole
from pgstrata.store.imported import ImportedInterval, ImportedStep

_BEGIN = re.compile(r"(?P<tool>sysbench \d+\.\d+\S*)(?:[ :].*)?$")
_FATAL = re.compile(r"\s*FATAL: ")
_INTERVAL = re.compile(
    r"\[ (?P<at>\d+)s \] thds: \d+ tps: \S+ qps: (?P<qps>\S+) \(.*\) lat \(ms,\S+%\): \S+ err/s"
)
_FIELDS = {
    "threads": re.compile(r"Number of threads: (\S+)$"),
    "queries": re.compile(r"\s+queries:\s+(\S+)\s+\((\S+) per sec\.\)$"),
    "errors": re.compile(r"\s+ignored errors:\s+(\S+)\s+\("),
    "seconds": re.compile(r"\s+(?:total time|time elapsed):\s+(\S+)s$"),
    "mean": re.compile(r"\s+avg:\s+(\S+)$"),
    "max": re.compile(r"\s+max:\s+(\S+)$"),
    "quantile": re.compile(r"\s+(\d{1,2})[a-z]{2} percentile:\s+(\S+)$"),
}


def fits(file: Lines) -> bool:
    """Returns whether a line names sysbench and its version."""
    return any(_BEGIN.match(line) for line in file.lines)


def read(file: Lines) -> list[Found]:
    """Returns a step for each report of the file. Raises FormatError where one is not whole."""
    begins = [at for at, line in enumerate(file.lines) if _BEGIN.match(line)]
    entries = []
    for place, begin in enumerate(begins):
        end = begins[place + 1] if place + 1 < len(begins) else len(file.lines)
        match = _BEGIN.match(file.lines[begin])
        assert match is not None
        entries.append(Found(_report(file, begin, end), "sysbench", match["tool"]))
    return entries


def _report(file: Lines, begin: int, end: int) -> ImportedStep:
    values: dict[str, tuple[Sequence[str], int]] = {}
    for at in range(begin, end):
        line = file.lines[at]
        if _FATAL.match(line):
            raise FormatError("sysbench ended with this error, so it has no rate", at + 1)
        for name, pattern in _FIELDS.items():
            if match := pattern.match(line):
                values[name] = match.groups(), at + 1
    missing = [name for name in ("threads", "queries", "seconds") if name not in values]
    if missing:
        raise FormatError(
            f"sysbench's report has no line with its {missing[0]}: it is cut off, or of sysbench 0.x",
            begin + 1,
        )

    def value(name: str, place: int = 0) -> tuple[str, str, int]:
        return values[name][0][place], name, values[name][1]

    latency: dict[str, float] = {
        name: number(*value(name)) / 1e3 for name in ("mean", "max") if name in values
    }
    if "quantile" in values:
        latency[f"p{values['quantile'][0][0]}"] = number(*value("quantile", 1)) / 1e3
    return ImportedStep(
        name=file.stem,
        unit="queries/s",
        rate=number(*value("queries", 1)),
        clients=max(1, whole(*value("threads"))),
        seconds=number(*value("seconds")),
        operations=whole(*value("queries")),
        errors=whole(*value("errors")) if "errors" in values else None,
        latency=latency,
        intervals=_intervals(file.lines, begin, end),
    )


def _intervals(lines: Sequence[str], begin: int, end: int) -> tuple[ImportedInterval, ...]:
    intervals: list[ImportedInterval] = []
    before = 0.0
    for at in range(begin, end):
        match = _INTERVAL.match(lines[at])
        if match is None:
            continue
        now = number(match["at"], "seconds", at + 1)
        if now <= before:
            raise FormatError("an interval at a time before that of the line above it", at + 1)
        rate = number(match["qps"], "qps", at + 1)
        intervals.append(ImportedInterval(second=before, seconds=now - before, rate=rate))
        before = now
        if len(intervals) > MOST_INTERVALS:
            raise FormatError(f"more than {MOST_INTERVALS:,} intervals", at + 1)
    return tuple(intervals)


__all__ = ["fits", "read"]

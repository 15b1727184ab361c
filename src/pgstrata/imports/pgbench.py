"""pgbench's report at its end, with the lines of `-P` before it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pgstrata.imports.model import MOST_INTERVALS, FormatError, Found, Lines, number, whole
from pgstrata.store.imported import ImportedInterval, ImportedStep

_VERSION = re.compile(r"pgbench \((?P<own>[^ (),]+)[^,]*(?:, server (?P<server>[^ ()]+).*)?\)$")
_TYPE = re.compile(r"transaction type: (?P<type>.+)$")
_CLIENTS = re.compile(r"number of clients: (?P<clients>.*)$")
_DONE = re.compile(r"number of transactions actually processed: (?P<done>[^/]*)(?:/.*)?$")
_FAILED = re.compile(r"number of failed transactions: (?P<failed>\S+)")
_TPS = re.compile(r"tps = (?P<tps>\S+)(?: \((?P<how>.*)\))?$")
_LATENCY = re.compile(r"latency (?P<of>average|stddev) = (?P<ms>\S+) ms")
_PROGRESS = re.compile(
    r"progress: (?P<at>[\d.]+) s, (?P<tps>[\d.]+) tps, lat (?P<lat>[\d.]+|NaN|-nan) ms stddev \S+"
)
_ABORTED = re.compile(r"Run was aborted|client \d+ (?:script \d+ )?aborted|client \d+ aborted")

_EPOCH = 1e8
"""Progress at a later second is a time of day (`--progress-timestamp`)."""


def fits(file: Lines) -> bool:
    """Returns whether the file has a report of pgbench, whole or not."""
    return any(_TYPE.match(line) or _PROGRESS.match(line) for line in file.lines)


def read(file: Lines) -> list[Found]:
    """Returns a step for each report of the file. Raises FormatError where one is not whole."""
    for at, line in enumerate(file.lines, 1):
        if _ABORTED.search(line):
            raise FormatError("pgbench says that its run was aborted, so it has no rate", at)
    begins = [i for i, line in enumerate(file.lines) if _TYPE.match(line)]
    if not begins:
        raise FormatError("pgbench's report is missing: the file ends while pgbench runs")
    entries, variant, last = [], "", 0
    for number_, begin in enumerate(begins):
        end = begins[number_ + 1] if number_ + 1 < len(begins) else len(file.lines)
        variant = _variant(file.lines[last:begin]) or variant
        step, last = _report(file.lines, begin, end, last)
        entries.append(Found(step, "pgbench", "pgbench", variant))
    return entries


def _variant(lines: Iterable[str]) -> str:
    """Returns the server's version as a label, `pg17.6`; pgbench names only its own version where both are
    the same. Empty if there is none."""
    matches = [match for line in lines if (match := _VERSION.match(line))]
    return f"pg{matches[-1]['server'] or matches[-1]['own']}" if matches else ""


def _report(lines: Sequence[str], begin: int, end: int, last: int) -> tuple[ImportedStep, int]:
    """Returns the step, and the line behind its report; its progress lies behind line `last`, and before the
    report unless that is the only one: then standard error may follow it."""
    alone = last == 0 and end == len(lines)
    values: dict[str, tuple[str, int]] = {}
    after = begin
    for at in range(begin, end):
        for pattern in (_TYPE, _CLIENTS, _DONE, _FAILED, _TPS, _LATENCY):
            if match := pattern.match(lines[at]):
                groups = match.groupdict()
                name = groups.get("of") or next(iter(groups))
                if name == "tps" and "including connections" in (groups["how"] or ""):
                    continue
                values[name] = (groups["ms"] if "of" in groups else groups[name]) or "", at + 1
                after = at + 1
    missing = [name for name in ("clients", "done", "tps") if name not in values]
    if missing:
        what = {"clients": "number of clients", "done": "number of transactions", "tps": "tps"}[missing[0]]
        raise FormatError(f"pgbench's report has no line with its {what}: it is cut off", begin + 1)
    rate = number(*_named(values, "tps"))
    latency = {"mean": "average", "stddev": "stddev"}
    return (
        ImportedStep(
            name=_name(values["type"][0]),
            unit="transactions/s",
            rate=rate,
            clients=max(1, whole(*_named(values, "clients"))),
            operations=whole(*_named(values, "done")),
            errors=whole(*_named(values, "failed")) if "failed" in values else None,
            latency={
                name: number(*_named(values, text)) / 1e3 for name, text in latency.items() if text in values
            },
            intervals=_intervals(lines, last, len(lines) if alone else after),
        ),
        after,
    )


def _named(values: dict[str, tuple[str, int]], name: str) -> tuple[str, str, int]:
    text, line = values[name]
    return text, name, line


def _name(kind: str) -> str:
    match = re.fullmatch(r"<builtin: (.+)>", kind)
    return match[1] if match else kind


def _intervals(lines: Sequence[str], begin: int, end: int) -> tuple[ImportedInterval, ...]:
    """Raises FormatError where time does not go on from line to line."""
    intervals: list[ImportedInterval] = []
    first = before = 0.0
    for at in range(begin, end):
        match = _PROGRESS.search(lines[at])
        if match is None:
            continue
        now = number(match["at"], "seconds", at + 1)
        if now >= _EPOCH and not first:  # when the first interval began is not said
            first = before = now
            continue
        if now <= before:
            raise FormatError("progress at a time before that of the line above it", at + 1)
        intervals.append(
            ImportedInterval(
                second=before - first,
                seconds=now - before,
                rate=number(match["tps"], "tps", at + 1),
                latency_seconds=number(match["lat"], "ms", at + 1) / 1e3
                if match["lat"][0].isdigit()
                else None,
            )
        )
        before = now
        if len(intervals) > MOST_INTERVALS:
            raise FormatError(f"more than {MOST_INTERVALS:,} lines of progress", at + 1)
    return tuple(intervals)


__all__ = ["fits", "read"]

"""Logs that pgbench writes with `-l`: a line for each transaction, or for each aggregated interval.

A thread writes a log of its own: `pgbench_log.PID`, `pgbench_log.PID.1` and so on. The rate is that of all
of them, from the begin of the first transaction to the end of the last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pgstrata.imports.model import MOST_INTERVALS, FormatError, Found, Lines, whole
from pgstrata.store.imported import ImportedInterval, ImportedStep

Integers = npt.NDArray[np.int64]

_ENDED = r"\d{1,13}|skipped|failed|serialization|deadlock"
_LINE = re.compile(
    rf"(\d{{1,9}}) (\d{{1,18}}) ({_ENDED}) (\d{{1,9}}) (\d{{9,11}}) (\d{{1,6}})(?: \d+| skipped)*"
)
_AGGREGATE = re.compile(r"(\d{9,11})((?: \d{1,20}){5,16})")
_THREAD = re.compile(r"(?P<base>.+\.\d+)\.(?P<thread>\d{1,3})")
"""Ends of names of logs but the first of a pgbench; what is longer is the number of a process."""

MOST_LINES = 5_000_000
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def fits(file: Lines) -> bool:
    """Returns whether the first line is one of such a log."""
    first = file.lines[0] if file.lines else ""
    return bool(_LINE.fullmatch(first) or _AGGREGATE.fullmatch(first))


def read(file: Lines) -> list[Found]:
    """Returns the step of a log that is the only one. Raises FormatError."""
    return read_threads([file])


def of_one_run(names: Sequence[str]) -> dict[str, list[int]]:
    """Returns which files are logs of threads of one pgbench, by the name of the first.

    Raises FormatError where the log of a thread between others is missing.
    """
    runs: dict[str, dict[int, int]] = {}
    for at, name in enumerate(names):
        match = _THREAD.fullmatch(name)
        base, thread = (match["base"], int(match["thread"])) if match else (name, 0)
        if thread in runs.setdefault(base, {}):
            base = name
            runs.setdefault(base, {})
        runs[base][thread] = at
    for base, threads in runs.items():
        if len(threads) > 1 or 0 not in threads:
            for thread in range(max(threads)):
                if thread not in threads:
                    missing = f"{base}.{thread}" if thread else base
                    raise FormatError(
                        f"the log of another thread of the same pgbench is not there: {missing}"
                    )
    return {base: [threads[thread] for thread in sorted(threads)] for base, threads in runs.items()}


def read_threads(files: Sequence[Lines]) -> list[Found]:
    """Returns the step that the logs of all threads of one pgbench make. Raises FormatError."""
    for file in files:
        file.check_end()
    if all(_AGGREGATE.fullmatch(file.lines[0]) for file in files):
        step = _aggregated(files)
    else:
        step = _transactions(files)
    return [Found(step, "pgbench", "pgbench -l")]


@dataclass
class _Log:
    """The transactions of a log that ended well, in microseconds, and how many did not."""

    ends: list[int]
    latencies: list[int]
    clients: set[int]
    errors: int = 0


def _transactions(files: Sequence[Lines]) -> ImportedStep:
    log = _Log([], [], set())
    for file in files:
        _read_log(file, log)
    if not log.ends:
        raise FormatError("no transaction of this log succeeded")
    ends, latencies = np.array(log.ends, np.int64), np.array(log.latencies, np.int64)
    ends -= int((ends - latencies).min())
    seconds = int(ends.max()) / 1e6
    if not seconds:
        raise FormatError("all transactions of this log ended at once, so it has no rate")
    at = {n: float(np.quantile(latencies, q, method="inverted_cdf")) / 1e6 for n, q in _QUANTILES.items()}
    return ImportedStep(
        name=files[0].stem,
        unit="transactions/s",
        rate=len(ends) / seconds,
        clients=len(log.clients),
        seconds=seconds,
        operations=len(ends),
        errors=log.errors,
        latency={"mean": float(latencies.mean()) / 1e6, **at, "max": int(latencies.max()) / 1e6},
        intervals=_by_second(ends, latencies, seconds),
    )


def _read_log(file: Lines, log: _Log) -> None:
    """Raises FormatError for a line of another form, and where transactions of a client are not all there."""
    numbers: dict[str, int] = {}
    if len(file.lines) > MOST_LINES:
        raise FormatError(
            f"more than {MOST_LINES:,} transactions; --aggregate-interval makes a smaller log", MOST_LINES
        )
    for at, line in enumerate(file.lines, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise FormatError("no line of a pgbench log: is the file cut off?", at)
        client, transaction, took, _, second, micro = match.groups()
        log.clients.add(int(client))
        if int(transaction) > numbers.get(client, 0) + 1:
            raise FormatError(
                f"transactions of client {client} are missing (--sampling-rate?), so the log has no rate", at
            )
        numbers[client] = int(transaction)
        if took.isdigit():
            log.ends.append(int(second) * 1_000_000 + int(micro))
            log.latencies.append(int(took))
        else:
            log.errors += 1


def _by_second(ends: Integers, latencies: Integers, whole_seconds: float) -> tuple[ImportedInterval, ...]:
    """Returns the intervals of a log by second; the last second is as short as it was. ends: microseconds
    from the begin of the first transaction."""
    if whole_seconds > MOST_INTERVALS:
        raise FormatError(f"the log covers more than {MOST_INTERVALS:,} seconds")
    seconds = np.minimum(ends // 1_000_000, math.ceil(whole_seconds) - 1)
    counts = np.bincount(seconds)
    totals = np.bincount(seconds, weights=latencies)
    return tuple(
        ImportedInterval(
            second=float(second),
            seconds=(length := min(1.0, whole_seconds - second)),
            rate=float(count / length),
            latency_seconds=float(total / count) / 1e6 if count else None,
        )
        for second, (count, total) in enumerate(zip(counts, totals, strict=True))
    )


def _aggregated(files: Sequence[Lines]) -> ImportedStep:
    """Returns the intervals of all threads added up. First and last may be shorter than the others: the rate
    leaves them out."""
    parts: dict[int, list[float]] = {}
    interval = _interval(files)
    for file in files:
        for at, line in enumerate(file.lines, 1):
            match = _AGGREGATE.fullmatch(line)
            if match is None:
                raise FormatError("no line of an aggregated pgbench log: is the file cut off?", at)
            count, total, _, _, longest = (float(whole(text, "count", at)) for text in match[2].split()[:5])
            part = parts.setdefault(int(match[1]), [0.0, 0.0, 0.0])
            part[0] += count
            part[1] += total
            part[2] = max(part[2], longest)
    return _of_parts(files[0].stem, interval, parts)


def _interval(files: Sequence[Lines]) -> int:
    """Returns the seconds between lines. Raises FormatError where they are not the same all along."""
    steps: dict[int, int] = {}
    for file in files:
        times = [int(match[1]) for line in file.lines if (match := _AGGREGATE.fullmatch(line))]
        for at, (before, now) in enumerate(pairwise(times), 2):
            steps.setdefault(now - before, at)
    if len(steps) != 1 or min(steps) <= 0:
        line = max(steps.values(), default=0)
        raise FormatError("intervals of an aggregated log must follow each other, three at least", line)
    return next(iter(steps))


def _of_parts(name: str, interval: int, parts: Mapping[int, Sequence[float]]) -> ImportedStep:
    times = sorted(parts)[1:-1]
    if not times:
        raise FormatError("fewer than three intervals: the first and the last may be shorter than the others")
    if len(times) > MOST_INTERVALS:
        raise FormatError(f"more than {MOST_INTERVALS:,} intervals")
    count = sum(parts[time][0] for time in times)
    total = sum(parts[time][1] for time in times)
    longest = max(part[2] for part in parts.values())
    seconds = float(interval * len(times))
    return ImportedStep(
        name=name,
        unit="transactions/s",
        rate=count / seconds,
        seconds=seconds,
        operations=int(count),
        latency={"mean": total / count / 1e6, "max": longest / 1e6} if count else {},
        intervals=tuple(
            ImportedInterval(
                second=float(time - times[0]),
                seconds=float(interval),
                rate=parts[time][0] / interval,
                latency_seconds=parts[time][1] / parts[time][0] / 1e6 if parts[time][0] else None,
            )
            for time in times
        ),
    )


__all__ = ["fits", "of_one_run", "read", "read_threads"]

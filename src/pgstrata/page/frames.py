"""The tables inside the run folders of a campaign, read once and looked up by step.

A report of 200 runs looks up thousands of small tables. Each is grouped here in one pass over all files and
handed out as plain arrays and lists: a query for every lookup would take longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pgstrata.page.results import Repeats, RunSet
from pgstrata.store import Run, parquet
from pgstrata.store.histogram import BUCKETS, total

Floats = npt.NDArray[np.float64]
Key = tuple[str, str, str]
Second = tuple[int, float, float, float, float, str]
"""A second with responses: its number, p50, p95, p99, the longest, and the histogram."""

# A last second shorter than this says little about a rate (see stats.rates.per_second).
_SHORTEST = 0.5
_PERCENTS = (50, 95, 99)
_KEYS = ("run_id", "step", "role")


@dataclass(frozen=True)
class RoleRates:
    """One role's seconds: rates per second of operations and of rows, NaN where the second was too short."""

    second: Floats
    operations: Floats
    rows: Floats
    total_operations: float


@dataclass(frozen=True)
class RoleResponses:
    """Response times of one role in seconds, by the second (or the first of some seconds) they ended in.

    Seconds without a response are left out.
    """

    second: Floats
    p50: Floats
    p95: Floats
    p99: Floats
    longest: Floats


@dataclass(frozen=True)
class LagSeconds:
    """Bytes of write-ahead log by which a replica was behind, the largest of each second."""

    second: Floats
    bytes: Floats


_NO_RESPONSES = RoleResponses(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))


class Frames:
    """Per-second series; response buckets and CPU of all runs.

    rates: of the runs that are drawn, by (run id, step, role). buckets: responses in each of the field's
    buckets, by (run id, step, role). backends: CPU seconds of each connection, by (run id, step, role).
    lag: of replicas in the runs that are drawn, by (run id, step).
    """

    def __init__(self, results: RunSet) -> None:
        drawn = {
            repeats.typical.run.run_id: repeats.typical.run
            for workload in results.workloads
            for step in workload.steps
            for repeats in step.by_variant.values()
        }
        self.rates: Mapping[Key, RoleRates] = _rates(drawn.values())
        self.buckets: Mapping[Key, list[int]] = _buckets(results.runs)
        self.backends: Mapping[Key, list[float]] = _backends(results.runs)
        self.lag: Mapping[tuple[str, str], LagSeconds] = _lag(
            [run for run in drawn.values() if run.record.replicas is not None]
        )
        self._responses = _responses(results.runs)

    def responses(self, repeats: Repeats, step: str, role: str, most: int) -> RoleResponses:
        """Returns the seconds of all repeats added up, second by second; of more than `most` seconds some are
        taken together.

        Raises StoreError where a histogram is damaged.
        """
        of_runs = self._responses.get((step, role), {})
        rows = [row for m in repeats.repeats for row in of_runs.get(m.run.run_id, ())]
        if not rows:
            return _NO_RESPONSES
        stretch = -(-(max(row[0] for row in rows) + 1) // max(1, most))
        parts: dict[int, list[Second]] = {}
        for row in rows:
            parts.setdefault(row[0] // stretch * stretch, []).append(row)
        seconds = [
            (second, *_added_up(*list(zip(*parts[second], strict=True))[1:])) for second in sorted(parts)
        ]
        return RoleResponses(*np.array(seconds, dtype=np.float64).T)


def _added_up(
    p50: Sequence[float],
    p95: Sequence[float],
    p99: Sequence[float],
    longest: Sequence[float],
    histograms: Sequence[str],
) -> tuple[float, float, float, float]:
    """Returns p50, p95, p99 and the longest of some seconds together."""
    if len(histograms) == 1:
        return p50[0], p95[0], p99[0], longest[0]
    percentiles = total(histograms).percentiles(_PERCENTS)
    return percentiles[0] or 0.0, percentiles[1] or 0.0, percentiles[2] or 0.0, max(longest)


def _grouped(
    runs: Iterable[Run], table: str, keys: Sequence[str], lists: Sequence[str], where: str = "true"
) -> list[tuple[Any, ...]]:
    """Returns a row for each combination of the keys, with a list for each expression of `lists`, its values
    in the order of their rows' time or number. Raises StoreError where a file is damaged."""
    files = [file for run in runs if (file := run.table_file(table)) is not None]
    return parquet.grouped(files, table, keys, lists, _ORDER[table], where)


_ORDER = {"series": "second", "lag": "second", "histograms": "bucket_order", "backends": "client, pid"}


def _rates(runs: Iterable[Run]) -> dict[Key, RoleRates]:
    known = f"CASE WHEN seconds >= {_SHORTEST} THEN"
    lists = ("second", f"{known} operations / seconds END", f"{known} rows / seconds END", "operations")
    return {
        (str(run), str(step), str(role)): RoleRates(
            _array(second), _array(rate), _array(rows), float(sum(n or 0 for n in operations))
        )
        for run, step, role, second, rate, rows, operations in _grouped(runs, "series", _KEYS, lists)
    }


def _responses(runs: Iterable[Run]) -> dict[tuple[str, str], dict[str, list[Second]]]:
    """Returns the seconds with responses by (step, role) and run id."""
    lists = ("second", "p50_seconds", "p95_seconds", "p99_seconds", "max_seconds", "histogram")
    seconds: dict[tuple[str, str], dict[str, list[Second]]] = {}
    for run, step, role, *columns in _grouped(runs, "series", _KEYS, lists, "max_seconds > 0"):
        seconds.setdefault((str(step), str(role)), {})[str(run)] = list(zip(*columns, strict=True))
    return seconds


def _array(values: Sequence[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)


def _lag(runs: Iterable[Run]) -> dict[tuple[str, str], LagSeconds]:
    return {
        (str(run), str(step)): LagSeconds(_array(second), _array(behind))
        for run, step, second, behind in _grouped(runs, "lag", ("run_id", "step"), ("second", "lag_bytes"))
    }


def _buckets(runs: Iterable[Run]) -> dict[Key, list[int]]:
    whole = list(range(1, len(BUCKETS) + 1))
    lists = ("bucket_order", "coalesce(responses, 0)")
    buckets: dict[Key, list[int]] = {}
    for run, step, role, orders, responses in _grouped(runs, "histograms", _KEYS, lists):
        counts = responses
        if orders != whole:
            counts = [0] * len(whole)
            for order, number in zip(orders, responses, strict=True):
                if order is not None and 1 <= order <= len(counts):
                    counts[order - 1] += number
        buckets[str(run), str(step), str(role)] = counts
    return buckets


def _backends(runs: Iterable[Run]) -> dict[Key, list[float]]:
    rows = _grouped(runs, "backends", _KEYS, ("cpu_seconds",), "cpu_seconds IS NOT NULL")
    return {(str(run), str(step), str(role)): seconds for run, step, role, seconds in rows}

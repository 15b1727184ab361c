"""The tables inside the run folders of a campaign, read once and looked up by step.

A report of 200 runs looks up thousands of small tables. Each is grouped here in one pass and handed
out as plain arrays and lists: a polars query for every lookup would take longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from pgstrata.page.results import Repeats, RunSet
from pgstrata.store import Run
from pgstrata.store.histogram import BUCKETS, decode, merge

Floats = npt.NDArray[np.float64]
Key = tuple[str, str, str]

# A last second shorter than this says little about a rate (see stats.rates.per_second).
_SHORTEST = 0.5
_PERCENTS = (50, 95, 99)


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
class _Second:
    p50: float
    p95: float
    p99: float
    longest: float
    histogram: str


class Frames:
    """Per-second series; response buckets and CPU of all runs.

    rates: of the runs that are drawn, by (run id, step, role). buckets: responses in each of the field's
    buckets, by (run id, step, role). backends: CPU seconds of each connection, by (run id, step, role).
    """

    def __init__(self, results: RunSet) -> None:
        drawn = {
            own.shown.run.run_id: own.shown.run
            for workload in results.workloads
            for step in workload.steps
            for own in step.by_variant.values()
        }
        columns = ("run_id", "step", "role", "second", "seconds", "operations", "rows")
        self.rates: Mapping[Key, RoleRates] = _rates(_read(drawn.values(), "series", columns))
        self.buckets: Mapping[Key, list[int]] = _buckets(results.runs)
        self.backends: Mapping[Key, list[float]] = _backends(results.runs)
        self._responses = _responses(results.runs)

    def responses(self, repeats: Repeats, step: str, role: str, most: int) -> RoleResponses:
        """The seconds of all repeats added up, second by second; of more than `most` seconds some together.

        Raises StoreError where a histogram is damaged.
        """
        own = [self._responses.get((m.run.run_id, step, role), {}) for m in repeats.repeats]
        seconds = sorted({second for one in own for second in one})
        stretch = -(-(seconds[-1] + 1) // max(1, most)) if seconds else 1
        together: dict[int, list[_Second]] = {}
        for one in own:
            for second, responses in one.items():
                together.setdefault(second // stretch * stretch, []).append(responses)
        found = [(second, *_added_up(together[second])) for second in sorted(together)]
        return RoleResponses(*np.array(found, dtype=np.float64).reshape(-1, 5).T)


def _added_up(seconds: Sequence[_Second]) -> tuple[float, float, float, float]:
    """p50, p95, p99 and the longest of these seconds together."""
    longest = max(one.longest for one in seconds)
    if len(seconds) == 1:
        return seconds[0].p50, seconds[0].p95, seconds[0].p99, longest
    p50, p95, p99 = merge([decode(one.histogram) for one in seconds]).percentiles(_PERCENTS)
    return p50 or 0.0, p95 or 0.0, p99 or 0.0, longest


def _read(runs: Iterable[Run], table: str, columns: Sequence[str]) -> pl.DataFrame:
    parts = [pl.read_parquet(run.folder / f"{table}.parquet", columns=list(columns)) for run in runs]
    return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame(schema=list(columns))


def _rates(series: pl.DataFrame) -> dict[Key, RoleRates]:
    if series.is_empty():
        return {}
    known = pl.col("seconds") >= _SHORTEST
    rated = series.select(
        "run_id",
        "step",
        "role",
        pl.col("second").cast(pl.Float64),
        pl.when(known).then(pl.col("operations") / pl.col("seconds")).cast(pl.Float64).alias("per_second"),
        pl.when(known).then(pl.col("rows") / pl.col("seconds")).cast(pl.Float64).alias("rows_per_second"),
        pl.col("operations"),
    )
    grouped = rated.group_by("run_id", "step", "role").agg(
        pl.col("second", "per_second", "rows_per_second").sort_by("second"), pl.col("operations").sum()
    )
    return {
        (str(run), str(step), str(role)): RoleRates(
            _array(second), _array(rate), _array(rows), float(total or 0)
        )
        for run, step, role, second, rate, rows, total in grouped.iter_rows()
    }


def _responses(runs: Iterable[Run]) -> dict[Key, dict[int, _Second]]:
    columns = ("p50_seconds", "p95_seconds", "p99_seconds", "max_seconds", "histogram")
    table = _read(runs, "series", ("run_id", "step", "role", "second", *columns))
    found: dict[Key, dict[int, _Second]] = {}
    for run, step, role, second, *figures in table.filter(pl.col("max_seconds") > 0).iter_rows():
        found.setdefault((str(run), str(step), str(role)), {})[int(second)] = _Second(*figures)
    return found


def _array(values: Sequence[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)


def _buckets(runs: Iterable[Run]) -> dict[Key, list[int]]:
    table = _read(runs, "histograms", ("run_id", "step", "role", "bucket_order", "responses"))
    found: dict[Key, list[int]] = {}
    for run, step, role, order, responses in table.iter_rows():
        counts = found.setdefault((str(run), str(step), str(role)), [0] * len(BUCKETS))
        if order is not None and 1 <= order <= len(counts):
            counts[order - 1] += responses or 0
    return found


def _backends(runs: Iterable[Run]) -> dict[Key, list[float]]:
    table = _read(runs, "backends", ("run_id", "step", "role", "cpu_seconds"))
    found: dict[Key, list[float]] = {}
    for run, step, role, seconds in table.iter_rows():
        if seconds is not None:
            found.setdefault((str(run), str(step), str(role)), []).append(float(seconds))
    return found

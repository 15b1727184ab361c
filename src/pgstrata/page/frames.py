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

from pgstrata.files.bounded import BoundError
from pgstrata.page.results import Repeats, RunSet
from pgstrata.store import Run, parquet_bounds
from pgstrata.store.histogram import BUCKETS, total

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
            own.typical.run.run_id: own.typical.run
            for workload in results.workloads
            for step in workload.steps
            for own in step.by_variant.values()
        }
        columns = ("run_id", "step", "role", "second", "seconds", "operations", "rows")
        self.rates: Mapping[Key, RoleRates] = _rates(_read(drawn.values(), "series", columns))
        self.buckets: Mapping[Key, list[int]] = _buckets(results.runs)
        self.backends: Mapping[Key, list[float]] = _backends(results.runs)
        self.lag: Mapping[tuple[str, str], LagSeconds] = _lag(
            [run for run in drawn.values() if run.record.replicas is not None]
        )
        self._responses = _responses(results.runs)

    def responses(self, repeats: Repeats, step: str, role: str, most: int) -> RoleResponses:
        """The seconds of all repeats added up, second by second; of more than `most` seconds some together.

        Raises StoreError where a histogram is damaged.
        """
        table = self._responses.get((step, role))
        if table is None:
            return _NO_RESPONSES
        own = table.filter(pl.col("run_id").is_in([m.run.run_id for m in repeats.repeats])).drop("run_id")
        if own.is_empty():
            return _NO_RESPONSES
        seconds = own["second"].to_numpy()
        stretch = -(-(int(seconds.max()) + 1) // max(1, most))
        together = own.with_columns(pl.Series("second", seconds // stretch * stretch))
        parts = together.group_by("second").agg(pl.exclude("second")).sort("second")
        found = [(second, *_added_up(*figures)) for second, *figures in parts.iter_rows()]
        return RoleResponses(*np.array(found, dtype=np.float64).T)


def _added_up(
    p50: Sequence[float],
    p95: Sequence[float],
    p99: Sequence[float],
    longest: Sequence[float],
    histograms: Sequence[str],
) -> tuple[float, float, float, float]:
    """p50, p95, p99 and the longest of some seconds together."""
    if len(histograms) == 1:
        return p50[0], p95[0], p99[0], longest[0]
    percentiles = total(histograms).percentiles(_PERCENTS)
    return percentiles[0] or 0.0, percentiles[1] or 0.0, percentiles[2] or 0.0, max(longest)


def _read(runs: Iterable[Run], table: str, columns: Sequence[str]) -> pl.DataFrame:
    """Of all these runs. Raises StoreError where a file is damaged."""
    runs = list(runs)
    if not runs:
        return pl.DataFrame(schema=list(columns))
    try:
        files = [run.folder / f"{table}.parquet" for run in runs]
        for file in files:
            parquet_bounds.check(file)
        return pl.read_parquet(files, columns=list(columns), glob=False)
    except (OSError, BoundError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        # columns of other types, from another release; or a damaged file, which is named here
        return pl.concat([run.table(table, columns) for run in runs], how="vertical_relaxed")


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


def _responses(runs: Iterable[Run]) -> dict[tuple[str, str], pl.DataFrame]:
    """Seconds with responses of all runs by (step, role)."""
    figures = ("p50_seconds", "p95_seconds", "p99_seconds", "max_seconds", "histogram")  # of `_added_up`
    table = _read(runs, "series", ("run_id", "step", "role", "second", *figures))
    if table.is_empty():
        return {}
    parts = table.filter(pl.col("max_seconds") > 0).partition_by("step", "role", as_dict=True)
    return {(str(step), str(role)): part.drop("step", "role") for (step, role), part in parts.items()}


def _array(values: Sequence[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)


def _lag(runs: Iterable[Run]) -> dict[tuple[str, str], LagSeconds]:
    table = _read(runs, "lag", ("run_id", "step", "second", "lag_bytes")).sort("second")
    parts = table.partition_by("run_id", "step", as_dict=True) if not table.is_empty() else {}
    return {
        (str(run), str(step)): LagSeconds(
            part["second"].cast(pl.Float64).to_numpy(), part["lag_bytes"].cast(pl.Float64).to_numpy()
        )
        for (run, step), part in parts.items()
    }


def _buckets(runs: Iterable[Run]) -> dict[Key, list[int]]:
    table = _read(runs, "histograms", ("run_id", "step", "role", "bucket_order", "responses"))
    if table.is_empty():
        return {}
    whole = list(range(1, len(BUCKETS) + 1))
    known = table.with_columns(pl.col("responses").fill_null(0))
    parts = known.group_by("run_id", "step", "role").agg(
        pl.col("bucket_order", "responses").sort_by("bucket_order")
    )
    found: dict[Key, list[int]] = {}
    for run, step, role, orders, responses in parts.iter_rows():
        counts = responses
        if orders != whole:
            counts = [0] * len(whole)
            for order, number in zip(orders, responses, strict=True):
                if order is not None and 1 <= order <= len(counts):
                    counts[order - 1] += number
        found[str(run), str(step), str(role)] = counts
    return found


def _backends(runs: Iterable[Run]) -> dict[Key, list[float]]:
    table = _read(runs, "backends", ("run_id", "step", "role", "cpu_seconds"))
    found: dict[Key, list[float]] = {}
    for run, step, role, seconds in table.iter_rows():
        if seconds is not None:
            found.setdefault((str(run), str(step), str(role)), []).append(float(seconds))
    return found

"""The tables inside the run folders of a study, read once and looked up by step.

A report of 200 runs looks up thousands of small tables. Each is grouped here in one pass and handed
out as plain arrays and lists: a polars query for every lookup would take longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from pgstrata.report.study import Study
from pgstrata.store import Run
from pgstrata.store.histogram import BUCKETS

Floats = npt.NDArray[np.float64]
Key = tuple[str, str, str]

# A last second shorter than this says little about a rate (see analyze.rates.per_second).
_SHORTEST = 0.5


@dataclass(frozen=True)
class Line:
    """One role's seconds: rates per second of operations and of rows, NaN where the second was too short."""

    second: Floats
    operations: Floats
    rows: Floats
    total_operations: float


class Frames:
    """Per-second series of the runs that are drawn; response buckets and CPU of all runs.

    lines: by (run id, step, role). longest: (second, longest response in seconds over all roles, NaN
    where there was none), by (run id, step). buckets: responses in each of the field's buckets, by (run
    id, step, role). backends: CPU seconds of each connection, by (run id, step, role).
    """

    def __init__(self, study: Study) -> None:
        drawn = {
            place.shown.run.run_id: place.shown.run
            for workload in study.workloads
            for step in workload.steps
            for place in step.places.values()
        }
        series = _read(
            drawn.values(),
            "series",
            ("run_id", "step", "role", "second", "seconds", "operations", "rows", "max_seconds"),
        )
        self.lines: Mapping[Key, Line] = _lines(series)
        self.longest: Mapping[tuple[str, str], tuple[Floats, Floats]] = _longest(series)
        self.buckets: Mapping[Key, list[int]] = _buckets(study.runs)
        self.backends: Mapping[Key, list[float]] = _backends(study.runs)


def _read(runs: Iterable[Run], table: str, columns: Sequence[str]) -> pl.DataFrame:
    parts = [pl.read_parquet(run.folder / f"{table}.parquet", columns=list(columns)) for run in runs]
    return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame(schema=list(columns))


def _lines(series: pl.DataFrame) -> dict[Key, Line]:
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
        (str(run), str(step), str(role)): Line(_array(second), _array(rate), _array(rows), float(total or 0))
        for run, step, role, second, rate, rows, total in grouped.iter_rows()
    }


def _longest(series: pl.DataFrame) -> dict[tuple[str, str], tuple[Floats, Floats]]:
    if series.is_empty():
        return {}
    grouped = (
        series.group_by("run_id", "step", "second")
        .agg(pl.col("max_seconds").max())
        .group_by("run_id", "step")
        .agg(pl.col("second", "max_seconds").sort_by("second"))
    )
    return {
        (str(run), str(step)): (_array(second), _array(longest))
        for run, step, second, longest in grouped.iter_rows()
    }


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

"""The tables inside the run folders of a study, read once and looked up by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from pgstrata.report.study import Study
from pgstrata.store import RunRecord

SERIES = ("run_id", "step", "role", "second", "seconds", "operations", "rows", "errors", "max_seconds")
BUCKETS = ("run_id", "step", "role", "bucket", "bucket_order", "responses")
BACKENDS = ("run_id", "step", "role", "client", "cpu_seconds")

Key = tuple[str, ...]


class Frames:
    """Per-second series of the runs that are drawn, response buckets and CPU of all runs.

    series: by (run id, step, role), sorted by second. buckets: by (run id, step). backends: by
    (run id, step).
    """

    def __init__(self, study: Study) -> None:
        drawn = {
            place.shown.run.run_id: place.shown.run
            for workload in study.workloads
            for step in workload.steps
            for place in step.places.values()
        }
        series = _read(drawn.values(), "series", SERIES).sort("second", maintain_order=True)
        self.series = _by(series, ("run_id", "step", "role"))
        self.buckets = _by(_read(study.runs, "histograms", BUCKETS), ("run_id", "step"))
        self.backends = _by(_read(study.runs, "backends", BACKENDS), ("run_id", "step"))


def _read(runs: Iterable[RunRecord], table: str, columns: Sequence[str]) -> pl.DataFrame:
    parts = [pl.read_parquet(run.folder / f"{table}.parquet", columns=list(columns)) for run in runs]
    return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame(schema=list(columns))


def _by(frame: pl.DataFrame, keys: Sequence[str]) -> Mapping[Key, pl.DataFrame]:
    if frame.is_empty():
        return {}
    return {
        tuple(map(str, key)): part
        for key, part in frame.partition_by(list(keys), as_dict=True, maintain_order=True).items()
    }

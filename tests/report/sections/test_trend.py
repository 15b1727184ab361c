from __future__ import annotations

import math

import pytest

from pgstrata.judge.summary import Summary, SummaryTable
from pgstrata.page.blocks import SIGNS
from pgstrata.page.results import StepResults, WorkloadResults
from pgstrata.report.sections.trend import _mark, _table
from pgstrata.stats.changepoint import Shift


def shift(ratio: float, low: float, high: float) -> Shift:
    return Shift("17", 2, "16", "17", ratio, low, high, 0.01)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "mark"),
    [
        (0.8, 0.7, 0.9, "bad"),
        (1.2, 1.1, 1.3, "good"),
        (0.8, 0.6, 1.02, "even"),
        (1.2, 0.97, 1.5, "even"),
        (0.5, 0.0, math.inf, "even"),
    ],
)
def test_a_shift_has_a_colour_only_where_its_interval_leaves_out_one(
    ratio: float, low: float, high: float, mark: str
) -> None:
    change = shift(ratio, low, high)
    assert _mark(change) == mark
    nothing = SummaryTable((), ())
    workload = WorkloadResults("w", (), (), Summary("w", "15", nothing, nothing, None))
    step = StepResults("w", "s", "g", "", "queries/s", True, "a", {})
    (row,) = _table(workload, [(step, change)]).rows
    assert row.cells[2].mark == mark
    assert (row.cells[2].sign in (SIGNS["bad"], SIGNS["good"])) == (mark != "even")

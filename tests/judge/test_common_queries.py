"""A folder of queries of which one version rejects some: only what all sides ran is compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pgstrata.judge.compare import compare_all
from pgstrata.page.results import read_results
from pgstrata.report.write import write_report
from pgstrata.store import Results, Run, RunKey
from pgstrata.store.choose import Side
from pgstrata.store.record import RunFailure, StepRecord
from support.page import PageReader
from support.records import circumstances, step_record

OLD, NEW = "pg12", "pg17"


def store(
    root: Path, variant: str, seconds: Mapping[str, float | None], failed: StepRecord | None = None
) -> None:
    """A run of one step of queries, each in so many seconds or rejected (None). failed: a step after it that
    the server rejected, so that the run has failed."""
    run = Results(root).begin(RunKey("c", variant, "custom", 1))
    rows = [
        {
            "query": name, "stream": 1, "execution": 1, "start": 0.0, "seconds": took or 0.001, "rows": None,
            "digest": None, "answer": None, "timed_out": False,
            "sqlstate": None if took is not None else "42883", "error": None if took is not None else "no",
        }
        for name, took in seconds.items()
    ]  # fmt: skip
    took = [s for s in seconds.values() if s is not None]
    record = step_record(
        "queries", rate=3600 * len(took) / sum(took), rate_unit="queries/h", seconds=sum(took)
    )
    run.step(record, queries=rows)
    failure = None
    if failed is not None:
        run.step(failed)
        failure = RunFailure(message="scripts: the server rejected a statement", hint="", log_tail="")
    run.finish(
        circumstances(workload_name="custom", base=OLD, status="failed" if failed else "done", error=failure)
    )


def runs(root: Path) -> dict[str, tuple[Run, ...]]:
    there = Results(root).runs()
    return {variant: tuple(r for r in there if r.variant == variant) for variant in (OLD, NEW)}


def test_a_query_that_one_side_rejects_counts_on_none(tmp_path: Path) -> None:
    """The old one rejects the slow query: it is not faster for that."""
    store(tmp_path, OLD, {"q1": 1.0, "q2": 1.0, "q3": None})
    store(tmp_path, NEW, {"q1": 1.0, "q2": 1.0, "q3": 8.0})
    sides = runs(tmp_path)
    (comparison,) = compare_all(Side(OLD, sides[OLD]), [Side(NEW, sides[NEW])])
    (step,) = comparison.steps
    assert (step.base_rate, step.other_rate, step.ratio) == pytest.approx((3600.0, 3600.0, 1.0))
    assert "over the 2 of 3 queries that no side rejected" in step.verdict.reason
    # As it would be without the rows of the third: 2 in 2 s and 3 in 10 s.
    assert sides[NEW][0].steps[0].rate == pytest.approx(1080.0)


def test_the_page_has_the_same_rates_and_marks_what_was_rejected(tmp_path: Path) -> None:
    store(tmp_path / "r", OLD, {"q1": 1.0, "q2": 1.0, "q3": None})
    store(tmp_path / "r", NEW, {"q1": 1.0, "q2": 1.0, "q3": 8.0})
    results = read_results(tmp_path / "r")
    (step,) = results.workloads[0].steps
    assert [results.rate(step, v) for v in (OLD, NEW)] == pytest.approx([3600.0, 3600.0])
    page = PageReader(write_report(tmp_path / "r", out=tmp_path / "report").html)
    totals = page.table("Queries of step queries: 2 of 3 were run by every variant")
    rejected = [row[totals.head.index("Rejected")].text.strip() for row in totals.rows]
    assert ["1" in rejected[0], rejected[1]] == [True, "0"]


def test_without_rejected_queries_nothing_changes(tmp_path: Path) -> None:
    store(tmp_path, OLD, {"q1": 1.0, "q2": 2.0})
    store(tmp_path, NEW, {"q1": 1.0, "q2": 4.0})
    sides = runs(tmp_path)
    (comparison,) = compare_all(Side(OLD, sides[OLD]), [Side(NEW, sides[NEW])])
    assert comparison.steps[0].ratio == pytest.approx(0.6)
    assert "rejected" not in comparison.steps[0].verdict.reason


def test_steps_before_the_one_that_failed_are_as_whole_as_any(tmp_path: Path) -> None:
    broken = step_record("scripts", order=2, error="the server rejected a statement", rate=5.0)
    store(tmp_path, OLD, {"q1": 1.0})
    store(tmp_path, NEW, {"q1": 2.0}, failed=broken)
    sides = runs(tmp_path)
    (comparison,) = compare_all(Side(OLD, sides[OLD]), [Side(NEW, sides[NEW])])
    (step,) = comparison.steps
    assert not step.verdict.aside and step.ratio == pytest.approx(0.5)
    results = read_results(tmp_path)
    assert results.has_failed(NEW)
    (queries,) = results.workloads[0].compared
    assert results.rate(queries, NEW) == pytest.approx(1800.0)
    assert list(queries.by_variant) == [OLD, NEW], "not what was cut short"


def test_a_step_that_was_cut_short_is_aside(tmp_path: Path) -> None:
    broken = step_record("scripts", order=2, error="the server rejected a statement", rate=5.0)
    store(tmp_path, OLD, {"q1": 1.0}, failed=step_record("scripts", order=2, rate=5.0))
    store(tmp_path, NEW, {"q1": 2.0}, failed=broken)
    sides = runs(tmp_path)
    (comparison,) = compare_all(Side(OLD, sides[OLD]), [Side(NEW, sides[NEW])])
    by_step = {step.step: step.verdict for step in comparison.steps}
    assert by_step["scripts"].aside and "rejected a statement" in by_step["scripts"].reason

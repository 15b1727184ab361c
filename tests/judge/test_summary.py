from __future__ import annotations

from typing import Any

import pytest

from pgstrata.errors import UsageError
from pgstrata.judge.summary import Summary, SummaryTable, summarise
from pgstrata.store import Results, Run
from pgstrata.store.record import StepRecord
from support.records import step_record, stored_run
from support.runs import INSERT_STEPS, VARIANTS, make_campaign

BASE, NEXT = VARIANTS


def step(name: str, rate: float | None, order: int = 1, **more: Any) -> StepRecord:
    return step_record(name, order=order, rate=rate, **more)


def run(variant: str, repeat: int, *steps: StepRecord, workload: str = "w", status: str = "done") -> Run:
    return stored_run(variant, repeat, *steps, workload=workload, status=status)


def marks(table: SummaryTable, name: str) -> dict[str, str]:
    return {row.variant: table.cell(row.variant, name).mark for row in table.rows}


@pytest.fixture(scope="module")
def insert(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    root = tmp_path_factory.mktemp("results")
    make_campaign(
        root,
        variants=(*VARIANTS, "pg18.0.x10a"),
        speeds={NEXT: 0.7, "pg18.0.x10a": 1.0},
        repeats=2,
        seconds=3,
        missed=[(NEXT, "qr1000")],
        failed=["pg18.0.x10a"],
    )
    (summary,) = summarise(Results(root).runs())
    return summary


def test_three_tables_over_all_steps_in_their_order(insert: Summary) -> None:
    assert [column.step for column in insert.absolute.columns] == list(INSERT_STEPS)
    assert [column.step for column in insert.relative.columns] == list(INSERT_STEPS)
    assert insert.background is not None
    assert [column.step for column in insert.background.columns] == list(INSERT_STEPS[4:])
    assert insert.background.target == (100, 100, 500, 500, 1000, 1000)
    assert insert.base == BASE
    # the failed variant has no finished run and no row
    assert [row.variant for row in insert.absolute.rows] == [BASE, NEXT]


def test_a_slower_variant_is_seen_in_every_table(insert: Summary) -> None:
    for name in INSERT_STEPS:
        cell = insert.relative.cell(NEXT, name)
        assert cell.value == pytest.approx(0.7, abs=0.08)
        assert cell.low is not None
        assert cell.high is not None
        assert cell.low <= (cell.value or 0) <= cell.high
        assert cell.n == 2
        assert cell.std_error is not None
        slow = "missed" if name == "qr1000" else "bad"
        best = "" if name == "qr1000" else "good"
        assert marks(insert.relative, name) == {BASE: "even", NEXT: slow}
        assert marks(insert.absolute, name) == {BASE: best, NEXT: slow}
    assert insert.background is not None
    assert marks(insert.background, "qr1000") == {BASE: "", NEXT: "bad"}
    assert insert.background.cell(NEXT, "qr1000").sla_met is False


def test_the_geometric_mean_of_the_repeats_stands(insert: Summary) -> None:
    runs = [run("a", n, step("s", rate)) for n, rate in enumerate((100.0, 10.0, 1000.0), 1)]
    (summary,) = summarise([*runs, run("b", 1, step("s", 50.0))])
    assert summary.absolute.cell("a", "s").value == pytest.approx(100.0)
    assert summary.absolute.cell("a", "s").low == 10.0
    assert summary.relative.cell("b", "s").value == pytest.approx(0.5)
    assert summary.relative.cell("a", "s").value == 1.0


def test_a_base_that_missed_its_sla_is_no_base() -> None:
    runs = [
        run("a", 1, step("s", 100.0, sla_met=False, target_rate=10.0, background_rate=5.0)),
        run("b", 1, step("s", 50.0, sla_met=True, target_rate=10.0, background_rate=10.0)),
    ]
    (summary,) = summarise(runs)
    assert marks(summary.relative, "s") == {"a": "missed", "b": "missed"}
    assert marks(summary.absolute, "s") == {"a": "missed", "b": ""}


def test_one_repeat_that_missed_spoils_the_cell() -> None:
    targets: dict[str, Any] = {"target_rate": 1.0, "background_rate": 1.0}
    runs = [run("a", n, step("s", 100.0, sla_met=n > 1, **targets)) for n in (1, 2, 3)]
    assert summarise(runs)[0].absolute.cell("a", "s").mark == "missed"


def test_steps_that_a_variant_lacks_and_steps_not_measured() -> None:
    runs = [
        run("a", 1, step("load", 1.0, 1, measured=False), step("x", 1.0, 2), step("y", 2.0, 3)),
        run("b", 1, step("y", 4.0, 2), step("z", 5.0, 4)),
    ]
    (summary,) = summarise(runs)
    assert [column.step for column in summary.absolute.columns] == ["x", "y", "z"]
    assert marks(summary.absolute, "x") == {"a": "", "b": "missing"}
    assert summary.relative.cell("b", "y").value == 2.0
    assert summary.relative.cell("b", "z").mark == "missing"
    assert summary.background is None
    with pytest.raises(KeyError):
        summary.absolute.cell("a", "load")


def test_workloads_and_variants_in_the_order_asked_for() -> None:
    runs = [
        run("b", 1, step("s", 2.0)),
        run("a", 2, step("s", 1.0)),
        run("a", 3, step("t", 1.0), workload="v"),
    ]
    first, second = summarise(runs)
    assert (first.workload, first.base) == ("w", "b")
    assert second.workload == "v"
    assert marks(second.relative, "t") == {"b": "missing", "a": "missing"}
    ordered = summarise(runs, variants=["a", "b"], base="b")
    assert [row.variant for row in ordered[0].relative.rows] == ["a", "b"]
    assert ordered[0].relative.cell("a", "s").value == 0.5


def test_nothing_finished_is_no_table() -> None:
    assert summarise([]) == []
    assert summarise([run("a", 1, step("s", 1.0), status="failed")]) == []


def test_a_base_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no variant 'x'"):
        summarise([run("a", 1, step("s", 1.0))], base="x")


def test_thresholds_are_options() -> None:
    runs = [run("a", 1, step("s", 100.0)), run("b", 1, step("s", 96.0))]
    assert summarise(runs)[0].relative.cell("b", "s").mark == "even"
    assert summarise(runs, thresholds=(0.97, 1.03))[0].relative.cell("b", "s").mark == "bad"
    with pytest.raises(UsageError, match="thresholds"):
        summarise(runs, thresholds=(1.5, 0.5))

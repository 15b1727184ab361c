"""Several machines: each compares its own runs, whatever their rates are, and one verdict is on all."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pgstrata.judge.compare import Comparison, StepVerdict, compare_all
from pgstrata.judge.machines import OnMachine, across
from pgstrata.judge.summary import summarise
from pgstrata.page.results import read_results
from pgstrata.report.verdicts import evidence, notes, sentence
from pgstrata.stats.criterion import USUAL
from pgstrata.stats.estimate import Estimate
from pgstrata.store import Run, RunKey
from pgstrata.store.choose import Side
from pgstrata.store.record import Host
from support.machines import STEP, study
from support.records import step_record, stored_run
from support.runs import make_run


def compared(runs: list[Run]) -> Comparison:
    sides = [Side(name, tuple(r for r in runs if r.variant == name)) for name in ("base", "other")]
    (comparison,) = compare_all(sides[0], sides[1:], steps=[STEP])
    return comparison


def only(comparison: Comparison) -> StepVerdict:
    (step,) = comparison.steps
    return step


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Three machines that all find the other one 30 % slower, three times."""
    return study(tmp_path_factory.mktemp("alike"), {"db1": 0.3, "db2": 0.3, "db3": 0.3}, repeats=3)


@pytest.mark.long
def test_rates_of_different_machines_are_never_divided(alike: list[Run]) -> None:
    comparison = compared(alike)
    step = only(comparison)
    # Were one machine's rate divided by another's, ratios would lie between 0.14 and 5.
    assert step.verdict.ratio == pytest.approx(0.7, abs=0.05)
    assert step.across is not None
    assert [verdict.machine for verdict in step.across.machines] == ["db1", "db2", "db3"]
    assert all(verdict.ratio == pytest.approx(0.7, abs=0.05) for verdict in step.across.machines)
    assert step.verdict.word == "slower" and step.evidence == "machines"
    assert comparison.doubts == ()  # each host compares its own runs: nothing differs


@pytest.mark.parametrize("watched", [False, True])
def test_what_a_start_is_by_chance_is_in_the_error_of_each_machine(watched: bool) -> None:
    def width(start_error: float) -> float:
        machines = [
            Estimate(log, 0.001, 30.0, 400, "student", start_error=start_error) for log in (0.0, 1e-4)
        ]
        on_machines = {str(number): OnMachine(estimate, watched) for number, estimate in enumerate(machines)}
        verdict, _ = across(on_machines, USUAL)
        return math.log(verdict.high / verdict.low)

    assert width(0.006) > 2 * width(0.0)


def test_it_is_said_on_how_many_machines(alike: list[Run]) -> None:
    comparison = compared(alike)
    step = only(comparison)
    assert step.across is not None
    phrase = step.across.summary(step.verdict)
    assert " of 3 machines, " in phrase and phrase.startswith("slower on ")
    size, low, high = (float(part) for part in phrase.partition(", ")[2].replace("%", " ").replace("(", " ")
                       .replace(")", " ").replace("…", " ").split())  # fmt: skip
    assert low < size < high and size == pytest.approx(30, abs=5)
    assert any(line.startswith(f"{STEP}: {phrase}; how much machines differ") for line in notes(comparison))
    assert phrase in sentence(comparison, step)
    assert evidence(step) == "3 machines, 9 pairs"
    record = step.record()["across"]
    assert [entry["machine"] for entry in record["machines"]] == ["db1", "db2", "db3"]


@pytest.mark.long
def test_machines_that_say_opposite_things(tmp_path: Path) -> None:
    step = only(compared(study(tmp_path, {"db1": 0.3, "db2": -0.4, "db3": 0.0})))
    assert step.verdict.word == "unclear" and step.across is not None
    assert "unclear across 3 machines (by itself: " in step.across.summary(step.verdict)


def test_a_machine_with_one_side_says_nothing(tmp_path: Path) -> None:
    runs = study(tmp_path, {"db1": 0.3, "db2": 0.3, "db3": 0.3}, repeats=1, only={"db3": "other"})
    step = only(compared(runs))
    assert step.across is not None
    assert [verdict.machine for verdict in step.across.machines] == ["db1", "db2"]
    assert step.verdict.ratio == pytest.approx(0.7, abs=0.05)


def test_rates_are_of_machines_that_measured_both_sides(tmp_path: Path) -> None:
    """One has measured the base only, and is twice as fast."""
    runs = study(tmp_path, {"db1": 0.3, "db2": 0.3}, repeats=1, only={"db2": "other"})
    step = only(compared(runs))
    assert step.verdict.ratio == pytest.approx(0.7, abs=0.05)
    results = read_results(tmp_path, base="base")
    (shown,) = (shown for shown in results.workloads[0].compared if shown.name == STEP)
    assert (step.base_rate, step.other_rate) == (results.rate(shown, "base"), results.rate(shown, "other"))


def test_one_machine_is_judged_as_ever(alike: list[Run]) -> None:
    step = only(compared([run for run in alike if run.machine == "db2"]))
    assert step.across is None and step.evidence == "repeats" and step.verdict.n == 3
    assert "across" not in step.record()


def test_relative_rates_of_the_summary_are_those_of_each_machine(alike: list[Run]) -> None:
    runs = alike
    (summary,) = summarise(runs, base="base")
    assert summary.relative.cell("other", STEP).value == pytest.approx(0.7, abs=0.05)
    assert summary.relative.cell("base", STEP).value == pytest.approx(1.0)
    # Rates are those of one machine: a middle of several means nothing.
    alone = [run for run in runs if run.machine == "db1"]
    (of_one,) = summarise(alone, base="base")
    assert summary.absolute == of_one.absolute


def test_repeats_of_one_number_on_two_machines_stay_apart() -> None:
    """As in folders that were copied together: the newest runs of the two sides are those of other hosts."""

    def run(hostname: str, variant: str, repeat: int, rate: float, minute: int) -> Run:
        return stored_run(
            variant,
            repeat,
            step_record(STEP, rate=rate * (1 + repeat / 1000)),
            host=Host(hostname=hostname),
            run_id=f"{hostname}-{variant}-{repeat}",
            started=f"2026-01-31T12:{minute:02d}:{repeat:02d}Z",
        )

    runs = [
        run(hostname, variant, repeat, rate, minute)
        for repeat in (1, 2, 3)
        for minute, (hostname, variant, rate) in enumerate(
            (("db1", "base", 100.0), ("db2", "other", 350.0), ("db2", "base", 500.0), ("db1", "other", 70.0))
        )
    ]
    comparison = compared(runs)
    step = only(comparison)
    assert step.across is not None
    assert [(verdict.machine, verdict.n) for verdict in step.across.machines] == [("db1", 3), ("db2", 3)]
    assert step.verdict.ratio == pytest.approx(0.7) and comparison.doubts == ()


@pytest.mark.long
def test_details_are_of_the_machine_with_the_most_runs(tmp_path: Path) -> None:
    study(tmp_path, {"db3": 0.3, "db1": 0.3}, repeats=1)
    for variant in ("base", "other"):
        if variant == "base":
            make_run(tmp_path, RunKey("study", variant, "insert", 9), seconds=2, host={"hostname": "db2"})
    (workload,) = read_results(tmp_path, base="base").workloads
    assert workload.machines == ("db1", "db2", "db3")
    assert {run.machine for run in workload.runs} == {"db1"}
    shown = {m.run.machine for step in workload.steps for r in step.by_variant.values() for m in r.repeats}
    assert shown == {"db1"}

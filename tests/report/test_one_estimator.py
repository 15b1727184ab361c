"""One fact has one number: on the page, in its CSV files, in `compare`, `check`, the terminal and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from rich.console import Console
from typer.testing import CliRunner

from pgstrata.cli.main import app
from pgstrata.cli.query import BY_THEMSELVES
from pgstrata.cli.show import BY_ITSELF
from pgstrata.judge.compare import margin_of
from pgstrata.judge.marks import THRESHOLDS
from pgstrata.judge.pairs import ratio_of
from pgstrata.measure.progress import step_line
from pgstrata.numbers import quantity
from pgstrata.page.results import read_results
from pgstrata.report.terminal import print_summary
from pgstrata.report.write import write_report
from pgstrata.stats.criterion import Criterion
from pgstrata.store import Results, RunKey
from pgstrata.store.record import Slice, StepRecord
from support.needs import needs
from support.page import PageReader, Written
from support.records import comparison_record
from support.runs import HOST, clone_run, make_run

BASE, OTHER, THIRD = "pg16.10.x", "pg17.11.x", "pg18.1.x"
STEPS = ("qr100", "qp100")
PAIRED = {BASE: 1.0, OTHER: 1.165, THIRD: 0.8}
"""What the pairs of slices say."""
WHOLE = {BASE: 20.7, OTHER: 29.1, THIRD: 20.7}
"""What the whole steps say."""


def _with_slices(variant: str, dice: np.random.Generator, waited: float) -> Iterator[Slice]:
    for pair in range(1, 61):
        rate = 20.7 * PAIRED[variant] * float(dice.normal(1, 0.01))
        yield Slice(pair=pair, seconds=1.0, rate=rate, waited=waited)


def _slices(root: Path, source: Path, waited: float = 0.0) -> None:
    dice = np.random.default_rng(1)
    for variant in (BASE, OTHER, THIRD):

        def change(step: StepRecord, variant: str = variant) -> StepRecord:
            slices = tuple(_with_slices(variant, dice, waited)) if step.name in STEPS else ()
            return structs.replace(step, rate=WHOLE[variant], slices=slices, measured=step.name in STEPS)

        comparison = comparison_record(BASE, OTHER, THIRD)
        key = RunKey("c", variant, "insert", 1)
        clone_run(root, source, key, change=change, comparison=comparison, base=BASE)


def _repeats(root: Path, source: Path) -> None:
    """Rates of repeats whose medians are equal, though each pair of them says faster."""
    rates = {BASE: (1_200.0, 1_392.0, 1_395.0), OTHER: (1_392.0, 1_392.0, 1_700.0), THIRD: (900.0, 1e3, 2e3)}
    for variant, variant_rates in rates.items():
        for repeat, rate in enumerate(variant_rates, 1):

            def change(step: StepRecord, rate: float = rate) -> StepRecord:
                return structs.replace(step, rate=rate, measured=step.name in STEPS)

            clone_run(root, source, RunKey("c", variant, "insert", repeat), change=change, base=BASE)


def _machines(root: Path, source: Path) -> None:
    """Three machines of which one measured the base more often than the others."""
    for number, (machine, rate) in enumerate((("m1", 142.0), ("m2", 176.0), ("m3", 150.0))):
        for variant, factor in PAIRED.items():
            for repeat in range(1, 4 if variant != BASE or machine != "m2" else 5):

                def change(step: StepRecord, rate: float = rate * factor * (1 + 0.01 * repeat)) -> StepRecord:
                    return structs.replace(step, rate=rate, measured=step.name in STEPS)

                clone_run(
                    root, source, RunKey("c", variant, "insert", 10 * number + repeat), change=change,
                    base=BASE, host=structs.replace(HOST, hostname=machine),
                )  # fmt: skip


@pytest.fixture(scope="module", params=["slices", "repeats", "machines"])
@needs("long")
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp(request.param)
    source = make_run(root / "source", RunKey("c", BASE, "insert", 1), seconds=4)
    make = {"slices": _slices, "repeats": _repeats, "machines": _machines}[request.param]
    make(root / "results", source)
    report = write_report(root / "results", out=root / "report")
    return Written(root / "results", report, PageReader(report.html))


Figures = dict[tuple[str, str], tuple[float, float, float]]


def _compared(written: Written, command: str) -> Figures:
    """(variant, step) → rate of the base, rate of the variant, ratio, as `compare` or `check` say them."""
    figures: Figures = {}
    for variant in (OTHER, THIRD):
        words = {
            "compare": ["compare", BASE, variant],
            "check": ["check", "--base", BASE, "--other", variant, "--fail-slower", "3%"],
        }[command]
        done = CliRunner().invoke(app, [*words, "--results", str(written.results), "--format", "json"])
        assert done.stdout.startswith("["), done.output
        (comparison,) = json.loads(done.stdout)
        for step in comparison["steps"]:
            figures[variant, step["step"]] = step["base_rate"], step["other_rate"], step["ratio"]
    return figures


def _machine_ratio(written: Written, variant: str, step: str) -> float:
    """Of the machine whose rates are shown, or of the only one."""
    results = read_results(written.results)
    (workload,) = results.workloads
    of = next(s for s in workload.steps if s.name == step)
    ratio = results.shown_ratio(of, variant)
    assert ratio is not None
    return ratio


def _csv(written: Written, name: str) -> list[dict[str, str]]:
    text = (written.tables / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def test_the_estimators_disagree_in_what_is_tested(written: Written) -> None:
    """Else the other tests here show nothing: medians of whole steps have another ratio than the verdict."""
    if "machines" in written.results.parts[-2]:
        pytest.skip("here machines disagree")
    results = read_results(written.results)
    (step, *_) = (s for s in results.workloads[0].steps if s.name in STEPS)
    other, base = (statistics.median(step.by_variant[v].rates) for v in (OTHER, BASE))
    ratio = results.ratio(step, OTHER).value
    assert ratio is not None and abs(other / base / ratio - 1) > 0.1


@pytest.mark.parametrize("command", ["compare", "check"])
def test_rates_belong_to_their_ratio(written: Written, command: str) -> None:
    figures = _compared(written, command)
    assert len(figures) == 4
    for (variant, step), (base, other, _) in figures.items():
        assert other / base == pytest.approx(_machine_ratio(written, variant, step))


def test_the_rates_of_the_page_are_those_of_compare(written: Written) -> None:
    figures = _compared(written, "compare")
    rows = {row["variant"]: row for row in _csv(written, "rates") if "variant" in row}
    relative = {row["variant"]: row for row in _csv(written, "relative-rates")}
    for (variant, step), (base, other, ratio) in figures.items():
        (column,) = [name for name in rows[BASE] if name.startswith(f"{step} [")]
        assert float(rows[BASE][column]) == pytest.approx(base, rel=1e-3)
        assert float(rows[variant][column]) == pytest.approx(other, rel=1e-3)
        (column,) = [name for name in relative[BASE] if name.split(" [")[0] == step]
        assert float(relative[variant][column]) == pytest.approx(ratio, rel=1e-3)


def test_every_table_with_rates_has_the_same_ones(written: Written) -> None:
    figures = _compared(written, "compare")
    looked_at = 0
    for path in written.tables.glob("*.csv"):
        for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))):
            step, variant = row.get("step"), row.get("variant")
            rates = [row[name] for name in row if name.split(" [")[0] == "rate"]
            rate = next(filter(None, rates), None)
            if not rate or (variant, step) not in figures:
                continue
            looked_at += 1
            assert float(rate) == pytest.approx(figures[variant or "", step or ""][1], rel=1e-3), path.name
            if relative := row.get("relative_rate"):
                assert float(relative) == pytest.approx(figures[variant or "", step or ""][2], rel=1e-3)
    assert looked_at >= 8, "the hardware table and the table of slow seconds have rates"


def test_sentences_say_the_ratio_of_the_verdict(written: Written) -> None:
    rows = _csv(written, "why")
    assert rows
    for row in rows:
        ratio = _machine_ratio(written, row["variant"], row["step"])
        match = re.search(r"([\d.]+) % (slower|faster)", row["sentence"])
        assert match is not None
        assert float(match[1]) == pytest.approx(abs(1 - ratio) * 100, rel=0.01)
        assert match[2] == ("slower" if ratio < 1 else "faster")


def test_the_terminal_says_what_the_page_says(written: Written) -> None:
    text = io.StringIO()
    print_summary(read_results(written.results), Console(file=text, width=200))
    plain = text.getvalue()
    for (_, step), (base, other, _) in _compared(written, "compare").items():
        for rate in (base, other):
            shown = f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"
            assert shown in plain, (step, shown)


def test_progress_says_the_rate_of_the_page(written: Written) -> None:
    """The line at a step's end is the base's rate × the ratio of the same pairs."""
    figures = _compared(written, "compare")
    runs = {run.variant: run for run in Results(written.results).runs()}
    records = {variant: {step.name: step for step in run.steps} for variant, run in runs.items()}
    if not records[BASE][STEPS[0]].slices:
        pytest.skip("nothing took turns here")
    for (variant, step), (base, other, _) in figures.items():
        ours, theirs = records[BASE][step], records[variant][step]
        ratio = ratio_of(ours, theirs, Criterion(margin_of(runs.values())), watched=False)
        assert ratio is not None and ours.rate == base
        line, by_itself = step_line(theirs, base * ratio), step_line(theirs)
        assert quantity(other, theirs.rate_unit) in line
        assert (quantity(other, theirs.rate_unit) in by_itself) == (
            theirs.rate == pytest.approx(other, rel=1e-3)
        )


def test_rates_of_single_runs_are_said_to_be_such(written: Written) -> None:
    """`show` and `query` have what was stored with a run, which gives another ratio than pairs do."""
    took_turns = any(step.slices for run in Results(written.results).runs() for step in run.steps)
    run = next(run for run in Results(written.results).runs() if run.variant == OTHER)
    shown = CliRunner().invoke(app, ["show", run.run_id, "--results", str(written.results)])
    assert (BY_ITSELF in shown.stdout) == took_turns
    for sql, is_said in (("select variant, rate from steps", True), ("select variant from steps", False)):
        asked = CliRunner().invoke(app, ["query", sql, "--results", str(written.results)])
        assert asked.exit_code == 0 and (BY_THEMSELVES in asked.stderr) == is_said


@pytest.mark.long
def test_where_no_pair_is_left_no_table_has_a_ratio(tmp_path: Path) -> None:
    """The rates of whole steps have one, but `compare` says that nothing was held against each other."""
    source = make_run(tmp_path / "source", RunKey("c", BASE, "insert", 1), seconds=4)
    _slices(tmp_path / "results", source, waited=0.5)
    report = write_report(tmp_path / "results", out=tmp_path / "report")
    written = Written(tmp_path / "results", report, PageReader(report.html))
    assert {other for _, other, _ in _compared(written, "compare").values()} == {None}
    for row in _csv(written, "relative-rates"):
        ratios = [
            row[name] for name in row if name.split(" [")[0] in STEPS and row["variant"] in (OTHER, THIRD)
        ]
        assert not any(ratios)
    text = io.StringIO()
    print_summary(read_results(written.results), Console(file=text, width=200))
    assert not re.search(r"1\.4\d|41 %", text.getvalue())


def test_thresholds_colour_the_same_ratio(written: Written) -> None:
    results = read_results(written.results, thresholds=THRESHOLDS)
    (workload,) = results.workloads
    for (variant, step), (_, _, ratio) in _compared(written, "compare").items():
        cell = results.ratio(next(s for s in workload.steps if s.name == step), variant)
        assert cell.value == pytest.approx(ratio)
        assert cell.mark == ("bad" if ratio <= 0.95 else "good" if ratio >= 1.05 else "even")


def test_costs_of_one_run_each_have_no_colour(written: Written) -> None:
    """They differ by much more than any threshold; but nothing says that the next run would, too."""
    for name in ("operations-relative", "metrics-relative"):
        for row in _csv(written, name):
            marks = [mark for mark in row["marks"].split("; ") if not mark.startswith("Relative rate")]
            coloured = [mark for mark in marks if mark.endswith((": good", ": bad"))]
            assert not coloured or "slices" not in str(written.results), (name, row)

"""The table that decides between two variants agrees with the verdicts, and shows what is proven first."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.marks import THRESHOLDS
from pgstrata.page.results import RunSet, read_results
from pgstrata.report.sections.step_verdicts import change, pair_table
from pgstrata.report.write import write_report
from support.page import PageReader
from support.runs import make_campaign


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six repeats of two variants, of which the second is a fifth slower and misses an SLA."""
    root = tmp_path_factory.mktemp("pair")
    make_campaign(
        root,
        variants=("pg13", "pg17"),
        speeds={"pg17": 0.8},
        repeats=6,
        seconds=4,
        missed=[("pg17", "qp1000")],
    )
    return root


@pytest.fixture(scope="module")
def pair(root: Path) -> RunSet:
    return read_results(root)


@given(ratio=st.floats(0.001, 1000))
def test_a_change_has_the_sign_and_the_size_of_its_ratio(ratio: float) -> None:
    text = change(ratio).replace("\N{NO-BREAK SPACE}", " ").replace("−", "-").replace(",", "")
    number, unit = text.split(" ")
    if unit == "×":
        assert float(number) == pytest.approx(ratio, rel=0.06)
    else:
        assert float(number) == pytest.approx(
            100 * (ratio - 1), abs=0.5 if abs(ratio - 1) > 0.0995 else 0.0501
        )


def test_each_row_is_the_verdict_of_its_step(pair: RunSet) -> None:
    (workload,) = pair.workloads
    table = pair_table(pair, workload)
    assert table is not None
    verdicts = {step.step: step.verdict for comparison in pair.comparisons for step in comparison.steps}
    assert {row.cells[0].text for row in table.rows} == {step.name for step in workload.compared}
    for row in table.rows:
        name, base, other, moved, interval, word, _ = row.cells
        if word.mark == "missed":
            assert name.text == "qp1000" and interval.mark == "missing" and interval.span is None
            continue
        verdict = verdicts[name.text]
        assert word.value == verdict.word
        assert isinstance(base.value, float) and isinstance(other.value, float)
        assert other.value / base.value == pytest.approx(moved.value)
        assert interval.span is not None
        assert interval.span.low <= interval.span.middle <= interval.span.high
        assert (interval.span.middle < 0.5) == (verdict.ratio < 1)
        assert interval.span.wide - 0.5 == pytest.approx(0.5 - interval.span.narrow)


def test_the_largest_proven_change_is_first(pair: RunSet) -> None:
    (workload,) = pair.workloads
    table = pair_table(pair, workload)
    assert table is not None
    slower = [row.cells[3].value for row in table.rows if row.cells[5].value == "slower"]
    assert len(slower) > 5
    sizes = [abs(math.log(value)) for value in slower if isinstance(value, float)]
    assert sizes == sorted(sizes, reverse=True)
    assert [row.cells[5].value for row in table.rows[: len(slower)]] == ["slower"] * len(slower)


def test_every_proven_change_says_what_moved_or_that_nothing_did(pair: RunSet) -> None:
    (workload,) = pair.workloads
    table = pair_table(pair, workload)
    assert table is not None
    assert all(
        row.cells[6].text for row in table.rows if row.cells[5].value in ("slower", "faster", "unclear")
    )


def test_thresholds_and_a_third_variant_keep_the_tables_of_rates(tmp_path: Path, root: Path) -> None:
    strict = read_results(root, thresholds=THRESHOLDS)
    assert pair_table(strict, strict.workloads[0]) is None
    make_campaign(tmp_path, variants=("a", "b", "c"), repeats=2, seconds=4)
    three = read_results(tmp_path)
    assert pair_table(three, three.workloads[0]) is None


def test_the_page_and_its_csv_have_it_and_the_rates_are_folded(root: Path, tmp_path: Path) -> None:
    report = write_report(root, out=tmp_path / "report")
    page = PageReader(report.html)
    captions = [table.caption for table in page.tables]
    assert captions[0] == "Verdicts: insert, pg17 against pg13"
    assert captions.index("Verdicts: insert, pg17 against pg13") < captions.index(
        "Rates: insert — more is better"
    )
    html = report.html.read_text()
    assert html.index('class="part" id="matrix-insert"') < html.index("Rates: insert")
    lines = list(csv.DictReader(io.StringIO((tmp_path / "report/tables/verdicts.csv").read_text())))
    assert {line["verdict"] for line in lines} <= {"slower", "faster", "same", "unclear", "missed"}
    assert all(float(line["change"]) < 1 for line in lines if line["verdict"] == "slower")

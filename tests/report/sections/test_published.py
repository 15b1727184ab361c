"""Published ratios on the page of a campaign, drawn from real run folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pgstrata.cli.main import invoke
from pgstrata.judge.published import Published, Rounded
from pgstrata.page.results import RunSet, read_results
from pgstrata.report.sections.published import agreement_sentence, held, published
from support.runs import make_campaign


@pytest.fixture
def results(tmp_path: Path) -> RunSet:
    """Two versions, three repeats: the second is a fifth slower."""
    make_campaign(
        tmp_path / "results", variants=["pg12.22", "pg17.6"], speeds={"pg17.6": 0.8}, repeats=3, seconds=5
    )
    return read_results(tmp_path / "results")


@pytest.fixture
def ratio(results: RunSet) -> Callable[..., Published]:
    step = results.workloads[0].compared[0].name

    def of(value: float, version: str = "17.4", base: str = "12.22", **more: str) -> Published:
        rounded = Rounded(value, value - 0.005, value + 0.005)
        return Published(
            "insert-cached", "a table", "2026-04-30", more.get("step", step), 40, base, version, rounded
        )

    return of


def test_each_is_held_against_the_verdict(results: RunSet, ratio: Callable[..., Published]) -> None:
    step = results.workloads[0].compared[0]
    verdict = results.verdict(step, "pg17.6")
    assert verdict is not None and verdict.ratio is not None
    with_published = replace(
        results, published=(ratio(round(verdict.ratio, 2)), ratio(1.5, step="no such step"))
    )
    (comparison,) = held(with_published)
    assert (comparison.variant, comparison.own_version, comparison.agreement) == ("pg17.6", "17.6", "inside")
    assert agreement_sentence(with_published) == "Of 1 published ratio: 1 inside the interval."
    section = published(with_published)
    assert section is not None and len(section.blocks) == 3
    (opposite,) = held(replace(results, published=(ratio(1.5),)))
    assert opposite.agreement == "not"


def test_another_base_is_divided_out(results: RunSet, ratio: Callable[..., Published]) -> None:
    """The study's base was not measured here; both versions were published against it."""
    both = (ratio(2.0, "12.20", base="10.23"), ratio(1.6, "17.4", base="10.23"))
    (comparison,) = held(replace(results, published=both))
    assert comparison.ratio.value == pytest.approx(0.8)
    assert comparison.ratio.low == pytest.approx(1.595 / 2.005) and comparison.ratio.high == pytest.approx(
        1.605 / 1.995
    )


def test_nothing_in_common_is_said(results: RunSet, ratio: Callable[..., Published]) -> None:
    with_published = replace(results, published=(ratio(0.9, "18.0", base="10.23"),))
    assert held(with_published) == []
    assert agreement_sentence(with_published).startswith("None of the published ratios")
    assert published(replace(results, published=())) is None


def test_on_the_command_line(
    results: RunSet, ratio: Callable[..., Published], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = ratio(0.8)
    file = tmp_path / "mine.csv"
    head = "study,source,date,step,clients,base,version,ratio\n"
    file.write_text(head + f"insert-cached,a table,2026-04-30,{entry.step},40,12.22,17.4,0.80\n")
    folder = str(tmp_path / "results")
    assert invoke(["report", folder, "--published", str(file)]) == 0
    assert "Of 1 published ratio:" in capsys.readouterr().out
    page = (tmp_path / "results/insert-cached.report/report.md").read_text()
    assert "Published and here" in page and "a table (2026-04-30)" in page
    csv = (tmp_path / "results/insert-cached.report/tables/published.csv").read_text()
    assert f"{entry.step},pg17.6,17.4,0.8," in csv and "SLA" not in csv
    file.write_text(head + f"another,a table,2026-04-30,{entry.step},40,12.22,17.4,0.80\n")
    assert invoke(["report", folder, "--published", str(file)]) == 2
    assert "no study that is called as a campaign here" in capsys.readouterr().err

"""The per-second charts: response times of all repeats added up, and the words beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pgstrata.page.blocks import Chart, Section
from pgstrata.page.frames import Frames
from pgstrata.page.results import RunSet, read_results
from pgstrata.report.page import sections
from pgstrata.report.sections.seconds import seconds_chart
from pgstrata.store.histogram import decode, merge
from pgstrata.store.tables import OPTIONAL
from support.runs import VARIANTS, make_campaign, sum_anew

STEP, ROLE = "qr100", "query"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> RunSet:
    root = tmp_path_factory.mktemp("seconds") / "results"
    make_campaign(root, repeats=2, seconds=6)
    return read_results(root)


def of_second(results: RunSet, variant: str, seconds: range) -> list[str]:
    """The stored histograms of some seconds, of all repeats."""
    histograms: list[str] = []
    for run in results.runs_of(variant):
        rows = run.table("series").where(step=STEP, role=ROLE)
        histograms += [row["histogram"] for row in rows if row["second"] in seconds]
    return histograms


def step_of(results: RunSet, name: str) -> int:
    return [step.name for step in results.workloads[0].steps].index(name)


@pytest.mark.long
@pytest.mark.parametrize(("most", "seconds"), [(100, range(2, 3)), (2, range(3, 6))])
def test_a_second_has_the_percentiles_of_all_repeats_together(
    results: RunSet, most: int, seconds: range
) -> None:
    step = results.workloads[0].steps[step_of(results, STEP)]
    responses = Frames(results).responses(step.by_variant[VARIANTS[1]], STEP, ROLE, most)
    place = responses.second.tolist().index(seconds[0])
    texts = of_second(results, VARIANTS[1], seconds)
    assert len(texts) == 2 * len(seconds)
    together = merge([decode(text) for text in texts])
    assert [responses.p50[place], responses.p95[place], responses.p99[place]] == together.percentiles(
        (50, 95, 99)
    )
    assert responses.longest[place] == pytest.approx(together.max_seconds, rel=1e-3)


def test_a_stored_second_has_the_percentiles_of_its_histogram(results: RunSet) -> None:
    rows = [row for row in results.runs[0].table("series") if row["operations"] > 0]
    assert rows
    for row in rows:
        figures = [row[f"p{percent}_seconds"] for percent in (50, 95, 99)]
        assert figures == decode(row["histogram"]).percentiles((50, 95, 99))


def test_each_role_has_its_response_times_below_its_rate(results: RunSet) -> None:
    step = results.workloads[0].steps[step_of(results, STEP)]
    chart = seconds_chart(results, step, Frames(results))
    assert chart is not None
    titles = [chart.layout[f"yaxis{row}"]["title"]["text"] for row in range(1, 7)]
    roles = ("query", "insert", "delete")
    assert [title.split("<br>")[0] for title in titles] == [role for role in roles for _ in range(2)]
    lines = [t for t in chart.data if t["meta"] == VARIANTS[0] and t["yaxis"] == "y2"]
    assert [line["hovertemplate"].split()[0] for line in lines] == ["p50", "p99", "p95", "longest"]
    for below, above in ((0, 2), (2, 1), (1, 3)):
        pairs = zip(lines[below]["y"], lines[above]["y"], strict=True)
        assert all(low <= high * 1.001 for low, high in pairs)


def texts_of(section: Section) -> list[str]:
    texts = [block.how for block in section.blocks if isinstance(block, Chart)]
    texts += [str(getattr(block, "how", "")) for block in section.blocks]
    return texts + [text for part in section.parts for text in texts_of(part)]


def test_sentences_beside_charts_and_tables_are_spaced(results: RunSet) -> None:
    texts = [text for section in sections(results, Frames(results)) for text in texts_of(section) if text]
    assert any("checkpoints" in text for text in texts)
    for text in texts:
        assert not re.search(r"[a-z]{2}[.;,][A-Za-z]", text), text
        assert "  " not in text


def test_the_table_of_a_step_has_all_repeats_added_up(results: RunSet, tmp_path: Path) -> None:
    step = results.workloads[0].steps[step_of(results, STEP)]
    runs = results.runs_of(VARIANTS[0])
    together = merge([decode(run.histograms[STEP][ROLE]) for run in runs])
    latency = step.by_variant[VARIANTS[0]].latencies[ROLE]
    assert [latency.p50, latency.p99] == together.percentiles((50, 99))
    assert latency.max == max(run.steps[step_of(results, STEP)].roles[ROLE].latency.max or 0 for run in runs)


def test_runs_without_the_tables_that_none_need_are_drawn(tmp_path: Path) -> None:
    folders = make_campaign(tmp_path, seconds=6)
    for folder in folders:
        for table in OPTIONAL:
            (folder / f"{table}.parquet").unlink(missing_ok=True)
        record = json.loads((folder / "run.json").read_text())
        record["replicas"] = {"replication": "async", "reads": "primary", "settings": {}}
        (folder / "run.json").write_text(json.dumps(record))
        sum_anew(folder)
    results = read_results(tmp_path)
    assert [run.record.replicas is not None for run in results.runs] == [True] * len(folders)
    frames = Frames(results)
    assert frames.rates and not frames.lag
    assert sections(results, frames)

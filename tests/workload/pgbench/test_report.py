"""Charts against clients and against versions: one line per version, configs in charts of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pgstrata.page.blocks import Chart
from pgstrata.page.results import read_results
from pgstrata.workload.pgbench.report import scaling
from support.runs import make_campaign

NAMES = {"qr100": "select-only-simple-c1", "qr500": "select-only-simple-c8"}


def charts(tmp_path: Path, variants: Sequence[str]) -> dict[str, Chart]:
    """The charts of a campaign whose two range queries are called as if they differed in clients only."""
    for folder in make_campaign(tmp_path, variants=variants):
        file = folder / "run.json"
        data = json.loads(file.read_text())
        for step in data["steps"]:
            if step["name"] in NAMES:
                step |= {"name": NAMES[step["name"]], "group": "select-only, simple"}
        file.write_text(json.dumps(data))
    results = read_results(tmp_path)
    section = scaling(results, results.workloads[0])
    assert section is not None
    return {block.title: block for block in section.blocks if isinstance(block, Chart)}


@pytest.mark.long
def test_one_line_per_version_and_versions_from_old_to_new(tmp_path: Path) -> None:
    by_title = charts(tmp_path, ["pg17.11.x10a", "pg9.6.24.x10a", "pg12.22.x10a"])
    clients, versions = by_title.values()
    assert {t["name"] for t in clients.data} == {"pg9.6.24", "pg12.22", "pg17.11"}
    assert {t["meta"] for t in clients.data} == {"pg9.6.24.x10a", "pg12.22.x10a", "pg17.11.x10a"}
    assert {t["name"] for t in versions.data} == {"1 client", "8 clients"}
    assert all(t["x"] == ["pg9.6.24", "pg12.22", "pg17.11"] for t in versions.data)
    assert {t["xaxis"] for t in versions.data} == {"x1", "x2"}, "rate and latency"


@pytest.mark.long
def test_configs_have_charts_of_their_own(tmp_path: Path) -> None:
    by_title = charts(tmp_path, ["pg12.22.x", "pg17.11.x", "pg12.22.y", "pg17.11.y"])
    assert [title.partition(":")[0] for title in by_title] == [
        "select-only, simple, x",
        "select-only, simple, x",
        "select-only, simple, y",
        "select-only, simple, y",
    ]
    assert len({chart.id for chart in by_title.values()}) == 4
    for title, chart in by_title.items():
        config = title.partition(":")[0][-1]
        if "by version" in title:
            assert all(t["x"] == ["pg12.22", "pg17.11"] for t in chart.data)
        else:
            assert {t["meta"] for t in chart.data} == {f"pg12.22.{config}", f"pg17.11.{config}"}


@pytest.mark.long
@pytest.mark.parametrize("variants", [["pg17.11.x", "pg17.11.y"], ["pg12.22.x", "pg17.11.x", "pg17.11.y"]])
def test_what_is_no_question_of_versions_shares_a_chart(tmp_path: Path, variants: list[str]) -> None:
    by_title = charts(tmp_path, variants)
    assert len(by_title) == 2
    for chart in by_title.values():
        assert "version" not in chart.title
        assert variants[0] in ([t["name"] for t in chart.data] + chart.data[0]["x"])

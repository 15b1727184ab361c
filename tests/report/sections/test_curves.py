"""Curves by number of clients: drawn, with their knees, and judged in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.judge.curves import curves_of
from pgstrata.page.blocks import Chart, Prose, Table
from pgstrata.page.results import RunSet, read_results
from pgstrata.report import verdicts
from pgstrata.report.sections.curves import curve_lines, curves
from support.runs import make_campaign

NAMES = {"qr100": "mix-c1", "qr500": "mix-c8", "qr1000": "mix-c32"}


def campaign(place: Path, names: dict[str, str], repeats: int = 3) -> RunSet:
    """The results of a campaign whose range queries are called as if they differed in clients only."""
    for folder in make_campaign(place, repeats=repeats):
        file = folder / "run.json"
        data = json.loads(file.read_text())
        for step in data["steps"]:
            step["name"] = names.get(step["name"], step["name"])
        file.write_text(json.dumps(data))
    return read_results(place)


@pytest.mark.long
def test_each_variant_has_a_line_a_band_and_a_knee(tmp_path: Path) -> None:
    results = campaign(tmp_path, NAMES)
    section = curves(results, results.workloads[0])
    assert section is not None
    prose, chart, table = section.blocks
    assert isinstance(prose, Prose) and isinstance(chart, Chart) and isinstance(table, Table)
    for variant in results.variants:
        traces = [t for t in chart.data if t["meta"] == variant]
        line = next(t for t in traces if t["mode"] == "lines+markers")
        band = next(t for t in traces if t.get("fill"))
        assert line["x"] == [1, 8, 32]
        assert band["x"] == [1, 8, 32, 32, 8, 1]
        upper, lower = band["y"][:3], band["y"][:2:-1]
        assert all(low < rate < high for low, rate, high in zip(lower, line["y"], upper, strict=True))
    assert [row.variant for row in table.rows] == list(results.variants)


@pytest.mark.long
def test_report_terminal_and_compare_say_the_same_sentence(tmp_path: Path) -> None:
    results = campaign(tmp_path, NAMES)
    base, other = results.variants
    (line,) = curve_lines(results, results.workloads[0])
    assert line.startswith(f"mix, {other} against {base}: ")
    sentence = line.partition(": ")[2].removesuffix(".")
    assert f"insert/mix: {sentence}" in verdicts.notes(results.comparisons[0])


@pytest.mark.long
def test_one_repeat_has_knees_and_no_band(tmp_path: Path) -> None:
    results = campaign(tmp_path, NAMES, repeats=1)
    section = curves(results, results.workloads[0])
    assert section is not None
    chart = next(block for block in section.blocks if isinstance(block, Chart))
    assert all(not t["x"] for t in chart.data if t.get("fill"))


@pytest.mark.long
def test_two_numbers_of_clients_are_no_curve(tmp_path: Path) -> None:
    results = campaign(tmp_path, {"qr100": "mix-c1", "qr500": "mix-c8"})
    assert curves(results, results.workloads[0]) is None
    assert curve_lines(results, results.workloads[0]) == []


def test_steps_are_ordered_by_clients_and_kept_apart_by_name() -> None:
    steps = ["a-c8", "b-c1", "a-c1", "scan", "a-c16", "b-c2"]
    assert curves_of((name, name) for name in steps) == {"a": {1: "a-c1", 8: "a-c8", 16: "a-c16"}}

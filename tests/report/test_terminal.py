"""The summary in the terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from pgstrata.judge.marks import THRESHOLDS
from pgstrata.page.blocks import Cell, Column, Row, Table, words
from pgstrata.page.frames import Frames
from pgstrata.page.results import RunSet, read_results
from pgstrata.report.page import sections
from pgstrata.report.sections.relative import relative_charts
from pgstrata.report.terminal import print_summary, split
from pgstrata.store import RunKey
from support.page import Written
from support.runs import VARIANTS, make_campaign, make_run


def shown(results: RunSet, width: int = 100, terminal: bool = False) -> str:
    out = io.StringIO()
    print_summary(
        results,
        Console(
            file=out, width=width, force_terminal=terminal, color_system="standard" if terminal else None
        ),
    )
    return out.getvalue()


def test_three_tables_within_100_columns_with_whole_numbers(comparison: Written) -> None:
    results = read_results(comparison.results)
    text = shown(results)
    assert max(map(cell_len, text.splitlines())) <= 100
    assert "…" not in text
    for title in ("Rates: insert", "Relative rates: insert", "Background writes: insert"):
        assert title in text
    for row in results.workloads[0].summary.absolute.rows:
        for cell in row.cells:
            if cell.value is not None:
                assert f"{cell.value:,.0f}" in text


def test_plain_where_there_is_no_terminal_and_coloured_where_there_is_one(comparison: Written) -> None:
    results = read_results(comparison.results, thresholds=THRESHOLDS)
    assert "\x1b" not in shown(results)
    assert "▼" in shown(results) and "▲" in shown(results)
    assert "\x1b[32m" in shown(results, terminal=True)
    assert "\x1b[31m" in shown(results, terminal=True)


def test_where_nothing_could_be_measured_the_reason_stands_in_the_answer(tmp_path: Path) -> None:
    make_campaign(tmp_path, repeats=2, seconds=2, failed=VARIANTS)
    text = shown(read_results(tmp_path))
    sentence = " ".join(text.split())
    both = " and ".join(f"{variant}, insert" for variant in VARIANTS)
    assert sentence.startswith(f"4 runs failed. {both}: the server died in step l.i1. No run")
    assert "nothing to compare yet" in sentence and "at the end" not in sentence
    assert f"last words ({VARIANTS[0]}, insert):" in sentence and "terminated by signal 9" in sentence


def test_where_only_the_base_could_be_measured_nothing_is_relative_to_it(tmp_path: Path) -> None:
    make_campaign(tmp_path, seconds=2, failed=VARIANTS[1:])
    results = read_results(tmp_path)
    text = shown(results)
    assert "Rates: insert" in text and "Relative rates" not in text
    assert not relative_charts(results, results.workloads[0]), "a chart without a mark"


def test_where_nothing_was_measured_the_failed_runs_come_right_after_the_answer(tmp_path: Path) -> None:
    make_campaign(tmp_path, seconds=2, failed=VARIANTS)
    results = read_results(tmp_path)
    assert [section.id for section in sections(results, Frames(results))][:2] == ["summary", "failures"]


@pytest.mark.long
def test_servers_compiled_unlike_each_other_are_named_at_once(tmp_path: Path) -> None:
    for variant, flags in (("pg10", "-O2"), ("pg11", "-Os"), ("pg12", "-Os")):
        make_run(tmp_path, RunKey("c", variant, "insert", 1), build=f"'CFLAGS={flags}' '--with-icu'")
    text = " ".join(shown(read_results(tmp_path)).split())
    assert "pg11, pg12: compiled with -Os where pg10 has -O2" in text


def test_columns_of_numbers_end_where_their_heading_ends(single: Written) -> None:
    lines = shown(read_results(single.results)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Variant"))
    units = [m.end() for m in re.finditer(r"\S+( rows)?/s", lines[at])]
    values = [m.end() for m in re.finditer(r"[\d,]+(?=\s|$)", lines[at + 2][14:])]
    assert [v + 14 for v in values] == units


def test_a_narrow_terminal_cuts_no_number(comparison: Written) -> None:
    text = shown(read_results(comparison.results), width=40, terminal=True)
    assert "…" not in text
    for row in read_results(comparison.results).workloads[0].summary.absolute.rows:
        for cell in row.cells:
            if cell.value is not None:
                assert f"{cell.value:,.0f}" in text


def test_names_are_no_markup(comparison: Written, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(read_results(comparison.results))
    assert "insert" in capsys.readouterr().out
    table = Table("t", "[red]T[/]", [Column("v", "[bold]V")], [Row([words("[link]x")])], "")
    assert split(table, 100)[0][1][0].cells[0].text == "[link]x"


@given(
    st.lists(st.integers(min_value=1, max_value=30), min_size=1, max_size=40),
    st.integers(min_value=20, max_value=200),
)
def test_splitting_keeps_every_column_once_and_in_order(widths: list[int], width: int) -> None:
    columns = [Column("variant", "V"), *(Column(f"c{i}", "x" * w) for i, w in enumerate(widths))]
    table = Table("t", "T", columns, [Row([words("a")] + [Cell(1, "1")] * len(widths))], "")
    parts = split(table, width)
    assert [c.key for part_columns, _ in parts for c in part_columns[1:]] == [
        f"c{i}" for i in range(len(widths))
    ]
    for part_columns, rows in parts:
        assert part_columns[0].key == "variant" and len(rows[0].cells) == len(part_columns)
        needed = sum(len(c.title) + 2 for c in part_columns)
        assert needed <= width + 2 or len(part_columns) == 2


@pytest.mark.parametrize("width", [60, 80, 100])
def test_long_names_and_reasons_are_broken_and_numbers_stay_beside_them(width: int) -> None:
    name, why = "monthly-" * 8, "both sides reject it: cannot execute SELECT in a read-only transaction"
    columns = [Column("query", "Query"), Column("ms", "pg17", "ms"), Column("verdict", "Verdict")]
    table = Table("t", "T", columns, [Row([words(name), Cell(1.5, "1.50"), Cell(None, "no", small=why)])], "")
    ((part, (row,)),) = split(table, width)
    assert len(part) == 3 and row.cells[1].text == "1.50"
    assert row.cells[0].text.replace("\n", "") == name and row.cells[2].small.replace("\n", " ") == why
    assert max(map(len, (row.cells[0].text + "\n" + row.cells[2].small).splitlines())) <= width // 3


def test_with_thresholds_the_answer_says_how_much_of_it_is_proven(tmp_path: Path) -> None:
    for variant, speed in (("pg11", 1.0), ("pg12", 0.9)):
        make_run(tmp_path, RunKey("c", variant, "insert", 1), speed=speed, seconds=3)
    text = " ".join(shown(read_results(tmp_path, thresholds=THRESHOLDS)).split())
    assert "pg12 slower at 10 (none proven) of 10 steps" in text


def test_verdicts_on_two_variants_are_one_table_on_a_terminal_of_80_columns() -> None:
    """What stands small below a word is broken before a table is split."""
    columns = [
        Column("step", "Step", align="left"),
        Column("base", "pg13.23", "queries/s"),
        Column("other", "pg17.11", "queries/s"),
        Column("change", "Change"),
        Column("interval", "95 % interval", align="left"),
        Column("verdict", "Verdict", align="left"),
    ]
    rows = [
        Row(
            [
                words("points-notcovered-si"),
                *(Cell(1.0, text) for text in ("76,900", "78,413", "▲ +2.0 %", "+1.2 % … +2.7 %")),
                Cell("faster", "▲ faster", small="398 pairs of slices"),
            ]
        )
    ]
    ((shown_columns, shown_rows),) = split(Table("verdicts", "Verdicts", columns, rows, ""), 80)
    assert shown_columns == columns and shown_rows[0].cells[-1].small == "398 pairs\nof slices"
    assert len(split(Table("verdicts", "Verdicts", columns, rows, ""), 100)) == 1

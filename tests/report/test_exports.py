"""CSV and Markdown: safe to open, the same numbers as on the page."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.page.blocks import Cell, Column, Row, Table, words
from pgstrata.report.export_csv import plain, write_csv
from pgstrata.report.export_markdown import escape, fence, table_lines


def table(*cells: Cell, name: str = "t", keys: tuple[tuple[str, str], ...] = ()) -> Table:
    columns = [Column(f"c{i}", f"c{i}", "s") for i in range(len(cells))]
    return Table(name, "T", columns, [Row(cells)], "how", keys=keys)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_text_is_no_formula_for_a_spreadsheet(start: str) -> None:
    text = f"{start}HYPERLINK(1)"
    read = list(csv.reader(io.StringIO(write_csv([table(words(text))])["t.csv"], newline="")))
    assert read[1][0] == "'" + text


def test_negative_numbers_are_numbers() -> None:
    assert plain(-1.5) == "-1.5"


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_any_text_comes_back_out_of_the_csv(texts: list[str]) -> None:
    sheet = write_csv([table(*map(words, texts))])["t.csv"]
    read = list(csv.reader(io.StringIO(sheet, newline="")))
    assert len(read) == 2
    assert [cell.removeprefix("'") for cell in read[1][:-1]] == [text.removeprefix("'") for text in texts]


def test_tables_of_one_name_share_a_file_and_never_shift_columns() -> None:
    first = table(Cell(1, "1"), keys=(("step", "a"),))
    columns = [Column("other", "o"), Column("c0", "c0", "s")]
    second = Table("t", "T", columns, [Row([Cell(7, "7"), Cell(2, "2")])], "how", keys=(("step", "b"),))
    read = list(csv.DictReader(io.StringIO(write_csv([first, second])["t.csv"])))
    assert [(row["step"], row["c0 [s]"], row["other"]) for row in read] == [("a", "1", ""), ("b", "2", "7")]


def test_marks_say_in_words_what_colours_say() -> None:
    sheets = write_csv([table(Cell(1, "1", "missed"), Cell(2, "2", "bad"), Cell(None, "no data", "missing"))])
    assert "c0: SLA missed; c1: bad; c2: no data" in sheets["t.csv"]


@given(st.text())
def test_a_markdown_cell_stays_one_cell_of_one_line(text: str) -> None:
    lines = table_lines(Table("t", "T", [Column("a", "A")], [Row([words(text)])], "how"))
    assert len(lines) == 3
    assert lines[2].count("|") - lines[2].count("\\|") == 2
    assert len(lines[2].splitlines()) == 1


def test_markdown_has_no_html_and_no_links_of_others() -> None:
    assert escape("<img src=x> [a](b) `c` | *d* & e") == (
        "\\<img src=x\\> \\[a\\](b) \\`c\\` \\| \\*d\\* &amp; e"
    )


def test_a_log_cannot_close_its_fence() -> None:
    lines = fence("a\n````\n# heading").splitlines()
    assert lines[0] == "`````text" and lines[-1] == "`````"

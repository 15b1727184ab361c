"""Fragments are read by the grammar of postgresql.conf."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.server.config.conf_file import Fragment, assignments, quoted


def read(text: str) -> list[tuple[str, str, int]]:
    return [(a.name, a.value, a.line) for a in assignments(Fragment("mine", text))]


def test_every_way_of_writing_a_setting() -> None:
    text = (
        "# a comment\n"
        "\n"
        "shared_buffers = 128MB\n"
        "Work_Mem=4MB # more\r\n"
        "search_path 'a, b'\n"
        "  log_line_prefix='it''s \\'quoted\\' # no comment' # a comment\n"
        "random_page_cost\t=\t1.1\n"
        "auto_explain.log_min_duration = -1\n"
        "a = ''"
    )
    assert read(text) == [
        ("shared_buffers", "128MB", 3),
        ("work_mem", "4MB", 4),
        ("search_path", "a, b", 5),
        ("log_line_prefix", "it's 'quoted' # no comment", 6),
        ("random_page_cost", "1.1", 7),
        ("auto_explain.log_min_duration", "-1", 8),
        ("a", "", 9),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "work_mem",
        "= 4MB",
        "work_mem = ",
        "work_mem = 4MB 5MB",
        "work_mem = 'open",
        "1x = 2",
        "a = b = c",
        "[section]",
    ],
)
def test_what_is_no_setting_names_file_and_line(line: str) -> None:
    with pytest.raises(UsageError, match=r"^mine\.conf:2: not a setting"):
        read(f"# first\n{line}\n")


@pytest.mark.parametrize(
    "line", ["include 'x.conf'", "INCLUDE_DIR = 'conf.d'", "include_if_exists='x'", "include"]
)
def test_includes_are_refused(line: str) -> None:
    with pytest.raises(UsageError, match="include directives"):
        read(line)


@given(st.text(st.characters(blacklist_categories=["Cc", "Cs"])))
@example("\\")
@example("'")
@example("\\'")
@example("100% '#\\n")
def test_a_quoted_value_reads_back(value: str) -> None:
    assert read(f"a = {quoted(value)} # {value}") == [("a", value, 1)]


@given(st.text())
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        found = read(text)
    except UsageError as error:
        assert error.message.startswith("mine.conf:")
    else:
        assert all(name and "\n" not in value for name, value, _ in found)

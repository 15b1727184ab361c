"""Config files are read by the grammar of postgresql.conf."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.server.config.conf_file import ConfigFile, assignments, quoted, with_included


def read(text: str) -> list[tuple[str, str, int]]:
    return [(a.name, a.value, a.line) for a in assignments(ConfigFile("mine", text))]


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
        "a = ''\n"
        "b'c'"
    )
    assert read(text) == [
        ("shared_buffers", "128MB", 3),
        ("work_mem", "4MB", 4),
        ("search_path", "a, b", 5),
        ("log_line_prefix", "it's 'quoted' # no comment", 6),
        ("random_page_cost", "1.1", 7),
        ("auto_explain.log_min_duration", "-1", 8),
        ("a", "", 9),
        ("b", "c", 10),
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
def test_text_that_is_no_file_includes_nothing(line: str) -> None:
    with pytest.raises(UsageError, match="include directives"):
        read(line)


def test_included_files_stand_in_the_place_of_the_directive(tmp_path: Path) -> None:
    (tmp_path / "conf.d" / "more").mkdir(parents=True)
    (tmp_path / "conf.d" / "20-b.conf").write_text("work_mem = 2MB\ninclude 'more/deep.conf'\n")
    (tmp_path / "conf.d" / "10-a.conf").write_text("work_mem = 1MB\n")
    (tmp_path / "conf.d" / "more" / "deep.conf").write_text("jit = off\n")
    (tmp_path / "conf.d" / ".hidden.conf").write_text("no setting at all\n")
    (tmp_path / "conf.d" / "README").write_text("no setting at all\n")
    main = tmp_path / "postgresql.conf"
    main.write_text(
        "work_mem = 3MB\ninclude_dir = 'conf.d'\nINCLUDE_IF_EXISTS 'absent.conf'\ninclude'last.conf'\n"
    )
    (tmp_path / "last.conf").write_text("fsync = off # last")
    config_file = with_included(ConfigFile("postgresql", main.read_text(), main))
    lines = assignments(config_file)
    assert [(a.name, a.value, Path(a.place).name) for a in lines] == [
        ("work_mem", "3MB", "postgresql.conf:1"),
        ("work_mem", "1MB", "10-a.conf:1"),
        ("work_mem", "2MB", "20-b.conf:1"),
        ("jit", "off", "deep.conf:1"),
        ("fsync", "off", "last.conf:1"),
    ]
    whole = assignments(ConfigFile("whole", config_file.whole_text))
    assert [(a.name, a.value) for a in whole] == [(a.name, a.value) for a in lines]


def test_what_cannot_be_included_is_said_of_all_directives_at_once(tmp_path: Path) -> None:
    (tmp_path / "circle.conf").write_text("include 'a.conf'\n")
    (tmp_path / "binary.conf").write_bytes(b"\xff\xfe")
    main = tmp_path / "a.conf"
    main.write_text(
        "include 'absent.conf'\ninclude_dir 'nowhere'\ninclude 'circle.conf'\ninclude\n"
        "include 'binary.conf'\nwork_mem = 1MB\n"
    )
    with pytest.raises(UsageError) as error:
        assignments(with_included(ConfigFile("a", main.read_text(), main)))
    message = error.value.message
    for line, words in enumerate(
        ["there is no included config file", "cannot be read", "includes itself", "without a file", "UTF-8"],
        1,
    ):
        place = "circle.conf:1" if "itself" in words else f"a.conf:{line}"
        assert re.search(rf"{place}: [^\n]*{words}", message), (words, message)
    # Most copies of Debian's file lack the folder beside it.
    assert "nowhere cannot be read: No such file or directory (copy it from the server" in message


def test_files_that_include_files_have_an_end(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.conf").write_text(f"include '{number + 1}.conf'\n")
    (tmp_path / "20.conf").write_text("jit = off\n")
    with pytest.raises(UsageError, match="more than 10 deep"):
        assignments(with_included(ConfigFile("0", "include '1.conf'", tmp_path / "0.conf")))
    (tmp_path / "d").mkdir()
    for number in range(300):
        (tmp_path / "d" / f"{number}.conf").write_text("jit = off\n")
    with pytest.raises(UsageError, match="more than 200 files"):
        assignments(with_included(ConfigFile("m", "include_dir 'd'", tmp_path / "m.conf")))


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as error:
        read("work_mem\njit = off\n= 4MB\na = 'open")
    assert [line.strip()[:12] for line in error.value.message.splitlines()[1:]] == [
        "mine.conf:1:",
        "mine.conf:3:",
        "mine.conf:4:",
    ]
    assert error.value.message.startswith("3 lines of the config cannot be used")


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
        settings = read(text)
    except UsageError as error:
        assert re.match(r"mine\.conf:|\d+ lines of the config", error.message)
    else:
        assert all(name and "\n" not in value for name, value, _ in settings)

"""The table of what old trees need on today's compilers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgstrata.server.system.compiler import Compiler
from pgstrata.source.mend import apply_edits, needed, needs

GCC = Compiler(("cc",), "gcc", 12, "cc 12.2.0, x86_64-linux-gnu")
OLD_GCC = Compiler(("cc",), "gcc", 4, "cc 4.4.7, x86_64-linux-gnu")
CLANG = Compiler(("clang",), "clang", 14, "clang 14.0.6, x86_64-linux-gnu")


@pytest.mark.parametrize("need", needs(), ids=lambda need: need.name)
def test_every_line_says_why_and_does_something(need) -> None:  # type: ignore[no-untyped-def]
    assert len(need.reason) > 30 and need.first <= need.last < 100000
    assert need.flags or need.edits
    for edit in need.edits:
        re.compile(edit.find)
        assert not Path(edit.files).is_absolute() and ".." not in Path(edit.files).parts


@pytest.mark.program
def test_a_need_holds_for_its_versions_and_compilers() -> None:
    def names(version: int, compiler: Compiler) -> set[str]:
        return {need.name for need in needed(version, compiler)}

    assert "loops-over-flexible-arrays" in names(70430, GCC)
    assert "loops-over-flexible-arrays" in names(90426, GCC)
    assert "loops-over-flexible-arrays" not in names(90500, GCC)
    assert "loops-over-flexible-arrays" not in names(70430, CLANG)
    assert "signed-overflow" in names(70430, CLANG)
    assert "signed-overflow" not in names(70430, OLD_GCC)
    new_clang = Compiler(("clang-16",), "clang", 16, "clang 16.0.6, x86_64-linux-gnu")
    assert "undeclared-functions" in names(70430, new_clang) & names(90624, new_clang)
    assert "undeclared-functions" not in names(90624, CLANG) | names(100000, new_clang)
    assert names(100000, GCC) == names(170000, GCC) == set()


def test_an_edit_changes_the_copy_once_and_is_told(tmp_path: Path) -> None:
    line = (
        "if echo \"$pgac_flex_version\" | $AWK '{ if ($1 = 2 && $2 = 5 && $3 >= 31) exit 0; else exit 1;}'\n"
    )
    (tmp_path / "configure").write_text(line)
    wanted = [need for need in needs() if need.name == "flex-2.6"]
    assert [need.name for need in apply_edits(tmp_path, wanted)] == ["flex-2.6"]
    assert "$1 > 2 || $2 > 5 || $3 >= 31" in (tmp_path / "configure").read_text()
    assert apply_edits(tmp_path, wanted) == []


@pytest.mark.program
def test_development_trees_of_9_6_may_still_include_the_scanner(tmp_path: Path) -> None:
    (tmp_path / "src/backend/parser").mkdir(parents=True)
    (grammar := tmp_path / "src/backend/parser/gram.y").write_text("#undef yylloc\n")
    assert [need.name for need in apply_edits(tmp_path, needed(90600, GCC))] == ["yylex-of-flex"]
    assert grammar.read_text() == "#undef yylloc\n#undef yylex\n"
    grammar.write_text("/* as it was released */\n")
    assert apply_edits(tmp_path, needed(90600, GCC)) == []


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        (
            "src/backend/access/transam/xlog.c",
            '#define DEFAULT_SYNC_METHOD_STR    "open_datasync"\n'
            "#define DEFAULT_SYNC_METHOD\t\t   SYNC_METHOD_OPEN\n"
            "#define DEFAULT_SYNC_FLAGBIT\t   OPEN_DATASYNC_FLAG\n",
            '#define DEFAULT_SYNC_METHOD_STR "fdatasync"\n#define DEFAULT_SYNC_METHOD SYNC_METHOD_FDATASYNC\n'
            "#define DEFAULT_SYNC_FLAGBIT 0\n",
        ),
        (
            "src/include/access/xlogdefs.h",
            "#define DEFAULT_SYNC_METHOD\t\tSYNC_METHOD_OPEN_DSYNC\n",
            "#define DEFAULT_SYNC_METHOD SYNC_METHOD_FDATASYNC\n",
        ),
    ],
)
def test_old_servers_sync_as_linux_did_in_their_time(
    tmp_path: Path, file: str, before: str, after: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(f"#if defined(OPEN_DATASYNC_FLAG)\n{before}#else\n")
    assert [need.name for need in apply_edits(tmp_path, needed(80026, CLANG))] == [
        *(need.name for need in needed(80026, CLANG) if need.flags),
        "wal-sync-on-linux",
    ]
    assert (tmp_path / file).read_text() == f"#if defined(OPEN_DATASYNC_FLAG)\n{after}#else\n"
    # Later point releases ask for the platform's own first.
    (tmp_path / file).write_text(f"#elif defined(OPEN_DATASYNC_FLAG)\n{before}#else\n")
    assert not {need.name for need in apply_edits(tmp_path, needed(80026, CLANG))} & {"wal-sync-on-linux"}

"""The table of what old trees need on today's compilers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgstrata.server.system.compiler import Compiler
from pgstrata.source.mend import apply_edits, needed, needs

GCC = Compiler(("cc",), "gcc", 12, "cc 12.2.0, x86_64-linux-gnu")
OLD_GCC = Compiler(("cc",), "gcc", 4, "cc 4.4.7, x86_64-linux-gnu")
NEW_CLANG = Compiler(("clang-16",), "clang", 16, "clang 16.0.6, x86_64-linux-gnu")
CLANG = Compiler(("clang",), "clang", 14, "clang 14.0.6, x86_64-linux-gnu")


@pytest.mark.parametrize("need", needs(), ids=lambda need: need.name)
def test_every_line_says_why_and_does_something(need) -> None:  # type: ignore[no-untyped-def]
    assert len(need.reason) > 30 and need.first <= need.last < 110000
    assert need.flags or need.edits
    assert not need.flags or need.if_found or need.unless_found
    for sign in (*need.if_found, *need.unless_found):
        re.compile(sign.find)
    for edit in need.edits:
        re.compile(edit.find)
        assert not Path(edit.files).is_absolute() and ".." not in Path(edit.files).parts


@pytest.mark.program
def test_a_need_is_looked_for_with_its_compilers_and_in_the_version_after() -> None:
    def names(version: int, compiler: Compiler) -> set[str]:
        return {need.name for need in needed(version, compiler)}

    assert "loops-over-flexible-arrays" in names(70430, GCC) & names(90426, GCC) & names(90500, GCC)
    assert "loops-over-flexible-arrays" not in names(90600, GCC) | names(70430, CLANG)
    assert "signed-overflow" in names(70430, CLANG)
    assert "signed-overflow" not in names(70430, OLD_GCC)
    assert "undeclared-functions" in names(70430, NEW_CLANG) & names(100000, NEW_CLANG)
    assert "undeclared-functions" not in names(90624, CLANG) | names(110000, NEW_CLANG)
    assert names(110000, GCC) == names(170000, GCC) == set()


OLD_C_H = "struct varlena\n{\n\tchar\t\tvl_len_[4];\n\tchar\t\tvl_dat[1];\n};\n"
NEW_C_H = OLD_C_H.replace("[1]", "[FLEXIBLE_ARRAY_MEMBER]")
OLD_CONFIGURE = "cat >conftest.c <<_ACEOF\nmain() {\n  exit(! does_int64_work());\n}\n"
NEW_CONFIGURE = OLD_CONFIGURE.replace("main() {", "int\nmain()\n{").replace("exit(", "return (")


@pytest.mark.parametrize(
    ("version", "compiler", "c_h", "configure", "names"),
    [
        (80026, GCC, OLD_C_H, OLD_CONFIGURE, {"loops-over-flexible-arrays", "signed-overflow"}),
        (80026, NEW_CLANG, OLD_C_H, OLD_CONFIGURE, {"signed-overflow", "undeclared-functions"}),
        # Before its change was made, a development tree of the next version needs what the last one did.
        (90500, GCC, OLD_C_H, OLD_CONFIGURE, {"loops-over-flexible-arrays"}),
        (90500, GCC, NEW_C_H, OLD_CONFIGURE, set()),
        (80300, GCC, NEW_C_H, OLD_CONFIGURE, {"signed-overflow"}),
        (80300, GCC, NEW_C_H, OLD_CONFIGURE + "CFLAGS='-fwrapv'\n", set()),
        (100000, NEW_CLANG, NEW_C_H, OLD_CONFIGURE, {"undeclared-functions"}),
        (100000, NEW_CLANG, NEW_C_H, NEW_CONFIGURE, set()),
        # A point release that sets the flag itself.
        (90426, GCC, OLD_C_H, OLD_CONFIGURE + "CFLAGS='-fno-aggressive-loop-optimizations'\n", set()),
    ],
)
@pytest.mark.program
def test_flags_are_added_by_what_stands_in_the_tree(
    tmp_path: Path, version: int, compiler: Compiler, c_h: str, configure: str, names: set[str]
) -> None:
    (tmp_path / "src/include").mkdir(parents=True)
    (tmp_path / "src/include/c.h").write_text(c_h)
    (tmp_path / "configure").write_text(configure)
    assert {need.name for need in apply_edits(tmp_path, needed(version, compiler))} == names


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
    assert "wal-sync-on-linux" in {need.name for need in apply_edits(tmp_path, needed(80026, CLANG))}
    assert (tmp_path / file).read_text() == f"#if defined(OPEN_DATASYNC_FLAG)\n{after}#else\n"
    # Later point releases ask for the platform's own first.
    (tmp_path / file).write_text(f"#elif defined(OPEN_DATASYNC_FLAG)\n{before}#else\n")
    assert not {need.name for need in apply_edits(tmp_path, needed(80026, CLANG))} & {"wal-sync-on-linux"}

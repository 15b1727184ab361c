"""Building with meson and ninja: what is built of a tree, its options, and its flags."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pgstrata.errors import UsageError
from pgstrata.server.find.recipe import SHIPPED, Build
from pgstrata.source.build import build
from pgstrata.source.build_cache import failures
from pgstrata.source.tree import tree_of_folder
from support.tree import CONFIGURE, small_tree

pytestmark = pytest.mark.program

TOP = """project('postgresql', ['c'], version: '17.5')
subdir('src/bin')
executable('postgres', 'src/backend/main.c', install: true)
"""

OPTIONS = """option('rpath', type: 'boolean', value: true)
option('lz4', type: 'feature', value: 'auto')
option('cassert', type: 'boolean', value: false)
"""


@pytest.fixture
def tree(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with both build systems, and programs of which a server needs one."""
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    folder = small_tree(place / "pg")
    (folder / "meson.build").write_text(TOP)
    (folder / "meson_options.txt").write_text(OPTIONS)
    for program in ("initdb", "psql"):
        (folder / "src/bin" / program).mkdir(parents=True)
    (folder / "src/bin/meson.build").write_text("subdir('initdb')\nsubdir('psql')\n")
    (folder / "src/bin/initdb/meson.build").write_text(
        "executable('initdb', '../../backend/main.c', install: true)\n"
    )
    (folder / "src/bin/psql/meson.build").write_text("error('nobody needs psql here')\n")
    return folder


def test_a_tree_becomes_a_server_by_meson_too(tree: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in tree.rglob("*")}
    built = build(tree_of_folder(tree), Build(system="meson"))
    assert subprocess.run([built.bin_dir / "postgres"], capture_output=True).stdout.startswith(b"postgres (")
    assert sorted(p.name for p in built.bin_dir.iterdir()) == ["initdb", "postgres"]
    assert built.record.system == "meson" and built.record.cflags == "-O2 -g"
    assert {p: p.stat().st_mtime_ns for p in tree.rglob("*")} == before
    assert build(tree_of_folder(tree), SHIPPED["o2"]).key != built.key


def test_options_that_only_meson_has_choose_it(tree: Path) -> None:
    built = build(tree_of_folder(tree), Build(meson=("-Dlz4=disabled",)))
    assert built.record.system == "meson" and "'-Dlz4=disabled'" in built.configured
    assert "'-Db_staticpic=true'" in built.configured, "what meson takes for granted and autoconf does not"
    alike = build(tree_of_folder(tree), Build(meson=("-Db_staticpic=false",)))
    assert "staticpic=false" in alike.configured and "staticpic=true" not in alike.configured
    both = build(tree_of_folder(tree), SHIPPED["debug-asserts"])
    assert both.record.system == "autoconf"
    checked = build(tree_of_folder(tree), SHIPPED["debug-asserts"].with_keys({"system": "meson"}, tree))
    assert "'-Dcassert=true'" in checked.configured


def test_a_tree_has_the_build_systems_whose_files_it_has(place: Path, tree: Path) -> None:
    """The tree of a next version is numbered months before it has what that version brings."""
    early = small_tree(place / "early", version="16devel")
    with pytest.raises(UsageError, match=r"no meson\.build"):
        build(tree_of_folder(early), Build(system="meson"))
    (tree / "configure.ac").write_text("AC_INIT([PostgreSQL], [15devel], [nobody])\n")
    assert build(tree_of_folder(tree), Build(system="meson")).record.system == "meson"


@pytest.mark.parametrize(
    ("file", "text", "relocatable"),
    [
        ("src/backend/utils/init/findbe.c", "", False),
        ("src/port/path.c", "first_path_separator", False),
        ("src/port/path.c", "make_relative_path", True),
    ],
)
def test_where_a_server_looks_for_its_files_is_told_by_its_source(
    place: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, relocatable: bool
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    header = """printf '#define PREFIX "%s"\\n' "$prefix" >src/backend/prefix.h\n"""
    main = '#include <stdio.h>\n#include "prefix.h"\nint main(void) { puts(PREFIX); return 0; }\n'
    version = "7.4.30" if relocatable else "17.5"
    folder = small_tree(place / "pg", version=version, main=main, configure=CONFIGURE + header)
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(text)
    built = build(tree_of_folder(folder), Build())
    prefix = subprocess.run([built.bin_dir / "postgres"], capture_output=True, text=True).stdout.strip()
    assert prefix == ("/usr/local/pgsql" if relocatable else str(built.bin_dir.parent))


@pytest.mark.parametrize(
    ("option", "message", "next_step"),
    [
        ("-Dlz5=enabled", "meson has no option lz5 in this version", "did you mean -Dlz4=…?"),
        ("-Dprefix=/usr", "-Dprefix is set by pgstrata", "cflags"),
        ("--with-lz4", "is not of the form -Dname=value", ""),
    ],
)
def test_an_option_that_meson_does_not_have_names_the_nearest(
    tree: Path, option: str, message: str, next_step: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        build(tree_of_folder(tree), Build(system="meson", meson=(option,)))
    assert next_step in (caught.value.hint or "")
    assert failures() == []

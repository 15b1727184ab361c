"""Commits that change no code of a server are told by their paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.server.find.recipe import Build
from pgstrata.source.idle import changes_no_code, idle_commits, is_left_out
from support.tree import commit, git, repository


@pytest.mark.parametrize(
    "path",
    [
        "doc/src/sgml/ref/vacuum.sgml",
        "src/test/regress/sql/join.sql",
        "src/test/modules/test_slru/test_slru.c",
        "src/backend/po/de.po",
        "src/backend/access/nbtree/README",
        "contrib/hstore/expected/hstore.out",
        "contrib/hstore/sql/hstore.sql",
        "src/bin/pg_dump/t/002_pg_dump.pl",
        "src/tools/pgindent/typedefs.list",
        "README.md",
        ".git-blame-ignore-revs",
    ],
)
def test_documentation_and_tests_are_in_no_server(path: str) -> None:
    assert changes_no_code(path.encode())


@pytest.mark.parametrize(
    "path",
    [
        "src/backend/executor/execMain.c",
        "src/include/catalog/pg_proc.dat",
        "src/include/catalog/catversion.h",
        "src/backend/catalog/sql_features.txt",
        "contrib/hstore/hstore--1.8.sql",
        "src/backend/utils/misc/postgresql.conf.sample",
        "src/timezone/tznames/Default",
        "configure.ac",
        "meson.build",
        "src/common/t/code.c",
        "src/backend/Makefile",
    ],
)
def test_what_is_compiled_or_installed_is_code(path: str) -> None:
    assert not changes_no_code(path.encode())


@pytest.mark.parametrize(
    ("path", "is_out"),
    [
        ("src/bin/psql/command.c", True),
        ("src/bin/initdb/initdb.c", False),
        ("src/bin/Makefile", False),
        ("src/interfaces/ecpg/preproc/ecpg.c", True),
        ("src/interfaces/libpq/fe-exec.c", False),
        ("src/pl/plperl/plperl.c", True),
        ("src/pl/plpgsql/src/pl_exec.c", False),
        ("src/backend/main/main.c", False),
        ("src/include/plperl/plperl.h", False),
        ("contrib/pgcrypto/pgp.c", True),
        ("contrib/pg_buffercache/pg_buffercache_pages.c", False),
        ("contrib/contrib-global.mk", False),
    ],
)
def test_what_no_build_compiles_is_left_out(path: str, is_out: bool) -> None:
    assert is_left_out(path.encode(), Build()) is is_out


def test_a_build_with_modules_may_need_any_of_contrib() -> None:
    for recipe in (Build(contrib=("earthdistance",)), Build(extensions=(Path("mine"),))):
        assert not is_left_out(b"contrib/cube/cube.c", recipe)
        assert is_left_out(b"src/bin/psql/command.c", recipe)


@pytest.mark.program
def test_commits_are_idle_by_all_of_their_files(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    first = git(repo, "rev-parse", "HEAD")
    commits = []
    for files in (["doc/a.sgml"], ["doc/b.sgml", "src/x.c"], ["src/test/é\n.sql"], []):
        for name in files:
            (repo / name).parent.mkdir(parents=True, exist_ok=True)
            (repo / name).write_text("x")
        commits.append(commit(repo, "a change"))
    git(repo, "checkout", "-q", "-b", "side")
    (repo / "src/y.c").write_text("x")
    commit(repo, "code on a branch")
    git(repo, "checkout", "-q", "main")
    (repo / "doc/c.sgml").write_text("x")
    commits.append(commit(repo, "more documentation"))
    git(repo, "merge", "-q", "--no-ff", "-m", "a merge with code", "side")
    commits.append(git(repo, "rev-parse", "HEAD"))
    idle = idle_commits(repo, first, commits[-1], Build())
    assert [commit_ in idle for commit_ in commits] == [True, False, True, True, True, False]

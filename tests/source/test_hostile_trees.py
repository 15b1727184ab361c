"""Trees and programs of others: nothing runs as root, and nothing that another user could change."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pgstrata.errors import OwnershipError, PgstrataError
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.recipe import SHIPPED
from pgstrata.source.build import build
from pgstrata.source.tree import tree_of_folder
from support.program import Program
from support.tree import CONFIGURE, repository, small_tree
from support.users import STRANGER, needs_root

pytestmark = needs_root

ASKING = (
    CONFIGURE
    + """{ echo "uid=`id -u` home=$HOME"; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status
grep -c : /proc/net/dev; env; ls "$HOME"; } > asked 2>&1
cp asked MARKS/asked
"""
)

PROGRAM = '#!/bin/sh\nid -u >> {marker}\necho "postgres (PostgreSQL) 17.5"\n'


@pytest.fixture(autouse=True)
def _cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))


def open_folder(folder: Path) -> Path:
    """A folder into which every account may write, as a marker of what ran as whom."""
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.mark.program
def test_a_build_has_no_privileges(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "canary")
    marks = open_folder(place / "marks")
    build(
        tree_of_folder(small_tree(place / "pg", configure=ASKING.replace("MARKS", str(marks)))), SHIPPED["o2"]
    )
    asked = (marks / "asked").read_text()
    assert "uid=0" not in asked and "uid=" in asked
    assert "CapEff:\t0000000000000000" in asked and "NoNewPrivs:\t1" in asked
    assert f"HOME={Path.home()}" not in asked and f"home={place / 'cache/building'}" in asked
    assert "canary" not in asked


@pytest.mark.program
def test_a_build_has_no_network(place: Path) -> None:
    can = subprocess.run(["unshare", "--net", "true"], capture_output=True)
    if can.returncode:
        pytest.skip("this kernel or container refuses network namespaces")
    marks = open_folder(place / "marks")
    build(
        tree_of_folder(small_tree(place / "pg", configure=ASKING.replace("MARKS", str(marks)))), SHIPPED["o2"]
    )
    assert "\n1\n" in (marks / "asked").read_text()  # a loopback that is down, and no other device


@pytest.mark.program
@pytest.mark.parametrize(
    "plant",
    [
        "ln -sf {victim} $(DESTDIR)$(prefix)/built.json",
        "ln -sf {victim} ../../../log; ln -sf {victim} ../../../../log",
        "ln -sf {folder} $(DESTDIR)$(prefix)/lib",
        "ln -sf {folder} $(DESTDIR)$(prefix)/away",
        "ln -f {victim} $(DESTDIR)$(prefix)/hard",
        "rm -f ../../../config.cache; ln -sf {victim} ../../../config.cache",
    ],
)
def test_root_follows_nothing_that_a_build_leaves(place: Path, plant: str) -> None:
    """Links where root writes next: the record, the log, folders, and a file that root alone may read."""
    (folder := place / "precious").mkdir()
    (victim := folder / "victim").write_text("secret")
    victim.chmod(0o600)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in (folder, victim)}
    tree = small_tree(place / "pg")
    makefile = tree / "src/backend/Makefile"
    line = plant.format(victim=victim, folder=folder)
    makefile.write_text(makefile.read_text() + f"\t-{line}\n")
    try:
        build(tree_of_folder(tree), SHIPPED["o2"])
    except PgstrataError as error:
        assert "is not unpacked" in error.message
    assert {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in before} == before
    assert victim.read_text() == "secret" and list(folder.iterdir()) == [victim]
    for path in (place / "cache").rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"secret" not in path.read_bytes(), path


def hand_to_a_stranger(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


def let_all_write(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


WAYS = pytest.mark.parametrize("spoil", [hand_to_a_stranger, let_all_write])


@WAYS
@pytest.mark.parametrize("part", [".", "bin", "bin/postgres", "lib", "lib/plugin.so", ".."])
def test_an_installation_of_others_is_not_asked(
    place: Path, pgstrata: Program, spoil: object, part: str
) -> None:
    assert callable(spoil)
    marks = open_folder(place / "marks")
    root = place / "outer" / "pg"
    for folder in ("bin", "lib"):
        (root / folder).mkdir(parents=True)
    for program in ("postgres", "initdb"):
        (root / "bin" / program).write_text(PROGRAM.format(marker=marks / "ran"))
        (root / "bin" / program).chmod(0o755)
    (root / "lib/plugin.so").write_text("")
    spoil((root / part).resolve())
    with pytest.raises(OwnershipError, match="pg"):
        acquire(f"path:{root}")
    done = pgstrata("run", "--server", f"path:{root}", "--workload", "pgbench", "--dry-run")
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert not (marks / "ran").exists()


@pytest.mark.program
def test_an_installation_of_root_is_asked_as_the_account(place: Path) -> None:
    marks = open_folder(place / "marks")
    (root := place / "pg").mkdir()
    (root / "bin").mkdir()
    for program in ("postgres", "initdb"):
        (root / "bin" / program).write_text(PROGRAM.format(marker=marks / "ran"))
        (root / "bin" / program).chmod(0o755)
    assert acquire(f"path:{root}").version == "17.5"
    ran = set((marks / "ran").read_text().split())
    assert ran and "0" not in ran


@WAYS
@pytest.mark.parametrize("part", [".", "src", "configure", "src/backend/Makefile", ".."])
def test_a_tree_of_others_is_not_built(place: Path, spoil: object, part: str) -> None:
    assert callable(spoil)
    tree = small_tree(place / "outer/pg")
    spoil((tree / part).resolve())
    with pytest.raises(OwnershipError):
        acquire(f"src:{tree}")
    assert not (place / "cache/servers").exists()


@pytest.mark.program
@WAYS
@pytest.mark.parametrize("part", [".", ".git", ".git/config"])
def test_a_repository_of_others_is_not_read(place: Path, spoil: object, part: str) -> None:
    assert callable(spoil)
    tree = repository(place / "pg")
    spoil((tree / part).resolve())
    with pytest.raises(OwnershipError):
        acquire(f"git:{tree}#HEAD")


@WAYS
@pytest.mark.parametrize("part", ["mine.py", "."])
def test_a_workload_of_others_is_not_loaded(place: Path, pgstrata: Program, spoil: object, part: str) -> None:
    assert callable(spoil)
    (folder := place / "workloads").mkdir()
    (folder / "mine.py").write_text(f"open({str(place / 'ran')!r}, 'w')\nclass Count: pass\n")
    spoil((folder / part).resolve())
    done = pgstrata("run", "--server", "pg:17", "--workload", f"{folder}/mine.py:Count", "--dry-run")
    assert done.returncode != 0 and "is not used" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not (place / "ran").exists()


@WAYS
def test_a_pooler_of_others_is_not_asked(place: Path, spoil: object) -> None:
    from pgstrata.server.connect.pooler import find_through

    assert callable(spoil)
    marks = open_folder(place / "marks")
    program = place / "pgbouncer"
    program.write_text(f"#!/bin/sh\nid -u >> {marks}/ran\necho PgBouncer 1.23.0\n")
    program.chmod(0o755)
    spoil(program)
    with pytest.raises(OwnershipError):
        find_through(f"pgbouncer:{program}", {})
    assert not (marks / "ran").exists()

"""Trees: by folder, commit and archive; what names one and what is refused."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from pgstrata.errors import UsageError
from pgstrata.source.git import tree_of
from pgstrata.source.spec import find_tree
from pgstrata.source.tree import tree_of_archive, tree_of_folder
from support.tree import commit, git, repository, small_tree


def archive(file: Path, members: dict[str, bytes | tarfile.TarInfo]) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


NAMES_17 = b"AC_INIT([PostgreSQL], [17.5], [nobody])"


@pytest.mark.parametrize(
    ("written", "number"),
    [("17.11", 170011), ("7.4.30", 70430), ("20devel", 200000), ("19beta2", 190000), ("9.0rc1", 90000)],
)
def test_a_tree_says_which_version_it_is(tmp_path: Path, written: str, number: int) -> None:
    tree = tree_of_folder(small_tree(tmp_path / "pg", version=written))
    assert (tree.version, tree.version_num) == (written, number)


def test_a_folder_that_is_no_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a source tree"):
        tree_of_folder(tmp_path)
    with pytest.raises(UsageError, match="no folder"):
        tree_of_folder(tmp_path / "nowhere")


def test_a_tree_is_known_by_what_is_in_its_files(tmp_path: Path) -> None:
    tree, other = small_tree(tmp_path / "one"), small_tree(tmp_path / "other")
    assert tree_of_folder(tree).identity == tree_of_folder(other).identity
    (other / "src/backend/main.c").write_text("int main(void) { return 1; }\n")
    assert tree_of_folder(tree).identity != tree_of_folder(other).identity


def test_what_a_build_left_in_a_tree_is_not_part_of_it(tmp_path: Path) -> None:
    folder = small_tree(tmp_path / "pg")
    before = tree_of_folder(folder).identity
    (folder / "src/backend/main.o").write_text("machine code")
    (folder / "src/Makefile.global").write_text("CC=gcc")
    (folder / "src/backend/away.c").symlink_to("/etc/hostname")
    tree = tree_of_folder(folder)
    assert tree.identity == before
    (copy := tmp_path / "copy").mkdir()
    tree.write(copy)
    assert sorted(p.name for p in (copy / "src/backend").iterdir()) == ["Makefile", "main.c", "parser"]


@pytest.mark.program
def test_a_changed_checkout_is_called_that_and_is_not_written_to(tmp_path: Path) -> None:
    folder = repository(tmp_path / "pg")
    assert tree_of_folder(folder).facts["changed"] is False
    (folder / "src/backend/main.c").write_text("int main(void) { return 2; }\n")
    stamps = {p: p.stat().st_mtime_ns for p in (folder / ".git").rglob("*")}
    tree = tree_of_folder(folder)
    assert tree.facts["changed"] is True and tree.label.endswith("+")
    assert {p: p.stat().st_mtime_ns for p in (folder / ".git").rglob("*")} == stamps


@pytest.mark.program
def test_a_commit_has_gits_own_hash_of_its_tree(tmp_path: Path) -> None:
    folder = repository(tmp_path / "pg")
    same = commit(folder, "changes nothing")
    first, second = tree_of(folder, "HEAD~1"), tree_of(folder, "main")
    assert first.identity == second.identity == "git:" + git(folder, "rev-parse", "HEAD^{tree}")
    assert second.facts["commit"] == same and second.facts["subject"] == "changes nothing"
    assert tree_of(folder, "HEAD~1..HEAD").facts["commit"] == same


@pytest.mark.program
def test_the_tree_of_a_commit_is_written_as_it_was(tmp_path: Path) -> None:
    folder = repository(tmp_path / "pg")
    first = git(folder, "rev-parse", "HEAD")
    (folder / "src/backend/main.c").write_text("int main(void) { return 3; }\n")
    commit(folder, "another program")
    (copy := tmp_path / "copy").mkdir()
    tree_of(folder, first).write(copy)
    assert "17.5" in (copy / "src/backend/main.c").read_text()
    assert (copy / "configure").stat().st_mode & 0o100


@pytest.mark.program
def test_the_end_of_an_archive_in_two_blocks_is_read_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive ends with two empty records, and is written in blocks of twenty: where the first of the two
    is the last of a block, a block with nothing else in it follows."""
    folder = repository(tmp_path / "pg")
    archived = b""
    while len(archived.rstrip(b"\0")) // 512 % 20 != 18:
        with (folder / "filling").open("ab") as file:
            file.write(b"x" * 512)
        commit(folder, "longer")
        archived = subprocess.check_output(["git", "-C", str(folder), "archive", "--format=tar", "HEAD"])
    (tmp_path / "bin").mkdir()
    late = tmp_path / "bin/git"
    late.write_text(
        "#!/bin/bash\n"
        f'git() {{ {shutil.which("git")} "$@"; }}\nset -o pipefail\n'
        'case "$*" in *" archive "*) git "$@" | '
        f'{{ head -c {len(archived) - 10240}; sleep 0.5; cat; }};; *) git "$@";; esac\n'
    )
    late.chmod(0o755)
    monkeypatch.setenv("PATH", f"{late.parent}:{os.environ['PATH']}")
    (copy := tmp_path / "copy").mkdir()
    tree_of(folder, "HEAD").write(copy)
    assert (copy / "filling").stat().st_size == (folder / "filling").stat().st_size


@pytest.mark.program
def test_a_commit_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    folder = repository(tmp_path / "pg")
    git(folder, "branch", "REL_17_STABLE")
    with pytest.raises(UsageError) as caught:
        tree_of(folder, "REL17_STABLE")
    assert "REL_17_STABLE" in caught.value.hint
    first = git(folder, "rev-parse", "HEAD")
    slip = first[:9] + ("0" if first[9] != "0" else "1")
    with pytest.raises(UsageError, match="no commit") as caught:
        tree_of(folder, slip)
    assert caught.value.hint == f"near are {first[:12]}"
    with pytest.raises(UsageError, match="does not name a commit"):
        find_tree(f"git:{folder}#--upload-pack=touch")


@pytest.mark.program
def test_a_shallow_clone_is_said_to_be_one(tmp_path: Path) -> None:
    folder = repository(tmp_path / "pg")
    first = git(folder, "rev-parse", "HEAD")
    commit(folder, "the second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{folder}", str(tmp_path / "shallow"))
    with pytest.raises(UsageError) as caught:
        tree_of(tmp_path / "shallow", first)
    assert "--unshallow" in caught.value.hint


@pytest.mark.program
def test_a_repository_by_address_is_copied_once_and_then_updated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path / "cache"))
    folder = repository(tmp_path / "pg")
    messages: list[str] = []
    spec = f"git:file://{folder}#main"
    assert find_tree(spec, messages.append).facts["subject"] == "the first"
    commit(folder, "the second")
    assert find_tree(spec, messages.append).facts["subject"] == "the second"
    assert "fetching" in messages[0] and "what is new" in messages[1]
    folder.rename(tmp_path / "moved")
    assert find_tree(spec, messages.append).facts["subject"] == "the second"
    assert "cannot be reached" in messages[-1]


def test_an_archive_is_unpacked_without_the_name_of_its_folder(tmp_path: Path) -> None:
    members: dict[str, bytes | tarfile.TarInfo] = {
        "postgresql-17.5/configure.ac": NAMES_17,
        "postgresql-17.5/src/main.c": b"int x;",
        "postgresql-17.5/link": link("postgresql-17.5/link", "src/main.c"),
    }
    tree = tree_of_archive(archive(tmp_path / "pg.tar.gz", members))
    (copy := tmp_path / "copy").mkdir()
    tree.write(copy)
    assert tree.version == "17.5" and (copy / "link").read_text() == "int x;"


@pytest.mark.parametrize(
    "bad",
    [
        {"pg/../../stolen": b"x"},
        {"/tmp/stolen": b"x"},
        {"pg/away": link("pg/away", "/etc"), "pg/away/stolen": b"x"},
        {"pg/away": link("pg/away", "../..")},
        {"pg/src/away": link("pg/src/away", "../../out")},
        {"pg/up": link("pg/up", "src/.."), "pg/esc": link("pg/esc", "up/../out"), "pg/esc/f": b"x"},
        {"pg/up": link("pg/up", "."), "pg/esc": link("pg/esc", "up/../pg.tar.gz"), "pg/esc ": b"x"},
        {"pg/hard": link("pg/hard", "../../etc/passwd", tarfile.LNKTYPE)},
        {"pg/hard": link("pg/hard", "pg/nowhere", tarfile.LNKTYPE)},
        {"pg/in": link("pg/in", "src"), "pg/in/file": b"x"},
        {"other/file": b"x"},
        {"pg/device": link("pg/device", "", tarfile.CHRTYPE)},
        {"pg/fifo": link("pg/fifo", "", tarfile.FIFOTYPE)},
    ],
    ids=lambda bad: ", ".join(bad),
)
def test_an_archive_that_leaves_its_folder_is_not_unpacked(
    tmp_path: Path, bad: dict[str, bytes | tarfile.TarInfo]
) -> None:
    members = {"pg/configure.ac": NAMES_17, "pg/src/main.c": b"int x;", **bad}
    tree = tree_of_archive(archive(tmp_path / "pg.tar.gz", members))
    (copy := tmp_path / "deep/copy").mkdir(parents=True)
    with pytest.raises(UsageError):
        tree.write(copy)
    outside = [p for p in tmp_path.rglob("*") if copy not in (p, *p.parents)]
    assert {p.name for p in outside} == {"pg.tar.gz", "deep"}


def test_an_archive_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "pg.tar.gz").write_bytes(b"no archive at all")
    with pytest.raises(UsageError, match="cannot be read as a tar archive"):
        find_tree(f"tar:{tmp_path}/pg.tar.gz")
    with pytest.raises(UsageError, match="is no file"):
        find_tree("tar:/dev/zero")
    with pytest.raises(UsageError, match="not a source tree"):
        tree_of_archive(archive(tmp_path / "other.tar.gz", {"other/README": b"hello"}))

"""Repositories whose config, hooks and attributes name programs: reading and building runs none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pgstrata.errors import PgstrataError
from pgstrata.source.git import clone, tree_of
from pgstrata.source.git_command import about, run_git
from pgstrata.source.tree import tree_of_folder
from support.tree import commit, git, repository

pytestmark = pytest.mark.program

HOOKS = (
    *("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "post-rewrite"),
    *("fsmonitor-watchman", "pre-auto-gc", "post-merge", "update", "pre-receive"),
)

NAMES = ("evil", "ev=il", "ev il", "ev.il")


@pytest.fixture
def hostile(place: Path) -> tuple[Path, Path]:
    """A repository that names a program wherever git reads the name of one; the program leaves a mark."""
    repo, mark = repository(place / "pg"), place / "mark"
    program = place / "evil.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {mark}\nexec cat\n')
    program.chmod(0o755)
    (repo / "a.txt").write_text("one\n")
    (repo / "b.bin").write_text("one\n")
    (repo / ".gitattributes").write_text(
        "* filter=evil diff=evil merge=evil export-subst\n*.bin filter=other\n"
    )
    commit(repo, "attributes")
    (repo / "a.txt").write_text("two $Format:%H$\n")
    commit(repo, "a change")
    settings = {
        **{"core.fsmonitor": program, "core.hooksPath": place / "hooks", "core.pager": program},
        **{"core.sshCommand": program, "core.gitProxy": program, "core.askPass": program},
        **{"core.editor": program, "core.alternateRefsCommand": program, "pager.log": program},
        **{"credential.helper": program, "diff.external": program, "gpg.program": program},
        **{"log.showSignature": "true", "diff.evil.command": program, "diff.evil.textconv": program},
        **{"uploadpack.packObjectsHook": program, "alias.ls-files": f"!{program}"},
        **{"alias.log": f"!{program}", "protocol.ext.allow": "always", "merge.evil.driver": program},
        **{"sequence.editor": program, "interactive.diffFilter": program, "tar.tar.command": program},
        **{"remote.origin.url": f"file://{repo}", "remote.origin.uploadpack": program},
        **{"remote.origin.promisor": "true", "extensions.partialClone": "origin"},
    }
    git(repo, "config", "core.repositoryFormatVersion", "1")
    for name in NAMES:
        for key in ("clean", "smudge", "process"):
            settings[f"filter.{name}.{key}"] = program
        settings[f"filter.{name}.required"] = "true"
    (place / "hooks").mkdir()
    for folder in (place / "hooks", repo / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for hook in HOOKS:
            shutil.copy(program, folder / hook)
    for setting, value in settings.items():
        git(repo, "config", setting, str(value))
    mark.unlink(missing_ok=True)
    return repo, mark


def test_the_repository_would_run_them(hostile: tuple[Path, Path]) -> None:
    """Else the tests below would show nothing."""
    repo, mark = hostile
    (repo / "a.txt").touch()
    subprocess.run(["git", "-C", str(repo), "status", "--porcelain"], capture_output=True)
    assert mark.exists()


def test_a_commit_is_read_without_them(hostile: tuple[Path, Path], place: Path) -> None:
    repo, mark = hostile
    tree = tree_of(repo, "HEAD")
    (target := place / "target").mkdir()
    tree.write(target)
    assert (target / "a.txt").read_text() == "two $Format:%H$\n"  # as it is stored
    assert (target / "configure").stat().st_mode & 0o777 == 0o755
    assert not mark.exists(), mark.read_text()


def test_a_checkout_is_read_without_them(hostile: tuple[Path, Path], place: Path) -> None:
    repo, mark = hostile
    (repo / "a.txt").write_text("three\n")
    (repo / "b.bin").touch()
    tree = tree_of_folder(repo)
    assert tree.facts["changed"] is True
    (target := place / "target").mkdir()
    tree.write(target)
    assert (target / "a.txt").read_text() == "three\n"
    assert not mark.exists(), mark.read_text()


def test_history_is_read_without_them(hostile: tuple[Path, Path]) -> None:
    repo, mark = hostile
    assert about(repo, "HEAD")["subject"] == "a change"
    run_git(repo, "show", "--stat=100", "--format=", "--first-parent", "HEAD", "--")
    run_git(repo, "show", "HEAD", "--")
    run_git(repo, "log", "--first-parent", "--format=%H", "HEAD", "--")
    run_git(repo, "status", "--porcelain", "--untracked-files=no")
    assert not mark.exists(), mark.read_text()


def test_what_a_partial_clone_lacks_is_not_fetched(hostile: tuple[Path, Path], place: Path) -> None:
    repo, mark = hostile
    blob = git(repo, "rev-parse", "HEAD:a.txt")
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    subprocess.run(["timeout", "3", "git", "-C", str(repo), "cat-file", "-p", blob], capture_output=True)
    assert mark.exists()  # git by itself asks it
    mark.unlink()
    (target := place / "target").mkdir()
    with pytest.raises(PgstrataError):
        tree_of(repo, "HEAD").write(target)
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("address", ["ext::{program}", "ssh://-oProxyCommand={program}/x", "fd::7"])
def test_addresses_run_no_program(hostile: tuple[Path, Path], place: Path, address: str) -> None:
    _, mark = hostile
    with pytest.raises(PgstrataError):
        clone(address.format(program=place / "evil.sh"), "HEAD", place / "cache", lambda text: None)
    assert not mark.exists()

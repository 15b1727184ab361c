"""Patches of others: applied without privileges, within the tree, and nothing in them is executed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgstrata.errors import BuildError, UsageError
from pgstrata.source.patch import apply_patch

LINK = """diff --git a/out b/out
new file mode 120000
--- /dev/null
+++ b/out
@@ -0,0 +1 @@
+{}
\\ No newline at end of file
"""


@pytest.fixture
def tree(place: Path) -> Path:
    folder = place / "tree"
    folder.mkdir()
    (folder / "file").write_text("1\n2\n")
    return folder


@pytest.mark.program
def test_a_patch_makes_no_link_out_of_the_tree(tree: Path, tmp_path: Path) -> None:
    patch = tmp_path / "a.patch"
    patch.write_text(LINK.format("/etc"))
    with pytest.raises(BuildError, match="out"):
        apply_patch(tree, patch)
    patch.write_text(LINK.format("file").replace("b/out", "b/inside").replace("a/out", "a/inside"))
    apply_patch(tree, patch)


def test_a_script_of_ed_is_not_executed(tree: Path, tmp_path: Path) -> None:
    patch = tmp_path / "a.patch"
    patch.write_text(f"--- a/file\n+++ b/file\n1c\nx\n.\n!touch {tree}/executed\n")
    with pytest.raises(BuildError, match="no unified diff"):
        apply_patch(tree, patch)
    assert not (tree / "executed").exists() and (tree / "file").read_text() == "1\n2\n"


@pytest.mark.program
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up what it may do")
def test_patch_does_not_run_as_root(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tree.parent / "bin" / "patch"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nid -u >who\nexec /usr/bin/patch "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    patch = tmp_path / "a.patch"
    patch.write_text("--- a/file\n+++ b/file\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n")
    apply_patch(tree, patch)
    assert (tree / "file").read_text() == "1\ntwo\n"
    assert (tree / "who").read_text().strip() not in ("", "0")


def test_a_patch_without_end_is_refused(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "a.patch").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="more than 64 MiB"):
        apply_patch(tree, tmp_path / "a.patch")

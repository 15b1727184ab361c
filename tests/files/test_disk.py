"""Files that are whole or not there, and folders that go."""

from __future__ import annotations

from pathlib import Path

from pgstrata.files.disk import remove_tree


def test_a_tree_goes_and_what_its_links_name_stays(tmp_path: Path) -> None:
    (other := tmp_path / "other").mkdir()
    (other / "file").write_text("kept")
    (tree := tmp_path / "tree").mkdir()
    for deep in range(20):
        (tree / f"folder{deep}/inside").mkdir(parents=True)
        (tree / f"folder{deep}/inside/file").write_text("gone")
    (tree / "folder0/away").symlink_to(other)
    (tree / "folder1/away").symlink_to(other / "file")
    (tree / "folder2/inside").chmod(0o555)
    remove_tree(tree)
    assert not tree.exists() and (other / "file").read_text() == "kept"
    remove_tree(tree)


def test_a_link_to_a_tree_is_not_the_tree(tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to(tmp_path / "tree")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("kept")
    remove_tree(link)
    assert (tmp_path / "tree/file").read_text() == "kept"

"""Which folders are one's own, and files that are read and written without following anybody's link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pgstrata.errors import OwnershipError
from pgstrata.files.disk import write_into
from pgstrata.files.ownership import hand_over, own_folder, read_small
from support.users import STRANGER, call_as, needs_root, shell_as


def is_private(folder: Path, **more: object) -> bool:
    return own_folder(folder, "the folder", advice="name another", **more)  # type: ignore[arg-type]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_a_folder_is_made_with_its_mode_whatever_the_umask(place: Path, umask: int) -> None:
    former = os.umask(umask)
    try:
        assert is_private(place / "a" / "b" / "c", mode=0o711)
    finally:
        os.umask(former)
    assert mode(place / "a" / "b" / "c") == 0o711
    assert not mode(place / "a") & 0o022
    assert not is_private(place / "a" / "b" / "c", mode=0o700)
    assert mode(place / "a" / "b" / "c") == 0o711, "what is there is left as it is"


@pytest.mark.parametrize("bits", [0o777, 0o757, 0o1777, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(place: Path, bits: int) -> None:
    folder = place / "mine"
    folder.mkdir()
    folder.chmod(bits)
    with pytest.raises(OwnershipError, match="can be written by other users") as refused:
        is_private(folder)
    assert f"chmod go-w {folder}" in refused.value.hint
    folder.chmod(0o755)
    assert not is_private(folder)


@needs_root
def test_a_folder_that_its_group_may_write_to_is_refused(place: Path) -> None:
    folder = place / "mine"
    folder.mkdir()
    folder.chmod(0o770)
    with pytest.raises(OwnershipError, match="mode 0770"):
        is_private(folder)


@needs_root
def test_a_folder_of_another_user_is_refused(place: Path) -> None:
    folder = place / "theirs"
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    with pytest.raises(OwnershipError, match=rf"belongs to uid {STRANGER}") as refused:
        is_private(folder)
    assert refused.value.hint == "name another"


@pytest.mark.program
@needs_root
def test_what_root_made_for_all_may_be_used_where_that_is_said(place: Path) -> None:
    folder = place / "roots"
    folder.mkdir()
    with pytest.raises(OwnershipError, match="belongs to root"):
        call_as(STRANGER, lambda: is_private(folder))
    assert call_as(STRANGER, lambda: is_private(folder, roots=True)) is False
    os.chown(folder, STRANGER + 1, STRANGER)
    with pytest.raises(OwnershipError, match=f"belongs to uid {STRANGER + 1}"):
        call_as(STRANGER, lambda: is_private(folder, roots=True))


@needs_root
def test_nobody_may_be_able_to_exchange_it(place: Path) -> None:
    shared = place / "shared"
    shared.mkdir()
    (shared / "mine").mkdir()
    shared.chmod(0o777)
    with pytest.raises(OwnershipError, match="can be exchanged by another user"):
        is_private(shared / "mine")
    with pytest.raises(OwnershipError, match="can be exchanged by another user"):
        is_private(shared / "new")
    assert not (shared / "new").exists(), "nothing is made there either"
    shared.chmod(0o1777)  # as /tmp: nobody can touch the entries of others
    assert not is_private(shared / "mine")
    os.chown(shared, STRANGER, STRANGER)
    with pytest.raises(OwnershipError, match=f"{shared} belongs to uid {STRANGER}"):
        is_private(shared / "mine")
    assert not is_private(shared / "mine", way=False)


@pytest.mark.program
@needs_root
def test_links_of_others_on_the_way_are_refused(place: Path) -> None:
    target, shared = place / "target", place / "shared"
    (target / "deep").mkdir(parents=True)
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "mine").symlink_to(target)
    shell_as(STRANGER, 'ln -s "$1" "$2"', target, shared / "theirs")
    assert not is_private(shared / "mine" / "deep")
    assert not is_private(shared / "mine")
    with pytest.raises(OwnershipError, match="is a symbolic link, which leads to"):
        is_private(shared / "mine", linked=False)
    for folder in (shared / "theirs", shared / "theirs" / "deep", shared / "theirs" / "new"):
        with pytest.raises(OwnershipError, match=f"{shared / 'theirs'} is a symbolic link of uid {STRANGER}"):
            is_private(folder)
    assert not (target / "new").exists()


def test_links_that_lead_in_circles_end(place: Path) -> None:
    (place / "a").symlink_to(place / "b")
    (place / "b").symlink_to(place / "a")
    with pytest.raises(OSError, match="Too many levels"):
        is_private(place / "a" / "c")


def test_a_file_is_no_folder(place: Path) -> None:
    (place / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        is_private(place / "file")
    with pytest.raises(NotADirectoryError):
        is_private(place / "file" / "below")


def test_only_small_regular_files_are_read(place: Path) -> None:
    (place / "file").write_text("text")
    assert read_small(place / "file") == "text"
    assert read_small(place / "file", 2) == "te"
    (place / "link").symlink_to(place / "file")
    os.mkfifo(place / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError):
            read_small(place / name)
    with pytest.raises(OSError, match="not a regular file"):
        read_small(Path("/dev/zero"))


def test_writing_replaces_a_link_instead_of_following_it(place: Path) -> None:
    (place / "precious").write_text("mine")
    (place / "folder").mkdir()
    (place / "folder" / "name").symlink_to(place / "precious")
    write_into(place / "folder", "name", "new", mode=0o644)
    assert (place / "precious").read_text() == "mine"
    assert (place / "folder" / "name").read_text() == "new"
    assert mode(place / "folder" / "name") == 0o644
    assert [path.name for path in (place / "folder").iterdir()] == ["name"]
    (place / "elsewhere").symlink_to(place / "folder")
    with pytest.raises(NotADirectoryError):
        write_into(place / "elsewhere", "name", "x", mode=0o600)
    with pytest.raises(NotADirectoryError):
        hand_over(place / "elsewhere", 0o777, None)
    assert mode(place / "folder") != 0o777

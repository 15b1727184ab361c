"""Folders and files that no other user of the machine can have prepared or can change.

What pgstrata finds in a folder it believes: it runs servers from there, deletes what markers name, writes
to names it knows beforehand. So whoever can write to such a folder decides what pgstrata does, and as root
it does anything. A folder is one's own when it belongs to this user, group and others have no write
permission, and on the way to it nobody else can put another one in its place: every folder on the way
belongs to root or this user and is not writable by others, unless it has the sticky bit (as /tmp has),
which lets nobody touch the entries of others; and every symbolic link on the way is root's or this user's.

Below such a folder plain paths are safe. Where another account owns what lies below (the data folder of a
server, which root runs as somebody else), files are read with `read_small` and written with
`disk.write_into`, which follow no link.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from pgstrata.errors import OwnershipError

SMALL_BYTES = 1 << 20
"""Most that `read_small` reads: no file pgstrata reads by it is larger than some kilobytes."""

_LINKS = 40
"""Most symbolic links on one way, as the kernel has it (MAXSYMLINKS)."""


def own_folder(
    folder: Path,
    what: str,
    *,
    advice: str,
    mode: int | None = None,
    roots: bool = False,
    linked: bool = True,
    way: bool = True,
) -> bool:
    """Makes `folder` unless it is there; returns whether it was made now.

    mode: it is made with; without one as the umask has it, but never with write permission for others.
    what, advice: name it and the next step in messages ("the folder for clusters", "name another …").
    roots: it may be root's instead, as a cache that root filled for all. linked: the last part may be
    a symbolic link of one's own; never where its name can be foreseen by others. way: the folders on
    the way are looked at too.

    Raises OwnershipError when another user owns it or may write to it, or may exchange it, and OSError
    when it can be neither made nor looked at.
    """
    if not linked and folder.is_symlink():
        raise OwnershipError(
            f"{what} {folder} is a symbolic link, which leads to {os.readlink(folder)}",  # noqa: PTH115
            f"remove the link if it is not yours; {advice}",
        )
    if way:
        _check_way(folder, what, advice)
    is_new = _make(folder, mode)
    if is_new and way:
        _check_way(folder, what, advice)
    about = folder.stat()
    if not stat.S_ISDIR(about.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if about.st_uid != os.geteuid() and not (roots and about.st_uid in _trusted()):
        raise OwnershipError(
            f"{what} {folder} belongs to {user_name(about.st_uid)}, who decides what pgstrata finds there",
            advice,
        )
    if _others_write(about):
        raise OwnershipError(
            f"{what} {folder} can be written by other users (mode {stat.S_IMODE(about.st_mode):04o})",
            f"look at what is in it, then: chmod go-w {folder}; or {advice}",
        )
    return is_new


def check_executed(path: Path, what: str, *, advice: str, below: bool = True) -> None:
    """Raises OwnershipError where another user than this one and root decides what `path` holds.

    For whatever pgstrata executes: programs, source trees, plug-ins. A file or a folder counts with the way
    to it, a folder with everything below it unless `below` is false. what, advice: as for `own_folder`.
    Raises OSError where it cannot be looked at.
    """
    _check_way(path, what, advice)
    _check_entry(path, path.stat(), what, advice)
    if below and path.is_dir():
        for folder, folders, files in os.walk(path, onerror=_raise):
            for name in (*folders, *files):
                place = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    _check_entry(place, place.lstat(), what, advice)


def _raise(error: OSError) -> None:
    raise error


def _check_entry(path: Path, about: os.stat_result, what: str, advice: str) -> None:
    if about.st_uid not in _trusted():
        raise OwnershipError(
            f"{what} is not used: {path} belongs to {user_name(about.st_uid)}, who decides what it does",
            advice,
        )
    if not stat.S_ISLNK(about.st_mode) and _others_write(about):
        raise OwnershipError(
            f"{what} is not used: {path} can be written by other users "
            f"(mode {stat.S_IMODE(about.st_mode):04o})",
            f"look at what is in it, then: chmod -R go-w {path}; or {advice}",
        )


def own_file(about: os.stat_result, most: int = SMALL_BYTES) -> bool:
    """Returns whether a file is a regular file of this user's, with a single name, not too large, that no
    other user may write to."""
    return (
        stat.S_ISREG(about.st_mode)
        and about.st_uid == os.geteuid()
        and about.st_nlink == 1
        and not about.st_mode & 0o022
        and about.st_size <= most
    )


def believed_file(about: os.stat_result, most: int) -> bool:
    """Returns whether a file is a regular file of this user's or root's, with a single name, not too large,
    that no other user may write to: for files that are only read, and could as well have been made by
    either."""
    return (
        stat.S_ISREG(about.st_mode)
        and about.st_uid in _trusted()
        and about.st_nlink == 1
        and not about.st_mode & 0o022
        and about.st_size <= most
    )


def read_small(path: Path, most: int = SMALL_BYTES) -> str:
    """Returns the text of a regular file, `most` bytes of it at most; neither links, pipes nor devices are
    followed.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(most).decode(errors="replace")


def private_opener(name: str, flags: int) -> int:
    """Opens a file for `open`: a newly made file is for this user alone (0600), whatever the umask."""
    return os.open(name, flags | os.O_CLOEXEC, 0o600)


def write_private(path: Path, data: bytes) -> None:
    """Writes a file of mode 0600, also where an older one of another mode is there. Raises OSError."""
    with open(path, "wb", opener=private_opener) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)


def hand_over(folder: Path, mode: int, owner: tuple[int, int] | None) -> None:
    """Gives a folder its mode and its owner, uid and gid; a symbolic link is not followed. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, mode)
        if owner:
            os.fchown(descriptor, *owner)
    finally:
        os.close(descriptor)


def user_name(uid: int) -> str:
    """Returns how a user is named in messages: `mallory (uid 1001)`, or `uid 1001` where the system has no
    name."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _make(folder: Path, mode: int | None) -> bool:
    if folder.exists():
        return False
    for parent in reversed(folder.parents):
        if not parent.exists():
            with contextlib.suppress(FileExistsError):
                parent.mkdir(0o755)
    try:
        folder.mkdir(0o755 if mode is None else 0o700)
    except FileExistsError:
        return False
    if mode is not None:
        hand_over(folder, mode, None)  # whatever the umask
    return True


def _check_way(folder: Path, what: str, advice: str) -> None:
    for place, about in _on_the_way(folder):
        if stat.S_ISLNK(about.st_mode):
            bad = about.st_uid not in _trusted()
            how = "is a symbolic link of"
        else:
            foreign = about.st_uid not in _trusted()
            bad = foreign or (_others_write(about) and not about.st_mode & stat.S_ISVTX)
            how = "belongs to" if foreign else "can be written by users other than"
        if bad:
            raise OwnershipError(
                f"{what} {folder} can be exchanged by another user: {place} {how} {user_name(about.st_uid)}",
                advice,
            )


def _on_the_way(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields every folder and every symbolic link that the kernel passes on the way to `folder`, without
    `folder` itself unless that is a link; ends where something is not there yet."""
    todo = list(reversed(Path(os.path.abspath(folder)).parts[1:]))  # noqa: PTH100 - links are followed here
    here, links = Path("/"), 0
    while todo:
        part = todo.pop()
        if part == "..":
            here = here.parent
            continue
        yield here, here.lstat()
        place = here / part
        try:
            about = place.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISLNK(about.st_mode):
            here = place
            continue
        yield place, about
        if (links := links + 1) > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
        target = Path(os.readlink(place))  # noqa: PTH115
        if target.is_absolute():
            here = Path("/")
        todo += reversed([part for part in target.parts if part != "/"])


def _trusted() -> set[int]:
    """Returns this user, root, and the owner of the root of the file system: in a user namespace root has
    another number, and its owner could change anything anyway."""
    return {os.geteuid(), 0, Path("/").stat().st_uid}


def _others_write(about: os.stat_result) -> bool:
    if about.st_mode & stat.S_IWOTH:
        return True
    return bool(about.st_mode & stat.S_IWGRP) and not _private_group(about.st_gid)


def _private_group(gid: int) -> bool:
    """Returns whether a group is this user's alone: its primary group, of the same name, with no other
    members, as most distributions make for each user. Root has no such group."""
    uid = os.geteuid()
    if uid == 0:
        return False
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}

"""Unpacks tar archives that somebody else may have made: nothing outside the folder is created or changed.

Python's own filters judge names by their text or by `realpath`, which chains of links have got past more
than once (CVE-2025-4138, CVE-2025-4330, CVE-2025-4517), and they depend on Python's patch release. Here no
path is followed: each folder on the way to a member is opened from the one above with O_NOFOLLOW, and
symbolic links are created last, when everything that they could lead to is known.
"""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pgstrata.errors import UsageError

MEMBERS = 500_000
"""Most members of one archive; a source tree of PostgreSQL has about 8,000."""
TOTAL_BYTES = 16 << 30
"""Most bytes of all files of an archive."""
PATH_BYTES = 4095
"""Longest path and longest target of a link, as the kernel has it (PATH_MAX)."""
NAME_BYTES = 255
"""Longest name of one file or folder (NAME_MAX)."""
DEPTH = 100
"""Most folders within each other."""
HEADER_BYTES = 1 << 20
"""Largest extension of a header (a long name, a pax record)."""
LINKS = 40
"""Most symbolic links on the way from one link to its end, as the kernel has it (MAXSYMLINKS)."""

_COPY_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EXTENSIONS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)

_DAMAGED = (
    *(tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError),
    *(ValueError, OverflowError, RecursionError),  # numbers and headers that cannot be
)

Parts = tuple[str, ...]


class ArchiveError(UsageError):
    """An archive that is damaged, too large, or would change something outside its folder."""


class _BoundedHeader(tarfile.TarInfo):
    """A header whose extensions have a largest size and whose offsets only go forward (CVE-2025-8194).

    Sparse files are refused: their maps have no largest size, and no source tree holds one.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _EXTENSIONS and self.size > HEADER_BYTES:
            raise tarfile.SubsequentHeaderError(f"a header of {self.size} bytes")  # type: ignore[attr-defined]
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.SubsequentHeaderError("it holds a sparse file")  # type: ignore[attr-defined]
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]

    def _proc_gnusparse_10(self, *unused: object) -> None:
        raise tarfile.SubsequentHeaderError("it holds a sparse file")  # type: ignore[attr-defined]

    def _block(self, count: int) -> int:
        if count < 0:
            raise tarfile.SubsequentHeaderError("a negative size")  # type: ignore[attr-defined]
        return super()._block(count)  # type: ignore[misc,no-any-return]


@contextmanager
def opened(name: str, file: IO[bytes], mode: str = "r:*") -> Iterator[tarfile.TarFile]:
    """Yields an archive opened for reading, with bounded headers. mode: as `tarfile.open` has it.

    Raises ArchiveError, also in the block, for whatever a damaged archive makes the libraries raise.
    """
    try:
        with tarfile.open(fileobj=file, mode=mode, tarinfo=_BoundedHeader) as archive:  # type: ignore[call-overload]
            yield archive
    except _DAMAGED as error:
        # An error of the file system has a number, one of gzip's and bzip2's content has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ArchiveError(
            f"{name} cannot be read as a tar archive: {error}",
            "it must be .tar, .tar.gz, .tar.bz2 or .tar.xz",
        ) from error


def members(name: str, archive: tarfile.TarFile, most_bytes: int = TOTAL_BYTES) -> Iterator[tarfile.TarInfo]:
    """Yields the members of an archive in their order. Raises ArchiveError if they are too many, too large
    altogether, or a sparse file."""
    count = size = 0
    while (member := archive.next()) is not None:
        count += 1
        size += member.size
        if count > MEMBERS:
            raise ArchiveError(f"{name} holds more than {MEMBERS:,} members")
        if size > most_bytes:
            raise ArchiveError(f"{name} holds more than {most_bytes >> 20} MB")
        if member.sparse is not None:
            raise ArchiveError(f"{name} is not unpacked: {member.name[:200]} is a sparse file")
        yield member
        archive.members = []  # type: ignore[attr-defined] # tarfile would keep all of them


def parts_of(name: str, path: str) -> Parts:
    """Returns the components of a member's path. Raises ArchiveError for an absolute path, for `..`, and for
    names that no file system takes."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise _leaves(name, path)
    _check_length(name, path)
    if len(parts) > DEPTH:
        raise ArchiveError(f"{name} is not unpacked: it has folders deeper than {DEPTH} levels")
    if any(len(os.fsencode(part)) > NAME_BYTES for part in parts):
        raise ArchiveError(f"{name} is not unpacked: a name in it is longer than {NAME_BYTES} bytes")
    return parts


def _check_length(name: str, path: str) -> None:
    if len(path.encode(errors="surrogateescape")) > PATH_BYTES:
        raise ArchiveError(f"{name} is not unpacked: a path in it is longer than {PATH_BYTES} bytes")


def _leaves(name: str, what: str) -> ArchiveError:
    return ArchiveError(
        f"{name} is not unpacked: {what[:200]} would be outside its folder",
        "an archive of a release holds nothing like it: get it anew from where it is published",
    )


@dataclass(frozen=True)
class _Link:
    """A symbolic link that is still to be made; member: its name in messages."""

    target: str
    member: str


class Unpacking:
    """One archive while it is unpacked into an empty folder that nobody else may write to.

    name: what messages call the archive; private: modes are 0600 and 0700. Use as a context manager: symbolic
    links appear at its end.
    """

    def __init__(self, name: str, folder: Path, *, private: bool = False) -> None:
        self._name, self._folder = name, folder
        self._permitted = 0o700 if private else 0o777
        self._root = -1
        self._links: dict[Parts, _Link] = {}

    def __enter__(self) -> Unpacking:
        self._root = os.open(self._folder, _FOLDER)
        return self

    def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        try:
            if kind is None:
                self._make_links()
        finally:
            os.close(self._root)

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo, strip: int = 0) -> None:
        """Unpacks one member. strip: how many components to leave out of its path and a hard link's target.

        Files get mode 0644 or 0755 and this user as their owner, whatever the archive says. A later member of
        the same path replaces a file or link, as with tar. Raises ArchiveError, and OSError where it cannot
        be written.
        """
        parts = parts_of(self._name, member.name)[strip:]
        if not parts:
            return
        self._check_way(parts, member.name)
        if member.isdir():
            os.close(self._enter(parts, member.name))
        elif member.issym():
            _check_length(self._name, member.linkname)
            self._discard(parts, member.name)
            self._links[parts] = _Link(member.linkname, member.name)
        elif member.islnk():
            self._hard_link(parts, parts_of(self._name, member.linkname)[strip:], member)
        elif member.isreg():
            source = archive.extractfile(member)
            assert source is not None
            executable = bool(member.mode & 0o100)
            self.add_file(parts, source, member.size, executable=executable, modified=member.mtime)
        else:
            raise ArchiveError(
                f"{self._name} is not unpacked: {member.name[:200]} is neither a file, folder nor link"
            )

    def _check_way(self, parts: Parts, shown: str) -> None:
        """Raises ArchiveError where a symbolic link of the archive stands for a folder on the way."""
        if any(parts[:depth] in self._links for depth in range(1, len(parts))):
            raise ArchiveError(
                f"{self._name} is not unpacked: {shown[:200]} leads through a symbolic link of the archive",
                "no archive that tar has made of a folder holds such a path",
            )

    @contextmanager
    def _parent(self, parts: Parts, shown: str) -> Iterator[int]:
        descriptor = self._enter(parts[:-1], shown)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _enter(self, parts: Parts, shown: str) -> int:
        """Opens a folder below the root, made where it is missing; the caller closes it."""
        here = os.dup(self._root)
        try:
            for depth, part in enumerate(parts):
                if parts[: depth + 1] in self._links:
                    raise ArchiveError(
                        f"{self._name} is not unpacked: {shown[:200]} is both a folder and a link"
                    )
                is_new = True
                try:
                    os.mkdir(part, 0o755, dir_fd=here)
                except FileExistsError:
                    is_new = False
                try:
                    below = os.open(part, _FOLDER, dir_fd=here)
                except NotADirectoryError:
                    raise ArchiveError(
                        f"{self._name} is not unpacked: {shown[:200]} is below a file, or replaces one"
                    ) from None
                os.close(here)
                here = below
                if is_new:
                    os.fchmod(here, 0o755 & self._permitted)  # whatever the umask
        except BaseException:
            os.close(here)
            raise
        return here

    def _discard(self, parts: Parts, shown: str) -> None:
        """Removes a file or link that an earlier member of the same path has made."""
        self._links.pop(parts, None)
        with self._parent(parts, shown) as parent:
            try:
                os.unlink(parts[-1], dir_fd=parent)
            except FileNotFoundError:
                pass
            except (IsADirectoryError, PermissionError):
                raise ArchiveError(
                    f"{self._name} is not unpacked: {shown[:200]} would replace a folder"
                ) from None

    def add_file(
        self, parts: Parts, source: IO[bytes], size: int, *, executable: bool, modified: float
    ) -> None:
        """Writes one file of `size` bytes read from `source`. modified: its time, seconds since 1970.

        Raises ArchiveError where its path leads through a link or a file, or the source ends early.
        """
        shown = "/".join(parts)
        self._check_way(parts, shown)
        self._discard(parts, shown)
        with self._parent(parts, shown) as parent:
            descriptor = os.open(parts[-1], _NEW_FILE, 0o600, dir_fd=parent)
            with os.fdopen(descriptor, "wb") as file:
                left = size
                while left and (block := source.read(min(left, _COPY_BYTES))):
                    file.write(block)
                    left -= len(block)
                if left:
                    raise ArchiveError(f"{self._name} ends in the middle of {shown[:200]}")
                file.flush()
                os.fchmod(descriptor, (0o755 if executable else 0o644) & self._permitted)
                # make compares times; one that no file system takes is that of the unpacking.
                if 0 <= modified < 1 << 33:
                    os.utime(descriptor, (modified, modified))

    def _hard_link(self, parts: Parts, source: Parts, member: tarfile.TarInfo) -> None:
        shown = f"{member.name[:200]} → {member.linkname[:200]}"
        self._check_way(source, shown)
        if parts == source:
            return
        if source in self._links:  # a second name of a link is a link like it
            self._discard(parts, shown)
            self._links[parts] = self._links[source]
            return
        missing = ArchiveError(
            f"{self._name} is not unpacked: the hard link {shown} leads to no earlier file of the archive",
            "the archive is damaged: get it anew from where it is published",
        )
        if not source:
            raise missing
        with self._parent(source, shown) as origin:
            try:
                about = os.stat(source[-1], dir_fd=origin, follow_symlinks=False)
            except FileNotFoundError:
                raise missing from None
            if not stat.S_ISREG(about.st_mode):
                raise missing
            self._discard(parts, shown)
            with self._parent(parts, shown) as parent:
                os.link(source[-1], parts[-1], src_dir_fd=origin, dst_dir_fd=parent, follow_symlinks=False)

    # --- symbolic links, at the end -----------------------------------------------------------

    def _make_links(self) -> None:
        for parts, link in self._links.items():
            self._check_target(parts, link)
        for parts, link in self._links.items():
            with self._parent(parts, link.member) as parent:
                os.symlink(link.target, parts[-1], dir_fd=parent)

    def _check_target(self, parts: Parts, link: _Link) -> None:
        """Raises ArchiveError where the way from a link, through further ones, leaves the folder."""
        shown = f"{link.member[:200]} → {link.target[:200]}"
        here = list(parts[:-1])
        if not link.target or "\0" in link.target or link.target.startswith("/"):
            raise _leaves(self._name, shown)
        todo = list(reversed(link.target.split("/")))
        followed = 1
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not here:
                    raise _leaves(self._name, shown)
                here.pop()
                continue
            here.append(part)
            if (further := self._links.get(tuple(here))) is None:
                continue
            if (followed := followed + 1) > LINKS:
                raise ArchiveError(f"{self._name} is not unpacked: the links behind {shown} have no end")
            if further.target.startswith("/"):
                raise _leaves(self._name, shown)
            here.pop()
            todo += reversed(further.target.split("/"))


def unpack(
    name: str,
    archive: tarfile.TarFile,
    folder: Path,
    most_bytes: int = TOTAL_BYTES,
    *,
    private: bool = False,
) -> None:
    """Unpacks a whole archive into an empty folder. Raises ArchiveError, OSError."""
    with Unpacking(name, folder, private=private) as unpacking:
        for member in members(name, archive, most_bytes):
            unpacking.add(archive, member)


__all__ = ["ArchiveError", "Unpacking", "members", "opened", "parts_of", "unpack"]

"""Whether two built servers are the same program: a digest of what is loaded of them, and what initdb reads.

Debug information, the build's id and symbols are no part of it, so that a commit which moves no line of code
and changes no constant has the digest of the commit before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pgstrata.files import digests
from pgstrata.files.elf import LOADED, NOBITS, NOTE, sections_of

_UNREAD = frozenset({"doc", "man", "locale", "html"})
"""Folders below share/ that no server reads while a step is measured."""

MOST_BYTES = 1 << 30
"""Of one file."""


def code_digest(bin_dir: Path) -> str:
    """Returns 64 hexadecimal digits that two servers share which execute the same code on the same catalogs;
    an empty text where a file cannot be read, so that nothing is taken to be the same."""
    root = bin_dir.parent
    # A server knows the folder that it is installed in, whose name is that of its build.
    name = root.name.encode()

    def parts() -> Iterator[bytes]:
        for file in _files(root):
            yield f"\0{file.relative_to(root)}\0".encode(errors="surrogateescape")
            for part in _parts(file):
                yield part.replace(name, b"0" * len(name))

    try:
        return digests.of_parts(parts())
    except OSError:
        return ""


def _files(root: Path) -> Iterator[Path]:
    """Yields the files of the server, its modules, and the files that initdb reads."""
    yield root / "bin/postgres"
    for file in sorted((root / "lib").rglob("*.so*")):
        if file.is_file() and not file.is_symlink():
            yield file
    for file in sorted((root / "share").rglob("*")):
        if file.is_file() and not _UNREAD.intersection(file.relative_to(root).parts):
            yield file


def _parts(file: Path) -> Iterator[bytes]:
    """Yields the content of a file; of a program or module only the sections that are loaded."""
    sections = sections_of(file)
    with file.open("rb") as opened:
        if not sections:
            yield opened.read(MOST_BYTES)
        for section in sections:
            if section.flags & LOADED and section.type not in (NOTE, NOBITS):
                opened.seek(section.offset)
                yield opened.read(min(section.size, MOST_BYTES))


__all__ = ["code_digest"]

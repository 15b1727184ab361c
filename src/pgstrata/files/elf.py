"""Sections of ELF files of 64 bits, little-endian."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SYMTAB, NOTE, NOBITS, DYNSYM = 2, 7, 8, 11
"""Types of sections: all symbols; notes, as the build's id; no content in the file; exported symbols."""

LOADED = 2
"""Flag of a section that is in memory while the program runs."""

_HEADER, _ENTRY = 64, struct.Struct("<IIQQQQIIQQ")
MOST_SECTIONS = 1 << 16


@dataclass(frozen=True)
class Section:
    """A part of the file: offset and size in bytes; link: the number of another section, for symbols that of
    their names."""

    type: int
    flags: int
    offset: int
    size: int
    link: int = 0


def sections_of(binary: Path) -> list[Section]:
    """Returns the sections in their order; an empty list for other files. Raises OSError."""
    with binary.open("rb") as file:
        head = file.read(_HEADER)
        if len(head) < _HEADER or head[:6] != b"\x7fELF\x02\x01":
            return []
        begin = int.from_bytes(head[40:48], "little")
        size, number = int.from_bytes(head[58:60], "little"), int.from_bytes(head[60:62], "little")
        if size < _ENTRY.size:
            return []
        if begin >= os.fstat(file.fileno()).st_size:
            return []
        file.seek(begin)
        table = file.read(size * min(number, MOST_SECTIONS))
    sections = []
    for at in range(0, len(table) - _ENTRY.size + 1, size):
        _, type_, flags, _, offset, length, link, *_ = _ENTRY.unpack_from(table, at)
        sections.append(Section(type_, flags, offset, length, link))
    return sections


_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION, _FILE = 2, 4
"""Types of symbols."""
_SOURCE = (".c", ".cc", ".cpp", ".cxx", ".h", ".l", ".y", ".S", ".s")
MOST_BYTES = 64 << 20
"""Of symbols, and of their names."""


def source_files(binary: Path) -> dict[str, str | None]:
    """Returns the source file of each function, without its folder, None where symbols do not tell it; empty
    for files without symbols. Raises OSError.

    Local symbols follow the name of their file. What was compiled from one file lies together, so an
    exported function between two local ones of a file is of that file, too. A name that several files have
    tells none.
    """
    sections = sections_of(binary)
    symbols = next((section for section in sections if section.type == SYMTAB), None)
    if symbols is None or symbols.link >= len(sections):
        return {}
    names = sections[symbols.link]
    if max(symbols.size, names.size) > MOST_BYTES:
        return {}
    with binary.open("rb") as file:
        file.seek(symbols.offset)
        table = file.read(symbols.size)
        file.seek(names.offset)
        texts = file.read(names.size)
    functions: list[tuple[int, str, str | None]] = []
    source: str | None = None
    whole = len(table) // _SYMBOL.size * _SYMBOL.size  # less than it says where the file was cut
    for at, info, _, _, address, _ in _SYMBOL.iter_unpack(table[:whole]):
        kind, is_local = info & 15, info >> 4 == 0
        if kind == _FILE:
            name = _text(texts, at)
            source = name.rpartition("/")[2] if name.endswith(_SOURCE) else None
        elif kind == _FUNCTION and address:
            functions.append((address, _text(texts, at), source if is_local else None))
    return _files_of(sorted(functions, key=lambda function: function[0]))


def _text(texts: bytes, at: int) -> str:
    return texts[at : texts.find(b"\0", at)].decode("utf-8", "replace")


def _files_of(functions: Sequence[tuple[int, str, str | None]]) -> dict[str, str | None]:
    """Returns the files by name, of functions in the order of their addresses."""
    following: list[str | None] = []
    known: str | None = None
    for _, _, source in reversed(functions):
        known = source or known
        following.append(known)
    files: dict[str, str | None] = {}
    before: str | None = None
    for (_, name, source), after in zip(functions, reversed(following), strict=True):
        before = source or before
        file = source or (before if before == after else None)
        files[name] = file if files.get(name, file) == file else None
    return files


__all__ = ["DYNSYM", "LOADED", "NOBITS", "NOTE", "SYMTAB", "Section", "sections_of", "source_files"]

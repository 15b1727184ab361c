"""Sections of ELF files of 64 bits, little-endian."""

from __future__ import annotations

import os
import struct
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
    """A part of the file: offset and size in bytes."""

    type: int
    flags: int
    offset: int
    size: int


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
        _, type_, flags, _, offset, length, *_ = _ENTRY.unpack_from(table, at)
        sections.append(Section(type_, flags, offset, length))
    return sections


__all__ = ["DYNSYM", "LOADED", "NOBITS", "NOTE", "SYMTAB", "Section", "sections_of"]

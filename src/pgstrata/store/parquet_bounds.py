"""Bounds of a Parquet file, checked before any of its data are unpacked.

Readers of Parquet make room for as many bytes as the header of a page states, and a few bytes stand for
millions of values. So the headers of all pages are read first, which no library offers: they are structs in
Thrift's compact protocol (parquet.thrift of the format's specification).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgstrata import numbers
from pgstrata.files.bounded import BoundError

MARK = b"PAR1"
"""First and last four bytes of a file."""

MOST_BYTES = 400 << 20
"""Of all pages, unpacked."""

MOST_VALUES = 20_000_000
"""Of all columns; a value takes at least as many bytes as its type, however it is packed."""

MOST_FOOTER_BYTES = 1 << 20
MOST_PAGES = 50_000
_MOST_HEADER_BYTES = 1 << 16
_DEEPEST = 12

_FIXED_LENGTH = 7
"""Physical type FIXED_LEN_BYTE_ARRAY: a page of a few bytes may repeat one value of a megabyte."""

_DELTA_STRINGS = 7
"""Encoding DELTA_BYTE_ARRAY: each value may repeat the one before, so that a page grows with its square."""

Fields = dict[int, Any]
"""A struct of Thrift: value by number of its field."""


def check(path: Path) -> None:
    """Raises BoundError for a file that is damaged or larger than it may be, and OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        end = os.pread(file.fileno(), 8, max(0, size - 8))
        if end[-4:] != MARK:
            raise BoundError("its end is missing")
        length = int.from_bytes(end[:4], "little")
        if length > min(MOST_FOOTER_BYTES, size - 12):
            raise BoundError(f"its description has {numbers.size(length)}")
        footer = os.pread(file.fileno(), length, size - 8 - length)
        try:
            _Pages(file.fileno(), size).check(_Thrift(footer).struct())
        except BoundError:
            raise
        except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise BoundError("its description is damaged") from error


@dataclass
class _Pages:
    """The pages of a file, added up."""

    file: int
    size: int
    pages: int = 0
    bytes: int = 0
    values: int = 0

    def check(self, description: Fields) -> None:
        for group in description[4]:
            for column in group[1]:
                about = column[3]
                if about[1] == _FIXED_LENGTH:
                    raise BoundError("it has a column of a type that no table of results has")
                begin = min(place for place in (about.get(11), about[9]) if place)
                self._column(begin, about[7])

    def _column(self, begin: int, length: int) -> None:
        end = begin + length
        if not 0 < begin <= end <= self.size:
            raise BoundError("a column lies beyond its end")
        at = begin
        while at < end:
            thrift = _Thrift(os.pread(self.file, min(_MOST_HEADER_BYTES, end - at), at))
            page = thrift.struct()
            unpacked, packed = page[2], page[3]
            kind = page.get(5) or page.get(7) or page.get(8)
            if kind is None or min(unpacked, packed, kind[1]) < 0:
                raise BoundError("a page is damaged")
            if kind[4 if 8 in page else 2] == _DELTA_STRINGS:
                raise BoundError("a page is encoded as none of results is")
            self.pages += 1
            self.bytes += max(unpacked, packed)
            self.values += kind[1]
            if self.pages > MOST_PAGES:
                raise BoundError(f"it has more than {MOST_PAGES:,} pages")
            if self.bytes > MOST_BYTES:
                raise BoundError(f"unpacked it has more than {numbers.size(MOST_BYTES)}")
            if self.values > MOST_VALUES:
                raise BoundError(f"it has more than {MOST_VALUES:,} values")
            at += thrift.at + packed
        if at != end:
            raise BoundError("a page lies beyond its column")


class _Thrift:
    """Bytes in Thrift's compact protocol. Raises IndexError at their end, BoundError for what is too deep."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> Fields:
        """Returns the struct that begins here."""
        if depth > _DEEPEST:
            raise BoundError("its description is nested too deep")
        fields: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2 | 3:  # a boolean of a list, a byte
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:
                return self._skip(8)
            case 8:
                return self._skip(self._number())
            case 9 | 10:
                head = self._byte()
                count = self._number() if head >> 4 == 15 else head >> 4
                if count > len(self._data) - self.at:
                    raise IndexError
                return [self._value(head & 15, depth) for _ in range(count)]
            case 11:
                if count := self._number():
                    kinds = self._byte()
                    if count > len(self._data) - self.at:
                        raise IndexError
                    for _ in range(count):
                        self._value(kinds >> 4, depth + 1)
                        self._value(kinds & 15, depth + 1)
                return None
            case 12:
                return self.struct(depth + 1)
        raise BoundError("its description is damaged")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError

    def _number(self) -> int:
        """Returns the next number, stored with seven bits a byte, the lowest first (LEB128). Raises
        BoundError for a number that is too long."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise BoundError("its description is damaged")

    def _signed(self) -> int:
        value = self._number()
        return (value >> 1) ^ -(value & 1)


__all__ = ["MARK", "check"]

"""Puts records in the order of their times, however many there are."""

from __future__ import annotations

import heapq
import struct
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

from pgstrata.traffic.logs.wrapped.model import Record

HELD_BYTES = 64 << 20
"""Of records in memory; more go to files without a name in the folder for temporary files."""

_HEAD = struct.Struct("<qqI")
_Item = tuple[int, int, bytes]


def by_time(records: Iterable[tuple[Record, int]]) -> Iterator[Record]:
    """Yields records by time. Each comes with the number that decides where times are equal."""
    held: list[_Item] = []
    size = 0
    runs: list[IO[bytes]] = []
    try:
        for record, number in records:
            held.append((record.time, number, record.lines))
            size += len(record.lines) + 150
            if size > HELD_BYTES:
                runs.append(_written(held))
                held, size = [], 0
        held.sort()
        for time, _, lines in heapq.merge(*(_read(run) for run in runs), held):
            yield Record(time, lines)
    finally:
        for run in runs:
            run.close()


def _written(items: list[_Item]) -> IO[bytes]:
    items.sort()
    file = tempfile.TemporaryFile()  # noqa: SIM115
    for time, number, lines in items:
        file.write(_HEAD.pack(time, number, len(lines)))
        file.write(lines)
    file.seek(0)
    return file


def _read(file: IO[bytes]) -> Iterator[_Item]:
    while head := file.read(_HEAD.size):
        time, number, size = _HEAD.unpack(head)
        yield time, number, file.read(size)


__all__ = ["HELD_BYTES", "by_time"]

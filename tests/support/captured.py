"""Captured files put together by hand, so that what is wrong lies inside of what is packed."""

from __future__ import annotations

import copy
import json
import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from support.malformed import NUMBERS, TEXTS, in_bytes, in_json

MAGIC = b"pgstrata traffic"
HEADER: dict[str, Any] = {
    "version": 1,
    "made": "2026-01-01",
    "source": "csvlog",
    "files": ["a.csv"],
    "begin": 1000,
    "end": 2000,
    "sessions": 2,
    "statements": 4,
    "databases": [{"name": "d", "sessions": 2, "statements": 4, "seconds": 0.5, "most_sessions": 1}],
    "left_out": [{"why": "COPY", "count": 1, "seconds": 0.1, "example": "COPY t"}],
    "notes": ["n"],
    "shapes": [{"text": "SELECT $1", "calls": 4, "seconds": 0.5}, {"text": "SELECT", "reads": True}],
}


def varint(value: int) -> bytes:
    """The number as the file has it; any length, also those that a reader has to refuse."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def counted(text: bytes, more: int = 0) -> bytes:
    return varint(len(text) + more) + text


RECORD = varint(5) + bytes([0]) + varint(0) + counted(b"SELECT 1")
COMMON = varint(5) + bytes([16]) + varint(1) + varint(0)
BOUND = varint(5) + bytes([2 | 8]) + varint(0) + varint(7) + counted(b"SELECT $1") + varint(2) + b"\0"
BOUND += counted(b"ab", 1)
FAILED = varint(1) + bytes([4]) + varint(1) + b"23505" + counted(b"INSERT")


@dataclass
class File:
    """What a captured file is made of. Sizes and places that are None are the true ones.

    sessions: of each its blocks' records, unpacked. packed: what stands in the place of a packed part.
    """

    header: bytes | None = None
    texts: bytes = counted(b"SELECT now()")
    sessions: list[list[bytes]] = field(default_factory=lambda: [[RECORD + COMMON, BOUND], [FAILED]])
    statements: tuple[int, ...] = (3, 1)
    begin: int = 1000
    end: int = 2000
    database: int = 0
    whole: int | None = None
    following: int | None = None
    first: int | None = None
    packed: dict[str, bytes] = field(default_factory=dict)
    trailer: dict[int, int] = field(default_factory=dict)
    version: int = 1

    def head(self) -> bytes:
        """The header, unpacked."""
        return (
            json.dumps({**HEADER, "sessions": len(self.sessions)}).encode()
            if self.header is None
            else self.header
        )

    def whole_file(self) -> bytes:
        """The file."""
        out = bytearray(struct.pack("<16sII", MAGIC, self.version, 0))
        entries = []
        for number, blocks in enumerate(self.sessions):
            first = len(out)
            for place, records in enumerate(blocks):
                packed = self.packed.get("block") or zlib.compress(records)
                behind = len(out) + 16 + len(packed)
                then = behind if place < len(blocks) - 1 else 0
                then = then if self.following is None else self.following
                whole = len(records) if self.whole is None else self.whole
                out += struct.pack("<IIQ", len(packed), whole & 0xFFFFFFFF, then) + packed
            count = self.statements[number] if number < len(self.statements) else len(blocks)
            first = first if self.first is None else self.first
            entries.append(struct.pack("<QQQQII", self.begin, self.end, first, count, self.database, 0))
        directory = len(out)
        out += b"".join(entries)
        texts = self.packed.get("texts") or zlib.compress(self.texts)
        at_texts = len(out)
        out += texts
        header = self.packed.get("header") or zlib.compress(self.head())
        at_header = len(out)
        out += header
        places = [directory, len(entries), at_texts, len(texts), at_header, len(header)]
        for number, value in self.trailer.items():
            places[number] = value
        return bytes(out + struct.pack("<QQQQQQ16s", *(place & (2**64 - 1) for place in places), MAGIC))


def inflating(megabytes: int, begin: bytes = b"", unit: bytes = b"x", end: bytes = b"") -> bytes:
    """Packed data of a few kilobytes that become so many megabytes."""
    block = unit * ((1 << 20) // len(unit))
    packer = zlib.compressobj(9)
    head = packer.compress(begin) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing refers to what came before: the same piece can be repeated.
    piece = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    tail = (packer.compress(end) + packer.flush())[:-4]
    check = zlib.adler32(begin)
    for _ in range(megabytes):
        check = zlib.adler32(block, check)
    return head + piece * megabytes + tail + struct.pack(">I", zlib.adler32(end, check))


def hostile() -> Iterator[tuple[str, File]]:
    """Files that are wrong in one way each, with a name for it."""
    half = (HEADER_START := b'{"made":"') + b"x"
    yield "a header that inflates to 500 MB", File(packed={"header": inflating(500, HEADER_START, end=b'"}')})
    yield "texts that inflate to 500 MB", File(packed={"texts": inflating(500)})
    yield "a block that inflates to 500 MB", File(packed={"block": inflating(500)}, whole=500 << 20)
    yield "a block that inflates to more than it says", File(packed={"block": inflating(500)}, whole=100)
    yield "a block that says 4 GB", File(whole=2**32 - 1)
    yield (
        "a header of a million shapes",
        File(packed={"header": inflating(30, b'{"shapes":[', b'{"text":""},', b'{"text":""}]}')}),
    )
    yield (
        "a header of a million notes",
        File(packed={"header": inflating(30, b'{"notes":[', b'"ab",', b'""]}')}),
    )
    yield "a header nested ever deeper", File(header=b'{"x":' + b"[" * 1_000_000)
    yield "a header nested and closed", File(header=b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    yield "a header cut off", File(header=half)
    yield "a header that is a list", File(header=b"[]")
    yield "a header that is not UTF-8", File(header=b'{"made":"\xff"}')
    yield "an empty header", File(header=b"")
    for name in ("begin", "end", "statements", "sessions", "seconds", "most_sessions"):
        for number in ("-1", "1e400", "9" * 400, "9" * 5000, "18446744073709551616", "NaN", "-1e300"):
            text = json.dumps({**HEADER, name: 1}).replace(f'"{name}": 1', f'"{name}": {number}', 1)
            yield f"{name} = {number[:12]} ({len(number)})", File(header=text.encode())
    yield "packed data with more behind them", File(packed={"header": zlib.compress(b"{}") + b"more"})
    yield "packed data that are cut", File(packed={"header": zlib.compress(json.dumps(HEADER).encode())[:-6]})
    yield "a text longer than all", File(texts=varint(1000) + b"x")
    yield "a text of 2^70 bytes", File(texts=varint(2**70) + b"x")
    yield "a text that is not UTF-8", File(texts=counted(b"\xff\xfe"))
    yield "a hundred thousand texts", File(texts=b"\0" * 100_000)
    yield "a number without an end", File(sessions=[[b"\xff" * 1_000_000]], statements=(1,))
    yield "a number of 70 bits", File(sessions=[[varint(2**69)]], statements=(1,))
    yield (
        "a start beyond all years",
        File(sessions=[[varint(2**63)[:-1] + b"\1" + RECORD[1:]]], statements=(1,)),
    )
    yield "a begin beyond all years", File(begin=2**63)
    yield "an end beyond all years", File(end=2**64 - 1)
    yield (
        "a duration beyond all",
        File(
            sessions=[[varint(5) + bytes([8]) + varint(0) + varint(2**62) + counted(b"x")]], statements=(1,)
        ),
    )
    yield "a shape that is not there", File(sessions=[[varint(5) + bytes([0]) + varint(9) + counted(b"x")]])
    yield (
        "a common text that is not there",
        File(sessions=[[varint(5) + bytes([16]) + varint(0) + varint(9)]]),
    )
    yield "a protocol that is none", File(sessions=[[varint(5) + bytes([3]) + varint(0) + counted(b"x")]])
    yield "a statement cut off", File(sessions=[[RECORD[:-3]]], statements=(1,))
    yield "a parameter cut off", File(sessions=[[BOUND[:-1]]], statements=(1,))
    many = varint(5) + bytes([1]) + varint(0) + counted(b"x") + varint(60_000_000) + b"\0" * 60_000_000
    yield "sixty million parameters", File(sessions=[[many]], statements=(1,))
    yield "a code that is none", File(sessions=[[varint(5) + bytes([4]) + varint(0) + b"\xff" * 5 + b"\1x"]])
    yield "a database that is not there", File(database=7)
    yield "fewer statements than it says", File(statements=(1000, 1))
    yield "more statements than it says", File(statements=(0, 0))
    yield "blocks in a circle", File(following=24)
    yield "blocks that overlap", File(following=41)
    yield "a block beyond the end", File(first=2**62)
    yield "a following block beyond the end", File(following=2**63)
    yield "a block within the header", File(first=3)
    for place in range(6):
        for value in (2**64 - 1, 2**63, 0, 1):
            if value or place != 1:  # no sessions at all are none of the reader's business
                yield f"the trailer's number {place} is {value}", File(trailer={place: value})
    yield "another version", File(version=2)


def mutated(dice: random.Random) -> bytes:
    """A file with something wrong in it, at any of its levels."""
    file = File()
    match dice.randrange(8):
        case 0:
            file.header = json.dumps(in_json(dice, HEADER)).encode("utf-8", "surrogatepass")
        case 1:
            file.header = in_bytes(dice, file.head())
        case 2:
            file.header = _with_number(dice)
        case 3:
            file.texts = in_bytes(dice, file.texts)
        case 4 | 5:
            file.sessions = copy.deepcopy(file.sessions)
            blocks = dice.choice(file.sessions)
            place = dice.randrange(len(blocks))
            blocks[place] = in_bytes(dice, blocks[place])
        case 6:
            name = dice.choice(("begin", "end", "database", "whole", "following", "first"))
            most = 2**32 if name in ("database", "whole") else 2**64
            setattr(file, name, dice.choice((0, 1, 24, 100, most // 2, most - 1, dice.randrange(most))))
        case _:
            file.trailer[dice.randrange(6)] = dice.choice(
                (0, 1, 24, 100, 2**63, 2**64 - 1, dice.randrange(500))
            )
    data = file.whole_file()
    return in_bytes(dice, data) if dice.random() < 0.2 else data


def _with_number(dice: random.Random) -> bytes:
    text = json.dumps(HEADER)
    key = dice.choice(("begin", "end", "sessions", "statements", "calls", "seconds", "count"))
    value = dice.choice(
        (*NUMBERS, "[" * 2000, '"' + dice.choice(TEXTS)[:20].encode("unicode_escape").decode())
    )
    before, key_text, after = text.partition(f'"{key}": ')
    return f"{before}{key_text}{value}{after[after.find(',') :] if ',' in after else after}".encode(
        "utf-8", "surrogatepass"
    )

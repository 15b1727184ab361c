"""Files of recordings: what is written is read, and any other bytes are damage and no accident."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgstrata.errors import PgstrataError, UsageError
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import CapturedError
from pgstrata.traffic.record.convert import convert
from pgstrata.traffic.record.segments import MAGIC, Asked, Damage, Ended, events, is_recording
from support.captured import counted, varint

BEGIN = 1_700_000_000_000_000
TEXTS = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=20)


def file(*blocks: bytes) -> bytes:
    head = struct.pack("<16sII", MAGIC, 1, 0)
    return head + b"".join(struct.pack("<II", len(b), zlib.crc32(b)) + b for b in blocks)


def block(
    text: str, values: list[str | None], later: int, encoding: str = "UTF8", codec: str = "utf-8"
) -> bytes:
    """One session that asks one prepared statement, fails, and ends."""
    data = struct.pack("<Q", BEGIN)
    data += b"\1" + varint(7) + varint(BEGIN) + counted(b"shop") + counted(encoding.encode()) + varint(1)
    data += counted(b"TimeZone") + counted(b"UTC")
    data += b"\2" + counted(text.encode(codec))
    data += (
        b"\3" + varint(0) + varint(0) + bytes([2 | 4 | 8 | 16]) + varint(2 * later) + varint(42) + b"23505"
    )
    data += varint(3) + struct.pack("<Q", 99) + varint(len(values))
    data += b"".join(b"\0" if v is None else counted(v.encode(codec), 1) for v in values)
    return data + b"\4" + varint(0) + varint(2 * later + 100)


def write(folder: Path, data: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "000001.record").write_bytes(data)
    return folder


@given(TEXTS, st.lists(st.none() | TEXTS, max_size=5), st.integers(0, 10**12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path: Path, text: str, values: list[str | None], later: int) -> None:
    folder = write(tmp_path / "r", file(block(text, values, later)))
    assert is_recording(folder)
    damage = Damage()
    asked, ended = events(folder, damage, lambda more: None)
    assert isinstance(asked, Asked) and isinstance(ended, Ended)
    assert (asked.text, asked.values, asked.start) == (text, tuple(values), BEGIN + later)
    assert (asked.duration, asked.sqlstate, asked.rows, asked.digest) == (42, "23505", 3, 99)
    assert asked.session.settings == (("TimeZone", "UTC"),) and ended.at == BEGIN + later + 50
    assert (damage.blocks, damage.cut) == (0, 0)


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [("LATIN1", "latin-1"), ("WIN1252", "cp1252"), ("KOI8R", "koi8-r"), ("EUC_JP", "euc_jp"),
     ("SJIS", "shift_jis"), ("LATIN9", "iso8859-15"), ("ISO_8859_5", "iso8859-5"), ("GBK", "gbk"),
     ("SQL_ASCII", "utf-8"), ("rot13", "utf-8")],
)  # fmt: skip
def test_encodings(tmp_path: Path, encoding: str, codec: str) -> None:
    text = {"koi8-r": "да", "iso8859-5": "да", "euc_jp": "日本", "shift_jis": "日本", "gbk": "中"}.get(
        codec, "ü"
    )
    folder = write(tmp_path / "r", file(block(text, [text], 0, encoding, codec)))
    asked, _ = events(folder, Damage(), lambda more: None)
    assert isinstance(asked, Asked) and (asked.text, asked.values) == (text, (text,))


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_events_or_damage(tmp_path: Path, data: st.DataObject) -> None:
    """With and without a right checksum."""
    whole = bytearray(block("SELECT $1", ["a", None], 5))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    raw = file(bytes(whole))[: data.draw(st.integers(0, 400))]
    for content in (file(bytes(whole)), raw):
        folder = write(tmp_path / "r", content)
        to = tmp_path / "traffic"
        to.unlink(missing_ok=True)
        try:
            assert convert(folder, to).statements <= 2
        except PgstrataError:
            assert not to.exists()


def test_what_is_no_recording(tmp_path: Path) -> None:
    assert not is_recording(tmp_path)
    assert not is_recording(write(tmp_path / "a", b"something else"))
    newer = file(block("SELECT 1", [], 0)).replace(MAGIC + b"\1", MAGIC + b"\2")
    with pytest.raises(CapturedError, match="has version 2 of recordings"):
        convert(write(tmp_path / "b", newer), tmp_path / "to")
    with pytest.raises(UsageError, match="alone"):
        capture([tmp_path / "b", tmp_path / "a"], tmp_path / "to")
    with pytest.raises(UsageError, match="no statement"):
        convert(write(tmp_path / "c", file()), tmp_path / "to")

"""Entries of logs in every form come back as they were written; what is cut is counted and costs no other."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.traffic.logs import csvlog, jsonlog, stderr
from pgstrata.traffic.logs import prefix as prefixes
from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.files import find
from pgstrata.traffic.logs.line import Encoding, LogEntry, Trouble
from support.logs import FORMS, PREFIX, START, Told, log, plain

# What stands in statements: no NUL, and no carriage return alone, which a text log does not keep.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=60
) | st.sampled_from(
    [
        '"',
        '"",\n2026-01-31 12:00:00.000 UTC,"app"',
        "a\n\tb\nDETAIL:  x",
        "\n",
        "'",
        "ü\n",
        '{"timestamp":',
        "\\",
    ]
)
SQL = TEXT.map(lambda text: f"SELECT {text}x")
TOLD = st.builds(
    Told,
    time=st.integers(0, 10**7).map(lambda ms: START + ms * 1000),
    message=SQL,
    session=st.integers(1, 9).map(lambda n: f"697dee4{n}.1a2{n}"),
    detail=TEXT.map(lambda text: text and f"Parameters: {text}x"),
    context=TEXT.map(lambda text: text and f"PL {text}x"),
    query=TEXT.map(lambda text: text and f"SELECT {text}x"),
    severity=st.sampled_from(["LOG", "ERROR"]),
).map(lambda entry: replace(entry, sqlstate="23505" if entry.severity == "ERROR" else "00000"))


def entries(form: str, data: bytes, trouble: Trouble, zone: str | None = None) -> list[LogEntry]:
    file, clock, how = io.BytesIO(data), Clock(zone), Encoding()
    match form:
        case "csvlog":
            return list(csvlog.entries(file, clock, how, trouble))
        case "jsonlog":
            return list(jsonlog.entries(file, clock, how, trouble))
    return list(stderr.entries(file, prefixes.prefix(PREFIX), clock, how, trouble))


def same(entry: LogEntry, original: Told) -> bool:
    return (
        (entry.time, entry.session, entry.message, entry.database)
        == (original.time, original.session, original.message, original.database)
        and (entry.detail, entry.context, entry.query) == (original.detail, original.context, original.query)
        and (entry.failed, entry.sqlstate)
        == (original.severity == "ERROR", original.sqlstate if original.severity == "ERROR" else "")
    )


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@given(originals=st.lists(TOLD, max_size=12))
def test_entries_come_back(form: str, originals: list[Told]) -> None:
    trouble = Trouble()
    read_entries = entries(form, log(originals, form).encode(), trouble)
    assert len(read_entries) == len(originals) and all(
        same(a, b) for a, b in zip(read_entries, originals, strict=True)
    )
    assert not trouble.lost and not trouble.recoded and not any(entry.damage for entry in read_entries)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@given(originals=st.lists(TOLD, min_size=3, max_size=6), data=st.data())
def test_an_entry_that_is_cut_costs_no_other(form: str, originals: list[Told], data: st.DataObject) -> None:
    """Its line ends anywhere, as after a crash; what follows begins on a line of its own."""
    number = data.draw(st.integers(0, len(originals) - 1))
    parts = [log([original], form).encode() for original in originals]
    at = data.draw(st.integers(1, len(parts[number]) - 1))
    trouble = Trouble()
    damaged = b"".join(
        [part[:at].removesuffix(b"\n") + b"\n" if n == number else part for n, part in enumerate(parts)]
    )
    read_entries = entries(form, damaged, trouble)
    others = [original for n, original in enumerate(originals) if n != number]
    kept = [entry for entry in read_entries if any(same(entry, other) for other in others)]
    assert len(kept) >= len(others), (damaged, [e.message for e in read_entries])
    assert len(read_entries) <= len(originals)


@pytest.mark.parametrize("form", FORMS)
@given(data=st.binary(max_size=400))
def test_no_bytes_do_harm(form: str, data: bytes) -> None:
    good = log([plain(START, 1, "SELECT 1")], form).encode()
    read_entries = entries(form, data + b"\n" + good, Trouble())
    assert read_entries and read_entries[-1].message.endswith("SELECT 1")


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_utf8_is_read_as_something_else(form: str) -> None:
    trouble = Trouble()
    data = log([plain(START, 1, "SELECT 'Müller'")], form).encode("latin-1")
    assert entries(form, data, trouble)[0].message.endswith("SELECT 'Müller'")
    assert trouble.recoded >= 1


# --- times ------------------------------------------------------------------------------------


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2037, 12, 31)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu"]),
)
def test_times_of_any_zone(when: datetime, name: str) -> None:
    zone = ZoneInfo(name)
    local = when.replace(tzinfo=UTC).astimezone(zone)
    text = f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03d} {local.tzname()}"
    expected = int(when.replace(tzinfo=UTC, microsecond=0).timestamp()) * 1_000_000
    clock = Clock(name)
    assert clock.microseconds(text) == expected + when.microsecond // 1000 * 1000
    assert clock.microseconds(text) == expected + when.microsecond // 1000 * 1000  # as the one before


def test_times_of_two_zones_and_of_summer_time() -> None:
    clock = Clock()
    # The hour that comes twice: its zone says which one it is.
    assert clock.microseconds("2026-10-25 02:30:00.000 CEST") == clock.microseconds(
        "2026-10-25 00:30:00.000 UTC"
    )
    assert clock.microseconds("2026-10-25 02:30:00.000 CET") == clock.microseconds(
        "2026-10-25 01:30:00.000 UTC"
    )
    assert clock.microseconds("2026-01-01 12:00:00.000 +0530") == clock.microseconds(
        "2026-01-01 06:30:00 UTC"
    )
    assert clock.microseconds("1769860800.250") == 1769860800250000
    assert clock.zones == {"CEST", "CET", "UTC", "+0530"}
    for text in (
        "",
        "2026-13-01 00:00:00 UTC",
        "2026-01-01",
        "12:00:00.000 UTC",
        "2026-01-01 00:00:0x.000 UTC",
    ):
        assert clock.microseconds(text) is None
    with pytest.raises(UsageError, match="IST, which means several"):
        clock.microseconds("2026-01-01 12:00:00.000 IST")
    with pytest.raises(UsageError, match="XYZ, which is not known"):
        clock.microseconds("2026-01-01 12:00:00.000 XYZ")
    with pytest.raises(UsageError, match="no time zone Mars/Olympus"):
        Clock("Mars/Olympus")


# --- prefixes and files -----------------------------------------------------------------------


def test_prefixes_that_leave_out_too_much() -> None:
    with pytest.raises(UsageError, match="has no time"):
        prefixes.prefix("[%p] ")
    with pytest.raises(UsageError, match="tells sessions apart") as caught:
        prefixes.prefix("%m ")
    assert "log_line_prefix = '%m [%c]" in caught.value.hint
    assert prefixes.prefix("%-30m %%[%5p]").pattern.match(b"2026-01-31 12:00:00.000 UTC    %[ 6707]LOG:  x")


def test_rotated_files_are_put_in_order_and_packed_ones_opened(tmp_path: Path) -> None:
    for number, name in enumerate(("c.csv", "a.csv", "b.csv.gz")):
        data = log(
            [plain(START + number * 10**6 + i * 1000, 1, f"SELECT {number}, {i}") for i in range(5)]
        ).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (tmp_path / "empty.csv").write_bytes(b"")
    whole_log = find([tmp_path])
    assert [file.path.name for file in whole_log.files] == ["c.csv", "a.csv", "b.csv.gz"]
    times = [entry.time for entry in whole_log.entries()]
    assert times == sorted(times) and len(times) == 15
    assert len(find([tmp_path / "a.csv", tmp_path / "a.csv"]).files) == 1


def test_what_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\nworld\n")
    (tmp_path / "half.gz").write_bytes(gzip.compress(log([plain(START, 1, "SELECT 1")]).encode())[:-20])
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "a.csv").write_text(log([plain(START, 1, "SELECT 1")]))
    (tmp_path / "a.json").write_text(log([plain(START, 1, "SELECT 1")], "jsonlog"))
    (tmp_path / "none").mkdir()
    for name, why in (
        ("notes.txt", "notes.txt is no log of PostgreSQL; it begins with: hello"),
        ("half.gz", "cannot be read"),
        ("nowhere", "is not there"),
        ("empty", "no entry in the log"),
        ("none", "has no files"),
    ):
        with pytest.raises(UsageError, match=why):
            find([tmp_path / name])
    with pytest.raises(
        UsageError, match=r"several forms and tell the same twice: a.csv \(csvlog\), a.json \(jsonlog\)"
    ):
        find([tmp_path / "a.csv", tmp_path / "a.json"])
    for other in ("notes.txt", "half.gz", "none"):
        path = tmp_path / other
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "a.log").write_text("2026-05-04 10:00:00.000 UTC [7] LOG:  ending log output to stderr\n")
    both = find([tmp_path])
    assert [file.path.name for file in both.files] == ["a.csv"]
    assert sorted(file.path.name for file in both.beside) == ["a.json", "a.log"]
    assert [file.layout.form for file in find([tmp_path / "a.json", tmp_path]).files] == ["jsonlog"]
    with pytest.raises(UsageError, match="no encoding klingon"):
        find([tmp_path / "a.csv"], encoding="klingon")

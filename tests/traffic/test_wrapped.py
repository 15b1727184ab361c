"""What is around a server's log changes nothing of it: every entry comes back, and what is cut is counted."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import shutil
import subprocess
import tempfile
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured, Header, Statement
from pgstrata.traffic.logs import unpacked
from pgstrata.traffic.logs.files import find
from pgstrata.traffic.logs.line import FRAGMENT, PART_LOST, Trouble
from pgstrata.traffic.logs.wrapped import sorting
from pgstrata.traffic.logs.wrapped.find import wrapping
from pgstrata.traffic.logs.wrapped.model import microseconds
from pgstrata.traffic.logs.wrapped.objects import objects
from support import services
from support.logs import MS, START, S, Told, extended, log, plain


def _entries(entries: list[Told]) -> list[services.Entry]:
    return services.entries(log(entries, "stderr"))


def _rows(entries: list[Told]) -> list[dict[str, str]]:
    return services.rows(log(entries, "csvlog"))


WRAPPED = {
    name: (lambda entries, wrap=wrap: wrap(*(log(entries, form) for form in ("stderr", "csvlog", "jsonlog"))))
    for name, wrap in services.WRAPPED.items()
}
LONG = "SELECT " + ", ".join(f"'column {n}' AS c{n}" for n in range(200))

TOLD = [
    Told(START, "connection received: host=[local]"),
    Told(START + MS, "connection authorized: user=app database=shop"),
    plain(START + 20 * MS, 5, "SELECT 1"),
    plain(START + 30 * MS, 5, "SELECT 'it''s',\n  2,\n\n\t3 -- \"x\"\nFROM t"),
    *extended(START + 40 * MS, 3, "UPDATE t SET a = $1\nWHERE b = $2", ["ü\n€", None], name="S_1"),
    plain(START + 50 * MS, 5, LONG),
    plain(START + 60 * MS, 5, "SELECT '" + "x" * 3000 + "'"),
    Told(
        START + 70 * MS,
        "duplicate key",
        severity="ERROR",
        sqlstate="23505",
        query="INSERT INTO t\nVALUES (1)",
        detail="Key (a)=(1) already exists.",
    ),
    replace(plain(START + 75 * MS, 1, "SELECT 'other'"), session="697dee41.1a2c"),
    Told(START + 80 * MS, "disconnection: session time: 0:00:01.000 user=app"),
]


def sessions(file: Path) -> list[list[Statement]]:
    with Captured(file) as opened:
        return [list(opened.statements(entry)) for entry in opened.sessions()]


def captured(folder: Path, data: str | bytes, name: str = "log") -> tuple[Header, list[list[Statement]]]:
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    (folder / "a").unlink(missing_ok=True)
    header = capture([folder / name], folder / "a")
    assert header.balance is not None and header.balance.difference == 0
    return header, sessions(folder / "a")


@pytest.mark.parametrize("name", WRAPPED)
def test_the_same_statements_in_every_wrapping(tmp_path: Path, name: str) -> None:
    plain_header, expected = captured(tmp_path, log(TOLD, "stderr"))
    header, sessions = captured(tmp_path, WRAPPED[name](TOLD))
    assert sessions == expected
    assert not header.damaged and header.balance == plain_header.balance
    assert (" in " in header.source and "other programs" in " ".join(header.notes)) or name not in (
        *("syslog", "Cloud SQL", "CloudNativePG"),
    )


SQL = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="#^") | st.sampled_from("\n \t"),
    max_size=40,
).map(lambda text: f"SELECT {text}x".replace("\x85", "").replace("\u2028", "").replace("\u2029", ""))


@pytest.mark.long
@pytest.mark.parametrize("name", WRAPPED)
@given(
    texts=st.lists(SQL | st.integers(850, 950).map(lambda n: f"SELECT '{'y' * n}' AS \"{n} z\""), max_size=6)
)
@settings(deadline=None, max_examples=40)
def test_any_statements_come_back(name: str, texts: list[str]) -> None:
    entries = [plain(START + n * S, 5, text) for n, text in enumerate([*texts, "SELECT 'last'"])]
    folder = Path(tempfile.mkdtemp())
    try:
        _, expected = captured(folder, log(entries, "stderr"))
        header, sessions = captured(folder, WRAPPED[name](entries))
    finally:
        shutil.rmtree(folder)
    lost = {part.why: part.count for part in header.damaged}
    kept = [s for session in sessions for s in session]
    # What is not certain is not replayed; nothing else is other than it was.
    assert set(lost) <= {PART_LOST}
    assert [s for session in expected for s in session if s in kept] == kept
    assert len(kept) + sum(lost.values()) == len(entries)
    assert not lost or any("\t" in text for text in texts)


@pytest.mark.parametrize("name", WRAPPED)
@given(data=st.binary(max_size=300), cut=st.integers(0, 2000))
@settings(deadline=None, max_examples=40)
def test_no_bytes_do_harm(name: str, data: bytes, cut: int) -> None:
    """A file that is cut anywhere, with anything behind it."""
    whole = WRAPPED[name](TOLD).encode()
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "log").write_bytes(whole[: max(400, len(whole) - cut)] + data)
        header = capture([folder / "log"], folder / "a")
        assert header.balance is not None and header.balance.difference == 0
    except UsageError:
        pass
    finally:
        shutil.rmtree(folder)


# --- what is missing -----------------------------------------------------------------------------


def test_a_chunk_that_is_missing_damages_its_entry_alone(tmp_path: Path) -> None:
    lines = services.syslog(_entries(TOLD)).splitlines(keepends=True)
    third = next(n for n, line in enumerate(lines) if "-3] " in line)
    header, sessions = captured(tmp_path, "".join(line for n, line in enumerate(lines) if n != third))
    _, expected = captured(tmp_path, log(TOLD, "stderr"))
    assert {part.why: part.entries for part in header.damaged} == {PART_LOST: 1}
    assert sum(map(len, sessions)) == sum(map(len, expected)) - 1
    # A file that begins within an entry.
    begin = next(n for n, line in enumerate(lines) if "-2] " in line)
    header, _ = captured(tmp_path, "".join(lines[begin:]))
    assert {part.why for part in header.damaged} == {FRAGMENT}


def test_processes_that_write_at_once_are_kept_apart(tmp_path: Path) -> None:
    first = [plain(START, 5, "SELECT 1,\n2,\n3"), plain(START + S, 5, "SELECT 'a'")]
    other = [replace(plain(START, 5, "SELECT 4,\n5,\n6"), session="697dee41.1a2c")]
    a = [line for line in services.syslog(_entries(first)).splitlines(keepends=True) if "postgres" in line]
    b = [line for line in services.syslog(_entries(other)).splitlines(keepends=True) if "postgres" in line]
    mixed = "".join([a[0], b[0], a[1], b[1], b[2], a[2], *a[3:]])
    _, sessions = captured(tmp_path, mixed)
    assert [[s.text for s in session] for session in sessions] == [
        ["SELECT 1,\n2,\n3", "SELECT 'a'"],
        ["SELECT 4,\n5,\n6"],
    ]


def test_a_color_is_not_taken_for_a_tab(tmp_path: Path) -> None:
    """#011abc may be both where the daemon writes tabs so."""
    entries = [
        plain(START, 1, "SELECT '#011abc'"),
        plain(START + S, 1, "SELECT\t1,\n2"),
        plain(START + 2 * S, 1, "SELECT '#ff0000'"),
    ]
    header, sessions = captured(tmp_path, services.syslog(_entries(entries)))
    assert [[s.text for s in session] for session in sessions] == [["SELECT\t1,\n2", "SELECT '#ff0000'"]]
    assert [part.why for part in header.damaged] == [PART_LOST]
    # ^I may be a pattern, too; in a file whose daemon writes no tabs so it is one.
    entries = [
        plain(START, 1, "SELECT 1,\n2"),
        plain(START + S, 1, "SELECT '^If'"),
        plain(START + 2 * S, 1, "SELECT 3"),
    ]
    header, sessions = captured(tmp_path, services.syslog(_entries(entries), tab="^I"))
    assert [s.text for s in sessions[0]] == ["SELECT 1,\n2", "SELECT 3"] and header.damaged[0].entries == 1
    _, sessions = captured(tmp_path, services.syslog(_entries(entries), tab="\t"))
    assert [s.text for s in sessions[0]] == ["SELECT 1,\n2", "SELECT '^If'", "SELECT 3"]


def test_a_journal_without_its_long_messages(tmp_path: Path) -> None:
    text = services.journal(_entries(TOLD), of_syslog=False)
    text = re.sub(r'"MESSAGE": "[^"]{900,}?(?:[^"\\]|\\.)*"', '"MESSAGE": null', text)
    header, _ = captured(tmp_path, text)
    assert any("without --all" in part.why for part in header.damaged)


def test_heroku_has_its_time_and_process_in_the_header(tmp_path: Path) -> None:
    prefix = " sql_error_code = 00000 "
    originals = [plain(START + n * S, 5, f"SELECT {n},\n  'x'") for n in range(5)]
    entries = [
        replace(entry, lines=(prefix + entry.lines[0].partition("app@shop ")[2], *entry.lines[1:]))
        for entry in _entries(originals)
    ]
    header, sessions = captured(tmp_path, services.heroku(entries))
    assert [s.text for session in sessions for s in session] == [f"SELECT {n},\n      'x'" for n in range(5)]
    assert [s.start // S for session in sessions for s in session] == [START // S + n for n in range(5)]
    assert any("whole seconds" in note for note in header.notes) and header.databases[0].name == "DATABASE"


def test_old_entries_of_cloud_sql_have_their_time_outside(tmp_path: Path) -> None:
    lines = [
        f'{{"insertId":"{n}","logName":"l","timestamp":"2020-04-08T21:32:{n:02d}.456622Z","textPayload":'
        f'"[153735]: [{n}-1] db=shop,user=app LOG:  duration: 11.446 ms  statement: SELECT {n}"}}\n'
        for n in range(10, 30)
    ]
    _, sessions = captured(tmp_path, "".join(lines))
    assert [s.text for session in sessions for s in session] == [f"SELECT {n}" for n in range(10, 30)]
    assert sessions[0][0].start + (sessions[0][0].duration or 0) == microseconds("2020-04-08T21:32:10.456Z")


def test_entries_of_agents(tmp_path: Path) -> None:
    """jsonPayload with the parts of an entry, with a line of jsonlog, with CloudNativePG's record."""
    entries = [plain(START + n * S, 5, f"SELECT {n}") for n in range(3)]
    base = '{"insertId":"1","logName":"l","timestamp":"2026-01-31T12:00:0%dZ","jsonPayload":%s}\n'
    parts = [
        base % (n, f'{{"level":"LOG","tid":7,"user":"app","database":"shop","message":"{entry.message}"}}')
        for n, entry in enumerate(entries)
    ]
    record = [
        base % (n, services.cloudnativepg(_rows([entry])).splitlines()[1]) for n, entry in enumerate(entries)
    ]
    jsonlog = [base % (n, log([entry], "jsonlog").strip()) for n, entry in enumerate(entries)]
    for lines in (parts, record, jsonlog):
        header, sessions = captured(tmp_path, "".join(lines))
        assert [s.text for session in sessions for s in session] == [f"SELECT {n}" for n in range(3)]
        assert [database.name for database in header.databases] == ["shop"]


def test_files_of_a_service_that_overlap_are_put_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "HELD_BYTES", 2000)  # so that files are needed
    entries = [plain(START + n * MS, 0.1, f"SELECT {n}") for n in range(300)]
    for number in range(3):
        part = services.cloud_logging(
            _entries(entries[number::3]), layout=("lines", "array", "lines")[number]
        )
        (tmp_path / f"S{number}.json").write_text(part)
    capture([tmp_path / f"S{n}.json" for n in range(3)], tmp_path / "a")
    assert [s.text for session in sessions(tmp_path / "a") for s in session] == [
        f"SELECT {n}" for n in range(300)
    ]


def test_files_of_several_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(services.cloud_logging(_entries(TOLD)))
    (tmp_path / "b.log").write_text(log(TOLD, "stderr"))
    with pytest.raises(
        UsageError, match=r"several kinds: a.json \(stderr in JSON of Cloud Logging\), b.log \(stderr\)"
    ):
        find([tmp_path / "a.json", tmp_path / "b.log"])


def test_lines_of_tools_around_the_server_are_no_part_of_its_entries(tmp_path: Path) -> None:
    entries = [plain(START + n * S, 5, f"SELECT {n}") for n in range(5)]
    header = "2026-01-31T12:00:00.5+00:00 db1"
    around = [f"{header} {name}: hello\n" for name in ("postgres_exporter[7]", "postgresql-backup[8]")]
    server_lines = [
        f"{header} postgresql@17-main[9]: {line}\n" for line in log(entries, "stderr").splitlines()
    ]
    mixed = [line for server_line in server_lines for line in (server_line, *around)]
    captured_header, sessions = captured(tmp_path, "".join(mixed))
    assert sum(map(len, sessions)) == 5 and not captured_header.damaged
    assert any("10 lines of other programs" in note for note in captured_header.notes)
    # The same in Cloud Logging: other logs of the project stand in between.
    text = services.cloud_logging(_entries(entries))
    other = '{"insertId":"x","logName":"projects/p/logs/run.googleapis.com%2Fstderr","textPayload":"hello",'
    other += '"timestamp":"2026-01-31T12:00:01.5Z"}\n'
    captured_header, sessions = captured(tmp_path, text.replace("\n", f"\n{other}"))
    assert sum(map(len, sessions)) == 5 and not captured_header.damaged


def test_a_syslog_without_a_server_says_so(tmp_path: Path) -> None:
    (tmp_path / "syslog").write_text(f"Aug  3 10:00:00 db1 {services.OTHER_PROGRAM}\n" * 5)
    with pytest.raises(
        UsageError, match="syslog is syslog, and none of its first 200 lines is of Post"
    ) as caught:
        find([tmp_path / "syslog"])
    assert f"grep postgres {tmp_path / 'syslog'} |" in caught.value.hint


@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers() | st.none(), max_size=3)
    )
)
def test_json_objects_in_every_layout(documents: list[dict[str, object]]) -> None:
    import json

    layouts = [
        "".join(json.dumps(document) + "\n" for document in documents),
        json.dumps(documents, indent=2),
        json.dumps(documents),
        json.dumps({"records": documents}, ensure_ascii=False),
        json.dumps({"events": documents, "next": "x"}, indent=1),
        "\n".join(json.dumps(document, indent=3) for document in documents),
    ]
    for text in layouts:
        trouble = Trouble()
        decoded = list(objects(io.BytesIO(text.encode("utf-8", "surrogatepass")), trouble))
        if not documents and text.startswith("{"):
            continue
        assert [document for document in decoded if document] == [
            document for document in documents if document
        ], text
        assert not trouble.lost


def test_times() -> None:
    for text in ("2026-08-03T10:00:00.5Z", "2026-08-03T12:00:00.500+02:00", "2026-08-03T10:00:00.500000123Z"):
        assert microseconds(text) == 1_785_751_200_500_000
    assert microseconds("2026-13-03T10:00:00Z") is None and microseconds("now") is None


def test_a_log_of_the_server_is_wrapped_in_nothing() -> None:
    for form in ("stderr", "csvlog", "jsonlog"):
        assert wrapping(log(TOLD, form).encode().splitlines(keepends=True)) is None


# --- packed --------------------------------------------------------------------------------------

CSV = log([plain(START + n * MS, 1, f"SELECT {n}") for n in range(200)]).encode()


def zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout


PACKED: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("name", PACKED)
def test_packed_files_are_opened(tmp_path: Path, name: str) -> None:
    pack = PACKED[name]
    for data in (pack(CSV), pack(CSV[:5000]) + pack(CSV[5000:]), pack(BOM_UTF8 + CSV)):
        _, sessions = captured(tmp_path, data, f"log.{name}")
        assert sum(map(len, sessions)) == 200
    (tmp_path / "cut").write_bytes(pack(CSV)[:-30])
    with pytest.raises(UsageError, match="cannot be read"):
        capture([tmp_path / "cut"], tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.program
def test_zstd_is_unpacked_by_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("no zstd here")
    for data in (zstd(CSV), zstd(CSV[:5000]) + zstd(CSV[5000:])):
        _, sessions = captured(tmp_path, data, "log.zst")
        assert sum(map(len, sessions)) == 200
    (tmp_path / "cut").write_bytes(zstd(CSV)[:-30])
    with pytest.raises(UsageError, match="cannot be read"):
        capture([tmp_path / "cut"], tmp_path / "b")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="packed with zstd, and there is no program zstd"):
        capture([tmp_path / "log.zst"], tmp_path / "b")


def test_a_file_that_unpacks_to_far_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacked, "ALWAYS", 1 << 20)
    monkeypatch.setattr(unpacked, "MOST_TIMES", 100)
    (tmp_path / "bomb").write_bytes(bz2.compress(CSV) + bz2.compress(b"\n" * (64 << 20)))
    with pytest.raises(UsageError, match="unpacks to more than 100 times its size"):
        capture([tmp_path / "bomb"], tmp_path / "a")


def test_xz_that_asks_for_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacked, "_XZ_MEMORY", 1 << 20)
    (tmp_path / "log.xz").write_bytes(lzma.compress(CSV, preset=9))
    with pytest.raises(UsageError, match="cannot be read: Memory usage limit"):
        capture([tmp_path / "log.xz"], tmp_path / "a")

"""What the entries of a log come to: statements with their values, times and ends."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.traffic import account, captured, sessions
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import (
    EXTENDED,
    OPEN_BEFORE,
    OPEN_BEHIND,
    PREPARED,
    SIMPLE,
    Captured,
    CapturedError,
)
from pgstrata.traffic.messages import parameters
from support.logs import FORMS, MS, START, S, Told, extended, listed, log, plain, taken


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=8))
def test_parameters_come_back(values: list[str | None]) -> None:
    text = listed(values).removeprefix("Parameters: ")
    assert parameters(text) == tuple(values)
    if values and values[-1]:
        assert parameters(text[:-1]) != tuple(values)  # cut off


@pytest.mark.parametrize("form", FORMS)
def test_all_kinds_of_statements(tmp_path: Path, form: str) -> None:
    other = "697dee41.2b3c"
    entries = [
        Told(
            START, "connection received: host=[local]", database="", backend="not initialized", started=START
        ),
        Told(START + MS, "connection authorized: user=app database=shop", started=START),
        plain(START + 20 * MS, 10, "SELECT 'it''s',\n 5"),
        *extended(START + 50 * MS, 9, "SELECT $1, $2", ["a, $2 = 'b'", None]),
        *extended(START + 60 * MS, 3, "UPDATE t SET a = $1", ["7"], name="S_1", session=other),
        # The same portal goes on: no execution of its own.
        Told(
            START + 70 * MS,
            "duration: 2.000 ms  execute fetch from S_1/C_2: UPDATE t SET a = $1",
            session=other,
        ),
        Told(
            START + 80 * MS,
            "duplicate key value violates unique constraint",
            severity="ERROR",
            sqlstate="23505",
            query="INSERT INTO t VALUES (1)",
        ),
        Told(
            START + 90 * MS, "duration: 0.100 ms  bind S_2: INSERT INTO t VALUES ($1)", detail=listed(["8"])
        ),
        Told(
            START + 91 * MS,
            "duplicate key",
            severity="ERROR",
            sqlstate="23505",
            query="INSERT INTO t VALUES ($1)",
            context="unnamed portal with parameters: $1 = '8'",
        ),
        plain(START + 95 * MS, 1, "DISCARD ALL"),
        Told(START + 99 * MS, "checkpoint starting: time", database="", backend="checkpointer"),
        Told(START + S, "disconnection: session time: 0:00:01.000 user=app", started=START),
    ]
    header, by_session = taken(tmp_path, entries, form)
    assert [(e.flags & OPEN_BEFORE, e.flags & OPEN_BEHIND) for e, _ in by_session] == [
        (0, 0),
        (OPEN_BEFORE, OPEN_BEHIND),
    ]
    (first, statements), (_, others) = by_session
    assert (first.begin, first.end) == (START, START + S)
    assert [(s.text, s.protocol, s.parameters, s.sqlstate, s.forgets) for s in statements] == [
        ("SELECT 'it''s',\n 5", SIMPLE, (), "", False),
        ("SELECT $1, $2", EXTENDED, ("a, $2 = 'b'", None), "", False),
        ("INSERT INTO t VALUES (1)", SIMPLE, (), "23505", False),
        ("INSERT INTO t VALUES ($1)", PREPARED, ("8",), "23505", False),
        ("DISCARD ALL", SIMPLE, (), "", True),
    ]
    assert [(s.start - START, s.duration) for s in statements] == [
        (10 * MS, 10 * MS),
        (47 * MS, 9 * MS),
        (80 * MS, None),
        (90 * MS - 100, None),
        (94 * MS, MS),
    ]
    assert [(s.protocol, s.parameters, s.duration) for s in others] == [(PREPARED, ("7",), 5 * MS)]
    assert (header.statements, header.errors, header.timed) == (6, 2, 4)
    assert header.seconds == pytest.approx(0.025)
    assert {s.text: (s.calls, s.errors) for s in header.shapes} == {
        "SELECT $1,\n 5".replace("\n ", " ").replace("5", "$2"): (1, 0),
        "SELECT $1, $2": (2, 0),
        "UPDATE t SET a = $1": (1, 0),
        "INSERT INTO t VALUES ($1)": (2, 2),
        "DISCARD ALL": (1, 0),
    } or header.shapes[0].calls == 2


def test_log_statement_with_and_without_durations(tmp_path: Path) -> None:
    begins = [
        Told(START, "statement: BEGIN"),
        Told(START + 1 * MS, "duration: 0.500 ms"),
        Told(START + 2 * MS, "duration: 0.100 ms"),  # a parse
        Told(START + 3 * MS, "duration: 0.200 ms"),  # a bind
        Told(START + 4 * MS, "execute <unnamed>: SELECT $1", detail=listed(["x"])),
        Told(START + 5 * MS, "duration: 0.700 ms"),
        Told(START + 6 * MS, "statement: SELECT nothing"),
        Told(START + 9 * MS, "no column", severity="ERROR", sqlstate="42703", query="SELECT nothing"),
        Told(START + 10 * MS, "statement: ROLLBACK"),
    ]
    header, [(_, statements)] = taken(tmp_path, begins)
    assert [(s.text, s.start - START, s.duration, s.sqlstate) for s in statements] == [
        ("BEGIN", 0, 500, ""),
        ("SELECT $1", 2 * MS - 100, 1000, ""),
        ("SELECT nothing", 6 * MS, 3 * MS, "42703"),
        ("ROLLBACK", 10 * MS, None, ""),
    ]
    assert any("how long 1 statement took" in note for note in header.notes)
    header, [(_, statements)] = taken(
        tmp_path, [entry for entry in begins if "duration" not in entry.message]
    )
    assert [s.duration for s in statements] == [None, None, 3 * MS, None] and statements[1].parameters == (
        "x",
    )


def test_what_cannot_be_asked_again_is_listed_with_its_time(tmp_path: Path) -> None:
    entries = [
        plain(START + 10 * MS, 1, "SELECT 1"),
        plain(START + 20 * MS, 5, "COPY t FROM STDIN"),
        Told(START + 30 * MS, "duration: 2.000 ms  execute <unnamed>: SELECT $1"),
        plain(START + 40 * MS, 1, "ALTER ROLE app PASSWORD 'secret'"),
        plain(START + 50 * MS, 1, "EXECUTE before(1)"),
        plain(START + 60 * MS, 1, "PREPARE p AS SELECT 1"),
        plain(START + 70 * MS, 1, "EXECUTE p"),
        Told(START + 80 * MS, 'duration: 1.000 ms  fastpath function call: "lo_open" (OID 952)'),
        plain(START + 90 * MS, 1, "LISTEN jobs"),
        plain(START + 95 * MS, 1, "CREATE TABLE new (a int)"),
        Told(START + 99 * MS, "something", severity="ERROR", sqlstate="XX000"),
        Told(START + 99 * MS, "syntax error", severity="ERROR", sqlstate="42601", query="SELEC $1"),
    ]
    header, [(_, statements)] = taken(tmp_path, entries)
    kept = [
        "SELECT 1",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "LISTEN jobs",
        "SELEC $1",
    ]
    assert [s.text for s in statements] == kept
    left = {
        left_out.why: (left_out.count, round(left_out.seconds * 1000), left_out.example)
        for left_out in header.left_out
    }
    assert left == {
        account.ROWS_OF_COPY: (1, 5, "COPY t FROM STDIN"),
        account.DEFINITIONS: (1, 1, "CREATE TABLE new (a int)"),
        account.NO_PARAMETERS: (1, 2, "SELECT $1"),
        account.PASSWORDS: (1, 1, "ALTER ROLE app PASSWORD $1"),
        account.PREPARED_BEFORE: (1, 1, "EXECUTE before(1)"),
        account.FASTPATH: (1, 1, 'duration: 1.000 ms  fastpath function call: "lo_open" (OID 952)'),
        account.NO_STATEMENT: (1, 0, "something"),
    }
    copied = next(left_out for left_out in header.left_out if left_out.why == account.ROWS_OF_COPY)
    assert header.left_out_share(copied) == pytest.approx(5 / 15)
    assert any("log_parameter_max_length = -1" in note for note in header.notes)
    assert b"secret" not in (tmp_path / "log.traffic").read_bytes()


def test_sessions_that_are_open_at_both_ends(tmp_path: Path) -> None:
    entries = [
        plain(START, 1, "UPDATE t SET a = 1"),
        plain(START + 10 * MS, 1, "COMMIT", session="697dee41.2b3c"),
        plain(START + 20 * MS, 1, "BEGIN"),
        plain(START + 30 * MS, 1, "UPDATE t SET a = 2"),
    ]
    header, by_session = taken(tmp_path, entries)
    assert [e.flags for e, _ in by_session] == [OPEN_BEFORE | OPEN_BEHIND] * 2
    assert any(note.startswith("1 transaction had begun before the log") for note in header.notes)
    assert any(note.startswith("1 transaction stayed open at the end") for note in header.notes)


def test_a_process_number_that_comes_again_is_another_session(tmp_path: Path) -> None:
    prefix = "%m [%p] "
    lines = []
    for number in range(2):
        at = START + number * S
        for entry in (
            Told(at, "connection received: host=[local]"),
            plain(at + 10 * MS, 1, f"SELECT {number}"),
        ):
            lines.append(
                log([entry], "stderr").replace(f"[{entry.session}] 00000 app@shop ", f"[{entry.process}] ")
            )
    (tmp_path / "log").write_text("".join(lines))
    header = capture([tmp_path / "log"], tmp_path / "a", prefix=prefix)
    assert (header.sessions, header.statements, header.most_sessions) == (2, 2, 1)


def test_times_within_a_session_never_overlap(tmp_path: Path) -> None:
    """The log's times are cut to milliseconds, durations are not."""
    entries = [plain(START + n // 3 * MS, 0.33, f"SELECT {n}") for n in range(30)]
    _, [(_, statements)] = taken(tmp_path, entries)
    ends = [s.start + (s.duration or 0) for s in statements]
    assert all(s.start >= end for s, end in zip(statements[1:], ends, strict=False))
    assert all(end <= entry.time + MS for entry, end in zip(entries, ends, strict=True))


def test_many_sessions_do_not_stay_in_mind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 10)
    entries = [
        plain(START + n * MS, 0.1, f"SELECT {n}", session=f"697dee4{n % 50:02x}.1a2b") for n in range(200)
    ]
    header, by_session = taken(tmp_path, entries)
    assert sum(len(statements) for _, statements in by_session) == 200 == header.statements
    assert any("paused for so long" in note for note in header.notes)
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 100)
    monkeypatch.setattr(sessions, "MOST_SHAPES", 1)
    entries = [plain(START + n * MS, 0.1, f"SELECT a{n}") for n in range(20)]
    header, _ = taken(tmp_path, entries)
    assert [s.text for s in header.shapes] == ["SELECT a0", sessions.OTHERS]
    assert [s.calls for s in header.shapes] == [1, 19]


def test_a_masked_file_has_nothing_of_the_values(tmp_path: Path) -> None:
    entries = [
        plain(START + MS, 0.5, "SELECT 'Frederike' /* Frederike */, 48213"),
        *extended(START + 5 * MS, 0.3, "SELECT $1", ["Frederike"]),
        plain(START + 9 * MS, 0.5, "COPY t FROM STDIN -- Frederike"),
        Told(
            START + 12 * MS, "not Frederike", severity="ERROR", sqlstate="23505", query="SELECT 'Frederike'"
        ),
    ]
    header, [(_, statements)] = taken(tmp_path, entries, mask=True)
    assert header.masked and statements[0].text.count("'") == 2
    value = statements[0].text.split("'")[1]
    assert len(value) == 9 and value != "Frederike" and statements[1].parameters == (value,)
    assert statements[2].text == f"SELECT '{value}'"
    whole = "".join(map(str, statements)) + str(header)
    assert "Frederike" not in whole and "48213" not in whole


def test_memory_does_not_grow_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held of sessions that write is bounded, however many statements they have."""
    held: list[int] = []
    flush = captured.Writer._flush

    def noted(writer: captured.Writer, session: captured.SessionWriter) -> None:
        held.append(sum(len(open_session.buffer) for open_session in writer._open.values()))
        flush(writer, session)

    monkeypatch.setattr(captured.Writer, "_flush", noted)
    monkeypatch.setattr(captured, "HELD_BYTES", 100_000)
    entries = [
        plain(START + n * MS, 0.1, f"SELECT '{n} {'x' * 300}'", session=f"697dee4{n % 16:x}.1a2b")
        for n in range(3000)
    ]
    header, by_session = taken(tmp_path, entries)
    assert sum(len(statements) for _, statements in by_session) == header.statements == 3000
    assert max(held) < 120_000


@pytest.mark.program
def test_a_disk_that_fills_and_what_is_said_before(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgstrata.traffic.capture.SAID_EVERY", 0.0)
    dice = Random(1)
    entries = [plain(START + n * MS, 0.1, f"SELECT '{dice.randbytes(200).hex()}'") for n in range(12_000)]
    (small_disk / "log").write_text(log(entries))
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filled").write_bytes(b"x" * (free - (1500 << 10)))
    messages: list[str] = []
    with pytest.raises(
        CapturedError, match=r"no space left for .*a\.traffic, of which .* were written"
    ) as caught:
        capture([small_disk / "log"], small_disk / "a.traffic", say=messages.append)
    assert "another disk" in caught.value.hint
    assert sorted(path.name for path in small_disk.iterdir()) == ["filled", "log"]
    assert any(
        "left; the file will have about" in message and "its disk has" in message for message in messages
    ), messages
    (small_disk / "filled").unlink()
    assert capture([small_disk / "log"], small_disk / "a.traffic").statements == 12_000


def test_a_log_without_what_is_needed_says_what_to_set(tmp_path: Path) -> None:
    cases = {
        "set on the server: log_min_duration_statement = 0": [Told(START, "checkpoint", database="")],
        "log_parameter_max_length": [Told(START, "duration: 1.000 ms  execute <unnamed>: SELECT $1")],
        "lc_messages": [Told(START, "Dauer: 0,123 ms  Anweisung: SELECT 1")],
    }
    for hint, entries in cases.items():
        (tmp_path / "log").write_text(log(entries))
        with pytest.raises(UsageError) as caught:
            capture([tmp_path / "log"], tmp_path / "a")
        assert hint in caught.value.hint, caught.value
        assert not (tmp_path / "a").exists()
    slow = [plain(START + n * S, 250 + n, "SELECT 1") for n in range(120)]
    header, _ = taken(tmp_path, slow)
    assert any("only slow statements: none of 120 took less than 250" in note for note in header.notes)


def test_two_zones_and_an_hour_that_comes_twice(tmp_path: Path) -> None:
    """Files of servers in two zones, and of one that turns its clocks back: one order, one length."""
    summer = 1_792_888_200 * S  # 2026-10-25 00:30 UTC, 02:30 of Berlin for the first time
    parts = [
        ("b.csv", summer + 3600 * S, "CET", 3600, "697dee43.1a2b"),
        ("a.csv", summer, "CEST", 7200, "697dee42.1a2b"),
        ("c.csv", summer + 1800 * S, "UTC", 0, "697dee41.1a2b"),
    ]
    for name, at, zone, offset, session in parts:
        entries = [plain(at + n * S, 1, f"SELECT {n}", session=session) for n in range(3)]
        (tmp_path / name).write_text(log(entries, "csvlog", zone, offset))
    header = capture([tmp_path / name for name, *_ in parts], tmp_path / "a.traffic")
    with Captured(tmp_path / "a.traffic") as file:
        begins = [entry.begin for entry in file.sessions()]
    assert begins == [summer + wait * S - MS for wait in (0, 1800, 3600)]
    assert header.end - header.begin == 3602 * S + MS and header.files == ["a.csv", "c.csv", "b.csv"]
    assert any("several zones: CEST, CET, UTC" in note for note in header.notes)


def test_what_is_not_utf8_is_told(tmp_path: Path) -> None:
    entries = [plain(START, 1, "SELECT 'Müller'"), plain(START + S, 1, "SELECT 'plain'")]
    (tmp_path / "log").write_bytes(log(entries).encode("cp1252"))
    header = capture([tmp_path / "log"], tmp_path / "a", encoding="cp1252")
    assert any(note == "read as cp1252 (--encoding): 1 text, not UTF-8" for note in header.notes)
    with Captured(tmp_path / "a") as file:
        (entry,) = file.sessions()
        assert [s.text for s in file.statements(entry)] == ["SELECT 'Müller'", "SELECT 'plain'"]


def test_what_a_driver_has_prepared_is_not_deallocated_by_its_name(tmp_path: Path) -> None:
    """As PDO, psycopg and Active Record do it; a replay has names of its own, and would end the transaction
    with an error."""
    entries = [
        plain(START, 1, "BEGIN"),
        *extended(START + 10 * MS, 1, "SELECT $1::int", ["1"], name="pdo_stmt_00000001"),
        plain(START + 20 * MS, 2, "DEALLOCATE pdo_stmt_00000001"),
        plain(START + 30 * MS, 1, "/* app */ PREPARE mine AS SELECT 1"),
        plain(START + 40 * MS, 1, "-- app\nEXECUTE mine"),
        plain(START + 50 * MS, 1, 'deallocate prepare "mine"'),
        plain(START + 60 * MS, 3, "DEALLOCATE mine"),
        plain(START + 70 * MS, 1, "DISCARD PLANS"),
        plain(START + 80 * MS, 1, "COMMIT; DEALLOCATE ALL"),
    ]
    header, [(_, statements)] = taken(tmp_path, entries)
    assert [(s.text, s.forgets) for s in statements] == [
        ("BEGIN", False),
        ("SELECT $1::int", False),
        ("/* app */ PREPARE mine AS SELECT 1", False),
        ("-- app\nEXECUTE mine", False),
        ('deallocate prepare "mine"', False),
        ("DISCARD PLANS", False),
        ("COMMIT; DEALLOCATE ALL", True),
    ]
    (left_out,) = header.left_out
    assert (left_out.why, left_out.count) == (account.PREPARED_BY_DRIVER, 2)
    assert left_out.seconds == pytest.approx(0.005)


def test_temporary_tables_are_no_definitions(tmp_path: Path) -> None:
    kept = [
        "\n    CREATE TEMP TABLE one (a int)",
        "/* job 7 */ CREATE INDEX ON one (a)",
        "DROP TABLE IF EXISTS two; CREATE TEMPORARY TABLE two AS SELECT ';' AS a",
        "ALTER TABLE two ADD b int",
        "SELECT 1 AS a INTO TEMP three",
        "CREATE INDEX ON three (a)",
        "create table pg_temp.four (a int)",
        "DROP TABLE four",
        "CREATE TABLE IF NOT EXISTS pg_temp.five (a int)",
        "INSERT INTO temp SELECT 1",
    ]
    defining = [
        "CREATE TABLE real AS SELECT 'CREATE TEMP TABLE real'",
        "DROP TABLE IF EXISTS real; CREATE TEMP TABLE six (a int)",
        "CREATE INDEX ON real (a)",
    ]
    texts = [*kept, *defining]
    entries = [plain(START + n * S, 1, text) for n, text in enumerate(texts)]
    header, [(_, statements)] = taken(tmp_path, entries)
    assert [s.text for s in statements] == kept
    (left_out,) = header.left_out
    assert (left_out.why, left_out.count) == (account.DEFINITIONS, len(defining))


def test_values_of_several_lines_in_the_context_of_an_error(tmp_path: Path) -> None:
    for number, context in enumerate(
        (
            "unnamed portal with parameters: {}",
            'PL/pgSQL function f(text) line 3 at RAISE\nportal "C_1" with parameters: {}',
            "extended query with parameters: {}\nand a line behind it",
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        values = ["Dear all,\nPlease note, $2 = 'x'\n\nRegards", None, "7"]
        text = listed(values).removeprefix("Parameters: ")
        failed = Told(
            START,
            "no",
            severity="ERROR",
            sqlstate="23505",
            query="INSERT INTO t VALUES ($1, $2, $3)",
            context=context.format(text),
        )
        _, [(_, statements)] = taken(folder, [failed])
        assert [s.parameters for s in statements] == [tuple(values)]


def test_what_was_canceled_is_left_out_with_its_time(tmp_path: Path) -> None:
    """Nothing would cancel it in a replay, which may wait for hours."""
    entries = [
        plain(START, 1, "SELECT 1"),
        Told(START + 10 * MS, "statement: SELECT slow()"),
        Told(
            START + 5 * S,
            "canceling statement due to statement timeout",
            severity="ERROR",
            sqlstate="57014",
            query="SELECT slow()",
        ),
        plain(START + 6 * S, 1, "ROLLBACK"),
    ]
    header, [(_, statements)] = taken(tmp_path, entries)
    assert [s.text for s in statements] == ["SELECT 1", "ROLLBACK"]
    (left_out,) = header.left_out
    assert (left_out.why, left_out.count, left_out.entries) == (account.CANCELED, 1, 2)
    assert left_out.seconds == pytest.approx(4.99)

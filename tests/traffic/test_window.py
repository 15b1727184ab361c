"""The busiest window of a log, a chosen one, and logs without their pauses."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.traffic import account
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured, Header, Statement
from pgstrata.traffic.window import PAUSE, Window, busiest, cut, window_of
from support.logs import MS, START, S, Told, extended, log, plain, taken
from support.program import Program

MINUTE = 60 * S


def captured(folder: Path, entries: list[Told]) -> Path:
    (folder / "log").write_text(log(sorted(entries, key=lambda entry: entry.time)))
    capture([folder / "log"], folder / "whole")
    return folder / "whole"


def part(
    folder: Path, whole: Path, window: Window, *, skip_idle: bool = False
) -> tuple[Header, list[list[Statement]]]:
    (folder / "part").unlink(missing_ok=True)
    header = cut(whole, folder / "part", window, skip_idle=skip_idle)
    with Captured(folder / "part") as file:
        assert file.header == header
        return header, [list(file.statements(entry)) for entry in file.sessions()]


def texts(sessions: list[list[Statement]]) -> list[list[str]]:
    return [[s.text for s in session] for session in sessions]


def test_the_busiest_window_has_the_most_time(tmp_path: Path) -> None:
    """Quiet at the beginning, many fast statements in the middle, few slow ones behind them."""
    entries = [plain(START + n * MINUTE, 1, f"SELECT {n}") for n in range(60)]
    entries += [plain(START + 20 * MINUTE + n * 100 * MS, 2, f"SELECT 'many {n}'") for n in range(600)]
    entries += [plain(START + 40 * MINUTE + n * 2 * S, 1500, f"SELECT 'slow {n}'") for n in range(20)]
    whole = captured(tmp_path, entries)
    window = busiest(whole, 60)
    assert START + 39 * MINUTE <= window.begin <= START + 40 * MINUTE and window.end == window.begin + MINUTE
    header, _ = part(tmp_path, whole, window)
    assert header.statements in (20, 21)
    # A window that is longer than the log is the log.
    with Captured(whole) as all_of_it:
        assert busiest(whole, 10_000) == Window(all_of_it.header.begin, all_of_it.header.end + 1)


def test_without_durations_statements_are_counted(tmp_path: Path) -> None:
    entries = [Told(START + n * S, f"statement: SELECT {n}") for n in range(100)]
    entries += [Told(START + 50 * S + n * MS, f"statement: SELECT {n}") for n in range(300)]
    window = busiest(captured(tmp_path, entries), 5)
    assert window.begin <= START + 50 * S and window.end >= START + 50 * S + 300 * MS


def test_each_statement_is_in_the_window_or_outside(tmp_path: Path) -> None:
    entries = [plain(START + n * S, 10, f"SELECT {n}") for n in range(100)]
    whole = captured(tmp_path, entries)
    header, sessions = part(tmp_path, whole, Window(START + 20 * S, START + 30 * S))
    assert texts(sessions) == [[f"SELECT {n}" for n in range(21, 31)]]
    outside = header.left_out[0]
    assert outside.why.startswith("outside of the window 2026-01-31 12:00:20 to 12:00:30 UTC")
    assert outside.count + header.statements == 100
    assert outside.seconds + header.seconds == pytest.approx(1.0)
    assert header.left_out_share(outside) == pytest.approx(0.9) and header.balance is None
    with pytest.raises(UsageError, match=r"no statement of .*whole begins within"):
        part(tmp_path, whole, Window(START + 200 * S, START + 300 * S))
    assert not (tmp_path / "part").exists()


def test_what_was_set_before_holds_within(tmp_path: Path) -> None:
    before = [
        "SET search_path TO old",
        "SET search_path TO shop",
        "SET work_mem = '5MB'",
        "RESET work_mem",
        "SELECT set_config('app.tenant', '7', false)",
        "PREPARE find AS SELECT 1",
        "PREPARE gone AS SELECT 2",
        "DEALLOCATE gone",
        "CREATE TEMP TABLE mine (a int)",
        "SELECT 'nothing of it'",
        "BEGIN",
        "SET timezone = 'UTC'",
        "ROLLBACK",
        "BEGIN",
        "SET application_name = 'kept'",
        "COMMIT",
        "BEGIN",
        "SET LOCAL lock_timeout = '1s'",
        "INSERT INTO t VALUES (1)",
        "SAVEPOINT a",
    ]
    entries = [plain(START + n * S, 1, text) for n, text in enumerate(before)]
    entries.append(
        Told(START + 30 * S, "no such setting", severity="ERROR", sqlstate="42704", query="SET nothing TO 1")
    )
    within = ["EXECUTE find", "ROLLBACK TO a", "COMMIT"]
    entries += [plain(START + (60 + n) * S, 1, text) for n, text in enumerate(within)]
    entries += [replace(plain(START, 1, "SET search_path TO other"), session="697dee41.1a2c")]
    entries += [replace(plain(START + 61 * S, 1, "SELECT 'other'"), session="697dee41.1a2c")]
    header, sessions = part(tmp_path, captured(tmp_path, entries), Window(START + 50 * S, START + 70 * S))
    assert sorted(texts(sessions), key=len) == [
        ["SET search_path TO other", "SELECT 'other'"],
        [
            "SET search_path TO shop",
            "SELECT set_config('app.tenant', '7', false)",
            "PREPARE find AS SELECT 1",
            "CREATE TEMP TABLE mine (a int)",
            "SET application_name = 'kept'",
            "BEGIN",
            "SET LOCAL lock_timeout = '1s'",
            "SAVEPOINT a",
            *within,
        ],
    ]
    assert all(s.start >= START + 50 * S for session in sessions for s in session)
    notes = " ".join(header.notes)
    assert "9 statements from before it" in notes and "1 transaction had begun before" in notes


def test_what_was_dropped_before_is_not_made_again(tmp_path: Path) -> None:
    """A session that makes its temporary table for each job anew would find it there, and fail."""
    before = [
        "CREATE TEMP TABLE job AS SELECT 1 AS a",
        "DROP TABLE IF EXISTS job, pg_temp.other CASCADE",
        "/* next */ CREATE TEMP TABLE job AS SELECT 2 AS a",
        "DROP TABLE IF EXISTS work; CREATE TEMP TABLE work (a int)",
        "BEGIN",
        "CREATE TEMP TABLE short (a int) ON COMMIT DROP",
        "DECLARE kept CURSOR WITH HOLD FOR SELECT 1",
        "COMMIT",
        "DECLARE closed CURSOR WITH HOLD FOR SELECT 2",
        "CLOSE closed",
        "LISTEN jobs",
        "LISTEN mail",
        "UNLISTEN mail",
        "BEGIN",
        "CREATE TEMP TABLE failed (a int)",
        "COMMIT",
        "BEGIN",
        "SET work_mem = '8MB'",
        "DROP TABLE work",
    ]
    entries = [plain(START + n * S, 1, text) for n, text in enumerate(before)]
    failure = Told(START + 14 * S + 500 * MS, "no", severity="ERROR", sqlstate="22012", query="SELECT 1 / 0")
    within = [plain(START + 60 * S, 1, "COMMIT")]
    whole = captured(tmp_path, [*entries, failure, *within])
    _, sessions = part(tmp_path, whole, Window(START + 50 * S, START + 70 * S))
    assert texts(sessions) == [
        [
            "/* next */ CREATE TEMP TABLE job AS SELECT 2 AS a",
            "DROP TABLE IF EXISTS work; CREATE TEMP TABLE work (a int)",
            "DECLARE kept CURSOR WITH HOLD FOR SELECT 1",
            "LISTEN jobs",
            "BEGIN",
            "SET work_mem = '8MB'",
            "DROP TABLE work",
            "COMMIT",
        ]
    ]


def test_prepared_statements_keep_their_protocol(tmp_path: Path) -> None:
    entries = [
        entry for n in range(20) for entry in extended(START + n * S, 3, "SELECT $1", [f"{n}"], name="S_1")
    ]
    _, sessions = part(tmp_path, captured(tmp_path, entries), Window(START + 10 * S, START + 15 * S))
    assert [(s.protocol, s.parameters) for s in sessions[0]] == [(2, (f"{n}",)) for n in range(11, 16)]


def test_pauses_of_all_sessions_are_cut(tmp_path: Path) -> None:
    entries = [plain(START, 1, "SELECT 1"), plain(START + 3600 * S, 1, "SELECT 2")]
    entries += [replace(plain(START + 1800 * S, 600_000, "SELECT 'long'"), session="697dee41.1a2c")]
    whole = captured(tmp_path, entries)
    with Captured(whole) as file:
        window = Window(file.header.begin, file.header.end + 1)
    header, sessions = part(tmp_path, whole, window, skip_idle=True)
    starts = sorted(s.start for session in sessions for s in session)
    gaps = [b - a for a, b in pairwise(starts)]
    # 20 minutes before the long one and 30 behind it are gone; the ten minutes in which it ran are not.
    assert PAUSE <= gaps[0] <= 2 * PAUSE and 600 * S < gaps[1] <= 602 * S
    assert any("in which no session asked for anything were cut" in note for note in header.notes)
    assert not any("were cut" in note for note in part(tmp_path, whole, window)[0].notes)


@given(
    st.lists(
        st.tuples(st.integers(0, 600_000), st.integers(0, 5000), st.integers(0, 3)), min_size=1, max_size=20
    )
)
def test_cutting_pauses_keeps_order_and_durations(times: list[tuple[int, int, int]]) -> None:
    entries = [
        replace(plain(START + at * MS, took, f"SELECT {n}"), session=f"697dee4{session}.1a2{session}")
        for n, (at, took, session) in enumerate(sorted(times))
    ]
    with tempfile.TemporaryDirectory() as name:
        whole = captured(Path(name), entries)
        with Captured(whole) as file:
            before = [list(file.statements(entry)) for entry in file.sessions()]
            window = Window(file.header.begin, file.header.end + 1)
        _, after = part(Path(name), whole, window, skip_idle=True)
    old = sorted((s.start, s.text) for statements in before for s in statements)
    new = sorted((s.start, s.text) for statements in after for s in statements)
    assert sorted(text for _, text in old) == sorted(text for _, text in new)
    moved = {text: start for start, text in new}
    for (a, earlier), (b, other) in pairwise(old):
        assert moved[earlier] <= moved[other] and moved[other] - moved[earlier] <= b - a


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("12:10-12:20", 10, 20),
        ("12:10:00–12:20", 10, 20),
        ("2026-01-31T12:10-2026-01-31T12:20", 10, 20),
        ("2026-01-31 12:10-12:20", 10, 20),
        ("11:00-12:05", -60, 5),
        ("23:50-12:05", -730, 5),
    ],
)
def test_windows_that_users_write(text: str, begin: int, end: int) -> None:
    header = Header(begin=START, end=START + 60 * MINUTE)
    assert window_of(text, header) == Window(START + begin * MINUTE, START + end * MINUTE)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("noon", "is no window of time"),
        ("12:10", "is no window of time"),
        ("25:00-26:00", "a time that does not exist"),
        ("14:00-15:00", "lies beside the log"),
        ("2026-01-31T12:20-2026-01-31T12:10", "ends before it begins"),
        ("2025-01-31T12:10-2025-01-31T12:20", "lies beside the log"),
    ],
)
def test_windows_that_are_none(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        window_of(text, Header(begin=START, end=START + 60 * MINUTE))


@pytest.mark.program
def test_the_command_cuts_logs_and_captured_files(place: Path, pgstrata: Program) -> None:
    (place / "log").write_text(log([plain(START + n * MINUTE, 1, f"SELECT {n}") for n in range(30)]))
    done = pgstrata("capture", "log", "--window", "12:10-12:20", "--skip-idle", "-o", "a.traffic")
    assert done.returncode == 0, done.stderr
    assert "statements:  10," in done.stdout and "outside of the window" in done.stdout
    assert pgstrata("capture", "log", "-o", "whole.traffic").returncode == 0
    again = pgstrata("capture", "whole.traffic", "--window", "12:10-12:20", "-o", "b.traffic")
    assert again.returncode == 0 and "statements:  10," in again.stdout
    for arguments, why in (
        (("log", "--window", "12:10-12:20", "-o", "a.traffic"), "is there already"),
        (("log", "--window", "12:10-12:20"), "not said where the part of the log goes"),
        (("whole.traffic", "--window", "12:10-12:20", "--mask", "-o", "c.traffic"), "--mask is for logs"),
        (("log", "--window", "15:10-15:20", "-o", "c.traffic"), "lies beside the log"),
    ):
        refused = pgstrata("capture", *arguments)
        assert refused.returncode == 2 and why in refused.stderr and "Traceback" not in refused.stderr
    assert sorted(path.name for path in place.iterdir()) == ["a.traffic", "b.traffic", "log", "whole.traffic"]


def test_definitions_and_maintenance_are_no_traffic(tmp_path: Path) -> None:
    cases = [
        ("CREATE TABLE a (b int)", account.DEFINITIONS),
        ("alter table a add c int", account.DEFINITIONS),
        ("GRANT SELECT ON a TO b", account.DEFINITIONS),
        ("VACUUM a", account.MAINTENANCE),
        ("analyze", account.MAINTENANCE),
        ("SELECT /* pgstrata capture */ 1", account.OWN),
        ("SET /* pgstrata capture */ timezone = UTC", account.OWN),
        ("CREATE TEMP TABLE mine AS SELECT 1", None),
        ("CREATE INDEX i ON mine (a)", None),
        ('DROP TABLE IF EXISTS "mine"', None),
        ("TRUNCATE a", None),
        ("INSERT INTO a VALUES (1)", None),
        ("DROP TABLE a", account.DEFINITIONS),
    ]
    entries = [plain(START + n * S, 2, text) for n, (text, _) in enumerate(cases)]
    header, [(_, statements)] = taken(tmp_path, entries)
    assert [s.text for s in statements] == [text for text, why in cases if why is None]
    for why in {why for _, why in cases if why}:
        (left_out,) = [part for part in header.left_out if part.why == why]
        count = sum(1 for _, other in cases if other == why)
        assert (left_out.count, left_out.entries) == (count, count)
        assert left_out.seconds == pytest.approx(0.002 * count)

"""One application's traffic under many logging settings: each log tells the same, or what it cannot tell."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.model import Server
from pgstrata.traffic import account
from pgstrata.traffic.account import CUT_VALUES
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured, Header, Statement
from support import services
from support.steps import running

COMMON = {
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql",
    "log_destination": "stderr,csvlog,jsonlog",
    "log_min_duration_statement": "-1",
    "log_statement": "none",
    "log_duration": "off",
    "log_error_verbosity": "default",
    "log_parameter_max_length": "-1",
    "log_parameter_max_length_on_error": "-1",
    "log_connections": "on",
    "log_disconnections": "on",
    "log_line_prefix": "%m [%c] %e %q%u@%d ",
}
ALL = {"log_min_duration_statement": "0"}
BEGINS = {"log_statement": "all", "log_duration": "on"}
SETTINGS: dict[str, dict[str, str]] = {
    "durations": ALL,
    "statements": BEGINS,
    "both": {**ALL, **BEGINS},
    "mod": {**ALL, "log_statement": "mod"},
    "verbose": {**ALL, "log_error_verbosity": "verbose", "log_line_prefix": "%m [%p] %q%u@%d %h "},
    "verbose statements": {**BEGINS, "log_error_verbosity": "verbose"},
    "rds": {**ALL, "log_line_prefix": "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a"},
    "keys": {**BEGINS, "log_line_prefix": "%m [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h "},
    "whole seconds": {**ALL, "log_line_prefix": "%t [%p] %q%u@%d "},
    "terse": {**ALL, "log_error_verbosity": "terse"},
    "no values": {**ALL, "log_parameter_max_length": "0", "log_parameter_max_length_on_error": "0"},
    "short values": {**ALL, "log_parameter_max_length": "3"},
    "only durations": {"log_duration": "on"},
    "slow": {"log_min_duration_statement": "40"},
    "order": {"log_statement": "all"},
}
SAME = (
    "durations",
    "statements",
    "both",
    "mod",
    "verbose",
    "verbose statements",
    "rds",
    "keys",
    "whole seconds",
)
"""Settings under which a log has everything."""

VALUES = ["it's\n\t'7' \\ \"", "ü€", "", "$1 = 'x', $2 = NULL", "DETAIL:  none"]


def work(cluster: Cluster) -> None:
    """An application: several databases and users, both protocols, failures, cancels, cursors, COPY."""
    for number, (name, user) in enumerate((("shop", "app"), ("other", "reader"))):
        with cluster.connect(name) as connection:
            connection.execute(f"SET SESSION AUTHORIZATION {user}")
            simple(connection, number)
            extended(connection, number)
            prepared(connection, number)
            low_level(connection)
            fails(connection, number)
    canceled(cluster)


def simple(connection: psycopg.Connection[Any], number: int) -> None:
    for text in (
        f"SELECT 'simple {number}', 'it''s\n\t\"x\"', E'\\\\'",
        "BEGIN; SELECT 1; COMMIT",
        "DO $$ BEGIN RAISE WARNING 'duration: 7.000 ms  statement: SELECT nothing'; END $$",
        "COMMIT",
        "SET search_path TO public",
        "SELECT 'LOG:  statement: x'\n\n, 'ERROR:  y'",
    ):
        connection.pgconn.exec_(text.encode())
    connection.pgconn.exec_(b"SET client_encoding TO 'LATIN1'")
    connection.pgconn.exec_("SELECT 'Müller'".encode("latin-1"))
    connection.pgconn.exec_(b"SELECT set_config('client_encoding', 'UTF8', false)")


def extended(connection: psycopg.Connection[Any], number: int) -> None:
    for row, value in enumerate([*VALUES, None]):
        connection.execute("INSERT INTO t VALUES (%s, %s)", (100 * number + row, value), prepare=False)
    connection.execute("SELECT %b::bytea, %s::int", (b"\x00\xff'", None), prepare=False)
    with connection.transaction():
        connection.execute("UPDATE t SET b = %s WHERE a = %s", ("in a transaction", number))
        connection.execute("SELECT pg_sleep(0.05)")
    with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
        copy.write_row((10_000 + number, "copied"))
    with connection.cursor() as cursor, cursor.copy("COPY t TO STDOUT") as copy:
        for _ in copy:
            pass
    with connection.transaction(), connection.cursor(name="c1") as named:
        named.itersize = 2
        named.execute("SELECT a FROM t WHERE a > %s", (-1,))
        named.fetchall()


def prepared(connection: psycopg.Connection[Any], number: int) -> None:
    for row in range(5):
        connection.execute("SELECT b FROM t WHERE a = %s", (row,), prepare=True)
    connection.execute("PREPARE named AS SELECT $1::int")
    connection.execute("EXECUTE named(5)")


def low_level(connection: psycopg.Connection[Any]) -> None:
    """Prepared long before it is executed, and never executed."""
    plain = connection.pgconn
    plain.prepare(b"early", b"SELECT $1::text || 'early'")
    plain.prepare(b"never", b"SELECT 'never'")
    plain.exec_(b"SELECT 'in between'")
    plain.exec_prepared(b"early", [b"value"])
    plain.exec_prepared(b"early", [None])  # type: ignore[list-item]


def fails(connection: psycopg.Connection[Any], number: int) -> None:
    for text, values in (
        ("INSERT INTO t VALUES (%s, %s)", (100 * number, "again")),
        ("SELECT nothing FROM t", None),
        ("SELECT %s::int", ("seven",)),
        ("SELEC 1", None),
        ("SELECT 1 / %s", (0,)),
    ):
        with pytest.raises(psycopg.Error):
            connection.execute(text, values, prepare=False)
    connection.pgconn.exec_(b"SELECT 1/0")


def canceled(cluster: Cluster) -> None:
    with cluster.connect("shop") as connection:
        thread = threading.Timer(0.3, connection.cancel)
        thread.start()
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT pg_sleep(60)")
        thread.join()


@pytest.fixture(scope="module")
def logs(pg17: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for each of the settings, with the log of the same work in three forms."""
    root = tmp_path_factory.mktemp("logs")
    with running(pg17) as cluster:
        with cluster.connect() as admin:
            for name in ("shop", "other"):
                admin.execute(f"CREATE DATABASE {name}")
            admin.execute("CREATE ROLE app LOGIN")
            admin.execute("CREATE ROLE reader LOGIN")
        for name in ("shop", "other"):
            with cluster.connect(name) as admin:
                admin.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
                admin.execute("GRANT ALL ON t TO app, reader")
        for name, settings in SETTINGS.items():
            cluster.stop()
            cluster.start(settings={**COMMON, **settings})
            work(cluster)
            for database in ("shop", "other"):
                with cluster.connect(database) as admin:
                    admin.execute("SET application_name = 'between'")
                    admin.execute("TRUNCATE t")
            cluster.stop()
            folder = root / name
            folder.mkdir()
            for file in (cluster.data_folder.path / "log").iterdir():
                shutil.move(file, folder / file.name)
    yield root


class Told:
    """What a log came to. texts: of each session that did work, its statements."""

    def __init__(self, header: Header, file: Path) -> None:
        self.header = header
        with Captured(file) as captured:
            sessions = [
                (captured.header.databases[entry.database].name, list(captured.statements(entry)))
                for entry in captured.sessions()
            ]
        self.sessions = [(name, statements) for name, statements in sessions if not _between(statements)]

    def statements(self) -> list[tuple[str, str, tuple[str | None, ...], str]]:
        return [
            (name, s.text, s.parameters, s.sqlstate) for name, statements in self.sessions for s in statements
        ]

    def reasons(self) -> Counter[str]:
        return Counter({part.why: part.count for part in self.header.left_out})


def _between(statements: list[Statement]) -> bool:
    return any("between" in s.text and "application_name" in s.text for s in statements)


def captured_as(logs: Path, folder: Path, name: str, form: str) -> Told:
    file = {"stderr": "postgresql", "csvlog": "postgresql.csv", "jsonlog": "postgresql.json"}[form]
    to = folder / f"{name} {form}"
    to.unlink(missing_ok=True)
    header = capture([logs / name / file], to)
    assert header.source == form
    assert header.balance is not None and header.balance.difference == 0
    assert {part.why for part in header.damaged} <= ({CUT_VALUES} if "values" in name else set())
    return Told(header, to)


@pytest.mark.parametrize("form", ["csvlog", "jsonlog", "stderr"])
@pytest.mark.parametrize("name", SAME)
def test_the_same_statements_under_all_settings(logs: Path, tmp_path: Path, name: str, form: str) -> None:
    reference, other = (
        captured_as(logs, tmp_path, "durations", "csvlog"),
        captured_as(logs, tmp_path, name, form),
    )
    knows_codes = form != "stderr" or "%e" in SETTINGS[name].get("log_line_prefix", "%e")
    expected, actual = reference.statements(), other.statements()
    if not knows_codes and "verbose" not in name:
        expected, actual = (
            [(*statement[:3], str(bool(statement[3]))) for statement in all_of]
            for all_of in (expected, actual)
        )
    assert actual == expected
    assert Counter(
        s.protocol for _, statements in other.sessions for s in statements if not s.sqlstate
    ) == Counter(s.protocol for _, statements in reference.sessions for s in statements if not s.sqlstate)
    # What cannot be asked again is the same, too; log_duration alone does not say what was parsed.
    reasons = {why: n for why, n in other.reasons().items() if why not in (account.MESSAGES, account.ENDED)}
    parsed = {account.UNEXECUTED: 2} if "log_duration" not in SETTINGS[name] or name == "both" else None
    wanted = {account.ROWS_OF_COPY: 2, account.ENCODING: 4, account.CANCELED: 1, account.EMPTY_SESSIONS: 2}
    assert reasons == {**wanted, **(parsed or {account.NO_TEXT: 8})}
    notes = " ".join(other.header.notes)
    assert "only" not in notes and "missing" not in notes
    for _, statements in other.sessions:
        assert all(s.duration is not None for s in statements if not s.sqlstate)
        slept = [s.duration or 0 for s in statements if s.text == "SELECT pg_sleep(0.05)"]
        assert all(took >= 50_000 for took in slept)


@pytest.mark.parametrize("wrapping", services.WRAPPED)
def test_the_same_statements_in_every_wrapping(logs: Path, tmp_path: Path, wrapping: str) -> None:
    """What clouds, journals and syslog make of the log of a server."""
    folder = logs / "durations"
    # As a server writes it: text read as `str` would have other ends of lines.
    text, csvlog, jsonlog = (
        (folder / file).read_bytes().decode() for file in ("postgresql", "postgresql.csv", "postgresql.json")
    )
    (tmp_path / "log").write_bytes(services.WRAPPED[wrapping](text, csvlog, jsonlog).encode())
    header = capture([tmp_path / "log"], tmp_path / "a")
    assert header.balance is not None and header.balance.difference == 0
    whole = captured_as(logs, tmp_path, "durations", "csvlog")
    wrapped = Told(header, tmp_path / "a")
    assert not header.damaged
    if wrapping == "Azure, CSV":
        # Where the newest comes first, nothing but the file tells the order within a millisecond.
        assert Counter(wrapped.statements()) == Counter(whole.statements())
    else:
        assert wrapped.statements() == whole.statements()
    reasons = {why: n for why, n in wrapped.reasons().items() if why not in (account.MESSAGES, account.ENDED)}
    assert reasons == {
        account.ROWS_OF_COPY: 2,
        account.ENCODING: 4,
        account.CANCELED: 1,
        account.EMPTY_SESSIONS: 2,
        account.UNEXECUTED: 2,
    }


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_times_in_all_forms(logs: Path, tmp_path: Path, name: str) -> None:
    csv, json, text = (captured_as(logs, tmp_path, name, form) for form in ("csvlog", "jsonlog", "stderr"))
    assert json.sessions == csv.sessions
    if name == "terse":
        return  # the text has no parameters then
    whole = name == "whole seconds"
    for (database, statements), (other, others) in zip(csv.sessions, text.sessions, strict=True):
        assert database == other and len(statements) == len(others)
        for statement, same in zip(statements, others, strict=True):
            assert (same.text, same.parameters, same.protocol) == (
                statement.text,
                statement.parameters,
                statement.protocol,
            )
            assert same.duration == statement.duration or statement.sqlstate
            assert abs(same.start - statement.start) <= (1_000_000 if whole else 0)
    assert text.header.balance is not None and csv.header.balance is not None
    assert text.header.balance.replayed == csv.header.balance.replayed


@pytest.mark.parametrize("form", ["csvlog", "jsonlog", "stderr"])
def test_what_a_setting_does_not_tell_has_a_reason(logs: Path, tmp_path: Path, form: str) -> None:
    whole = captured_as(logs, tmp_path, "durations", "csvlog")
    with_values = Counter(statement for statement in whole.statements() if statement[2])
    without = Counter(statement for statement in whole.statements() if not statement[2])
    # Without parameters only they are missing, each with its reason.
    for name in ("no values", "terse"):
        if name == "terse" and form != "stderr":
            continue
        few = captured_as(logs, tmp_path, name, form)
        assert not without - Counter(few.statements())
        lacking = few.reasons()[account.NO_PARAMETERS] + sum(part.count for part in few.header.damaged)
        assert (
            lacking + len([statement for statement in few.statements() if statement[2]])
            == with_values.total()
        )
    # Values that are cut damage their statements.
    file = {"stderr": "postgresql", "csvlog": "postgresql.csv", "jsonlog": "postgresql.json"}[form]
    header = capture([logs / "short values" / file], tmp_path / "short")
    cut = next(part for part in header.damaged if part.why == CUT_VALUES)
    assert header.balance is not None and header.balance.difference == 0
    long = [
        statement
        for statement in whole.statements()
        if any(len((v or "").encode()) > 3 for v in statement[2]) and not statement[3]
    ]
    assert cut.count == len(long)
    # Durations alone tell of no statement, but of those that failed.
    bare = captured_as(logs, tmp_path, "only durations", form)
    assert Counter(statement[3] for statement in bare.statements()) == Counter(
        statement[3] for statement in whole.statements() if statement[3]
    )
    assert bare.reasons()[account.NO_TEXT] > 100
    # Without durations there are the same statements.
    order = captured_as(logs, tmp_path, "order", form)
    assert order.statements() == whole.statements()
    assert any("how long" in note for note in order.header.notes)
    # Slow statements alone.
    slow = captured_as(logs, tmp_path, "slow", form)
    assert {s.text for _, statements in slow.sessions for s in statements if not s.sqlstate} == {
        "SELECT pg_sleep(0.05)"
    }
    if form != "stderr":
        assert any("only a part of the statements" in note for note in slow.header.notes)

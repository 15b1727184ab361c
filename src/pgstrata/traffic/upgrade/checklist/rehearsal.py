"""The schema of a dump without its rows on each server of an upgrade, and what the servers say of it.

Everything that is defined in the dump is defined on both servers, each statement by itself; then the bodies
of functions and the statements of the log are parsed there, which executes none of them. What only the new
server refuses would fail after the upgrade. The catalogs of the old server answer where the table of changes
(`changes.toml`) is met.
"""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from pgstrata.errors import ServerError, server_said
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server
from pgstrata.traffic.captured import Captured
from pgstrata.traffic.replay.samples import MOST_READ
from pgstrata.traffic.upgrade.checklist.changes import Change
from pgstrata.traffic.upgrade.checklist.pg_upgrade import CheckedUpgrade, has_pg_upgrade, pg_upgrade_check
from pgstrata.traffic.upgrade.schema import (
    DATABASE,
    OF_THE_SERVER,
    STATEMENT_SECONDS,
    defined_schema,
    find_names_anywhere,
    said_plainly,
)
from pgstrata.workload.custom.options import CustomOptions

MOST_STATEMENTS = 5_000
"""Normalized statements of a log that are parsed on both servers."""

MOST_OBJECTS = 1_000
"""That one question about the catalogs names."""

SYNTAX_ERROR = "42601"


class Answers(msgspec.Struct, frozen=True):
    """What one server said. Texts of errors are empty where there was none."""

    version: str
    version_num: int
    #: By its key, of each statement of the dumps that was refused.
    definitions: dict[str, str]
    #: By its signature, of every function in SQL or PL/pgSQL.
    functions: dict[str, str]
    #: By its number in the captured file, of every statement.
    statements: dict[int, str]
    #: Numbers of the statements whose error is one of syntax: they got no further.
    syntax: list[int]
    #: By the name of a question, the rows of its answer.
    catalogs: dict[str, list[list[str | None]]]
    #: Questions that the server could not answer, and why.
    unanswered: dict[str, str]


class Rehearsal(msgspec.Struct, frozen=True):
    """The answers of the old server, and of each new one by its label. texts: beginnings of the statements of
    the dumps by their keys; met: identifiers of changes and the objects of the old database that meet them;
    checked: what pg_upgrade said, by the label of the new server."""

    texts: dict[str, str]
    old: Answers
    new: dict[str, Answers]
    met: dict[str, list[str]]
    checked: dict[str, CheckedUpgrade]


def rehearse(
    options: CustomOptions,
    captured: Path,
    database: str,
    old: tuple[Server, Resolved],
    new: Mapping[str, tuple[Server, Resolved]],
    changes: Sequence[Change],
    root: Path,
    *,
    say: Callable[[str], None],
    check: Callable[[], None],
) -> Rehearsal:
    """Starts each server once with the schema of the dumps. root: where clusters are made.

    Raises UsageError for dumps that cannot be read, ServerError where a server does not start.
    """
    statements = first_of_each(captured, database)
    asked = _Asked(options, statements, root, say, check)
    with asked.server(*old) as (cluster, answers, texts):
        met, unanswered = asked.met(cluster, changes)
        answers = msgspec.structs.replace(answers, unanswered={**answers.unanswered, **unanswered})
        cluster.stop()
        new_answers, checked = {}, {}
        for label, (server, config) in new.items():
            with asked.server(server, config) as (target, its_answers, _):
                target.stop()
            new_answers[label] = its_answers
            if has_pg_upgrade(old[0], server):
                say(f"  pg_upgrade --check to {server.version}")
                has_checksums = answers.catalogs.get("checksums") == [["on"]]
                checked[label] = pg_upgrade_check(
                    cluster, server, config, root, check, checksums=has_checksums
                )
    return Rehearsal(texts, answers, new_answers, met, checked)


def first_of_each(captured: Path, database: str) -> dict[int, str]:
    """Returns by its number the text of the first execution of each normalized statement that went well, or
    else of the first. Raises CapturedError."""
    well: dict[int, str] = {}
    failed: dict[int, str] = {}
    with Captured(captured) as file:
        names = [captured_database.name for captured_database in file.header.databases]
        wanted = set(range(min(MOST_STATEMENTS, len(file.header.shapes))))
        read = 0
        for entry in file.sessions():
            if not wanted or read > MOST_READ:
                break
            if names[entry.database] != database:
                continue
            for statement in file.statements(entry):
                read += 1
                if statement.shape in wanted:
                    (failed if statement.sqlstate else well).setdefault(statement.shape, statement.text)
                    if not statement.sqlstate:
                        wanted.discard(statement.shape)
    return dict(sorted({**failed, **well}.items()))


class _Asked:
    """What every server is asked, and where."""

    def __init__(
        self,
        options: CustomOptions,
        statements: Mapping[int, str],
        root: Path,
        say: Callable[[str], None],
        check: Callable[[], None],
    ) -> None:
        self._options, self._statements = options, statements
        self._root, self._say, self._check = root, say, check

    @contextlib.contextmanager
    def server(self, server: Server, config: Resolved) -> Iterator[tuple[Cluster, Answers, dict[str, str]]]:
        """Yields a running cluster with the schema, and its answers."""
        with defined_schema(server, config, self._options, self._root, self._say, self._check) as schema:
            cluster = schema.cluster
            with cluster.connect(DATABASE, confined=schema.confined) as connection:
                _prepare_session(connection)
                functions = self._functions(connection)
                statements, syntax = self._parsed(connection)
            with cluster.connect(DATABASE) as superuser:
                catalogs, unanswered = _ask(
                    superuser, {k: q for k, q in QUESTIONS.items() if k != OF_SESSIONS}
                )
            yield (
                cluster,
                Answers(
                    server.version,
                    server.version_num,
                    schema.refused,
                    functions,
                    statements,
                    syntax,
                    catalogs,
                    unanswered,
                ),
                schema.texts,
            )

    def _functions(self, connection: psycopg.Connection[Any]) -> dict[str, str]:
        """Returns the complaints of the languages about the bodies of functions, empty for a good body; no
        function is executed."""
        messages: dict[str, str] = {}
        for name, oid, validator in connection.execute(QUESTIONS["functions"].encode()).fetchall():
            self._check()
            try:
                connection.execute(f"SELECT pg_catalog.{validator}({oid})".encode())
                messages[name] = ""
            except psycopg.Error as error:
                messages[name] = said_plainly(error)
        return messages

    def _parsed(self, connection: psycopg.Connection[Any]) -> tuple[dict[int, str], list[int]]:
        """Returns the parser's complaint about each statement of the log, with the schema but without
        executing it, and the numbers of those that have wrong syntax."""
        messages: dict[int, str] = {}
        syntax: list[int] = []
        for number, text in self._statements.items():
            self._check()
            result = connection.pgconn.prepare(b"", text.encode("utf-8", "replace").replace(b"\0", b""))
            failed = result.status not in (psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK)
            message = result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) or b"no message"
            messages[number] = server_said(message.decode(errors="replace")) if failed else ""
            state = (
                (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode() if failed else ""
            )
            if state == SYNTAX_ERROR:
                syntax.append(number)
            elif connection.pgconn.status != psycopg.pq.ConnStatus.OK or state.startswith(OF_THE_SERVER):
                raise ServerError(f"PostgreSQL does not answer: {messages[number]}")
        return messages, syntax

    def met(self, cluster: Cluster, changes: Sequence[Change]) -> tuple[dict[str, list[str]], dict[str, str]]:
        """Returns the objects that meet each change, and the changes about which the server could not be
        asked, with the reason."""
        objects_of_changes: dict[str, list[str]] = {}
        unanswered: dict[str, str] = {}
        with cluster.connect(DATABASE) as connection:
            for change in changes:
                self._check()
                queries = {f"{change.id} {n}": text for n, text in enumerate(change.queries())}
                answers, failed = _ask(connection, queries)
                objects = [str(row[0]) for rows in answers.values() for row in rows]
                if objects:
                    objects_of_changes[change.id] = sorted(set(objects))
                if failed:
                    unanswered[change.id] = next(iter(failed.values()))
        return objects_of_changes, unanswered


def _prepare_session(connection: psycopg.Connection[Any]) -> None:
    find_names_anywhere(connection)
    connection.execute("SET check_function_bodies = on")
    connection.execute(f"SET statement_timeout = {STATEMENT_SECONDS * 1000}".encode())


def _ask(
    connection: psycopg.Connection[Any], questions: Mapping[str, str]
) -> tuple[dict[str, list[list[str | None]]], dict[str, str]]:
    connection.execute("SET search_path = pg_catalog")
    answers: dict[str, list[list[str | None]]] = {}
    failed: dict[str, str] = {}
    for name, query in questions.items():
        try:
            rows = connection.execute(query.encode()).fetchmany(MOST_OBJECTS)
        except (
            psycopg.errors.UndefinedColumn,
            psycopg.errors.UndefinedTable,
            psycopg.errors.UndefinedObject,
        ):
            answers[name] = []  # a version that does not know it has none of it
            continue
        except psycopg.Error as error:
            failed[name] = server_said(error)
            continue
        answers[name] = [[None if value is None else str(value) for value in row] for row in rows]
    return answers, failed


QUESTIONS: Mapping[str, str] = tomllib.loads(
    resources.files(__package__).joinpath("questions.toml").read_text(encoding="utf-8")
)
"""What the catalogs of both servers are asked for."""

OF_SESSIONS = "functions"
"""The question that is asked with another search path."""


__all__ = ["Answers", "Rehearsal", "first_of_each", "rehearse"]

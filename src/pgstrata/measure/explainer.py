"""Asks a server for the plan of one query, with statements before it that are rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg

from pgstrata.judge.plan_detail import detail, top_of
from pgstrata.sql_text import identifier, literal

MOST_PHASES = 5
"""Executions that tell how long the phases of a query take: other programs may disturb some of them."""

PHASES_SECONDS = 1.0
"""After which it is executed no more for that."""

ASK_SECONDS = 60.0
"""A statement that prepares a question, and the question itself, are cancelled after this time."""


def set_local(name: str, value: str) -> str:
    """Returns the statement that sets something for one transaction."""
    parts = ".".join(identifier(part) if not part.isidentifier() else part for part in name.split("."))
    number = value.removeprefix("-").replace(".", "", 1).isdigit()
    word = value in ("on", "off")
    return f"SET LOCAL {parts} = {value if number or word else literal(value)}"


class Explainer:
    """Plans of one query on one connection, which is in autocommit. asked: how many were asked for."""

    def __init__(self, connection: psycopg.Connection[Any], query: str) -> None:
        self._connection, self._query = connection, query
        self.asked = 0

    @property
    def query(self) -> str:
        """The text of the query."""
        return self._query

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection, in autocommit."""
        return self._connection

    def plan(self, before: Sequence[str] = ()) -> Any:
        """Returns the plan that the server makes after these statements, which are rolled back.

        Raises psycopg.Error where the server refuses one of them or the query.
        """
        self.asked += 1
        return self._explained(before, "VERBOSE, FORMAT JSON", ASK_SECONDS)

    def detail(self, before: Sequence[str] = ()) -> tuple[str, ...] | None:
        """Returns the details of that plan (`judge.plan_detail`); None where the server refuses."""
        try:
            return detail(self.plan(before))
        except psycopg.Error:
            if self._connection.broken:
                raise
            return None

    def phases(self, seconds: float, before: Sequence[str] = ()) -> tuple[float, float] | None:
        """Returns the least seconds to plan and to execute the query, of several times; None where unknown.

        seconds, before: as of `executed`. For a connection that has planned it before: the server has read
        its catalogs.
        """
        planning: list[float] = []
        execution: list[float] = []
        with suppress(psycopg.Error):
            while len(planning) < MOST_PHASES and sum(planning) + sum(execution) < PHASES_SECONDS:
                top = top_of(self._explained(before, "ANALYZE, TIMING off, FORMAT JSON", seconds)) or {}
                planning.append(float(top["Planning Time"]) / 1e3)
                execution.append(float(top["Execution Time"]) / 1e3)
        return (min(planning), min(execution)) if execution else None

    def executed(self, seconds: float, before: Sequence[str] = (), *, timing: bool = True) -> Any:
        """Returns the plan with actual rows and pages, and times of each node: the query is executed once.

        seconds: after which the server cancels it. timing: of nodes, which takes time. Raises psycopg.Error.
        """
        how = "" if timing else "TIMING off, "
        return self._explained(before, f"ANALYZE, VERBOSE, BUFFERS, {how}FORMAT JSON", seconds)

    def _explained(self, before: Sequence[str], how: str, seconds: float) -> Any:
        self._execute("BEGIN")
        try:
            self._execute(f"SET LOCAL statement_timeout = {round(1000 * ASK_SECONDS)}")
            for statement in before:
                self._execute(statement)
            self._execute(f"SET LOCAL statement_timeout = {max(1, round(1000 * seconds))}")
            self._execute("SET TRANSACTION READ ONLY")
            row = self._execute(f"EXPLAIN ({how}) {self._query}").fetchone()
            return row[0] if row else None
        finally:
            with suppress(psycopg.Error):
                self._execute("ROLLBACK")

    def _execute(self, statement: str) -> psycopg.Cursor[Any]:
        return self._connection.execute(statement.encode(), prepare=False)


__all__ = ["ASK_SECONDS", "Explainer", "set_local"]

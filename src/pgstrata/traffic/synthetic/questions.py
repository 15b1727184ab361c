"""What a server is asked for the parameters of statements: keys and values that expressions have on sampled
rows, and sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import psycopg
from psycopg import sql

from pgstrata.traffic.synthetic.rows import SAMPLED, sampled_percent
from pgstrata.traffic.synthetic.statistics import MARK, KnownColumn
from pgstrata.traffic.synthetic.use import Argument, Sampled

MOST_KEYS = 20
"""Of the documents of an expression, those in most rows."""

SECONDS = 10
"""Longest time of one question."""


_KEYS = """
SELECT key FROM ({documents}) s, jsonb_object_keys(
    CASE WHEN jsonb_typeof(value::jsonb) = 'object' THEN value::jsonb ELSE '{{}}' END
) key GROUP BY key ORDER BY count(*) DESC, key LIMIT {most}
"""
_VALUES = sql.SQL("SELECT value FROM ({}) s WHERE value IS NOT NULL LIMIT {}")


class Sequenced(NamedTuple):
    """A sequence, as SQL names it, with the table and the column that own it, or take their default from it;
    empty where none does."""

    name: str
    schema: str
    table: str
    column: str


class Questions(Protocol):
    """What may be asked. Each answer is empty where the server gives none."""

    def keys(self, expression: Sampled) -> Sequence[str]:
        """Returns the keys of the documents that an expression has, those in most rows first."""

    def values(self, expression: Sampled) -> Sequence[str]:
        """Returns the values of an expression on sampled rows, none of them NULL."""

    def elements(self, expression: Sampled) -> Sequence[str]:
        """Returns the words or elements of documents for searching or arrays that an expression has on
        sampled rows."""

    def sequences(self) -> Sequence[Sequenced]:
        """Returns the sequences of the database."""

    def argument(self, argument: Argument) -> tuple[str, str] | None:
        """Returns name and type of an argument of a function, its name empty where it has none; None where
        there is no such function."""


class ServerQuestions:
    """Asks the server of a connection in autocommit, each question once, in transactions that only read.

    answering: called with each question, so that its answer is bounded.
    """

    def __init__(
        self, connection: psycopg.Connection[Any], answering: Callable[[Callable[[], Any]], Any]
    ) -> None:
        self._connection, self._answering = connection, answering
        self._known: dict[object, Sequence[Any]] = {}

    def keys(self, expression: Sampled) -> Sequence[str]:
        """Implements `Questions.keys`."""
        documents = _sampled(expression, sql.SQL("to_jsonb({})").format(sql.SQL(expression.text)))
        rows = self._asked(
            ("keys", expression), sql.SQL(_KEYS).format(documents=documents, most=sql.Literal(MOST_KEYS))
        )
        return [row[0] for row in rows]

    def values(self, expression: Sampled) -> Sequence[str]:
        """Implements `Questions.values`."""
        sampled = _sampled(expression, sql.SQL(expression.text))
        rows = self._asked(("values", expression), _VALUES.format(sampled, sql.Literal(SAMPLED)))
        return [row[0] for row in rows]

    def elements(self, expression: Sampled) -> Sequence[str]:
        """Returns the words or elements of an expression, as `Questions.elements`."""
        for unnested in ("unnest(tsvector_to_array(({})::tsvector))", "unnest({})"):
            sampled = _sampled(expression, sql.SQL(unnested).format(sql.SQL(expression.text)))
            rows = self._asked((unnested, expression), _VALUES.format(sampled, sql.Literal(SAMPLED)))
            if rows:
                return [row[0] for row in rows]
        return ()

    def sequences(self) -> Sequence[Sequenced]:
        """Implements `Questions.sequences`."""
        return [
            Sequenced(*row) for row in self._asked("sequences", sql.SQL("{}").format(sql.SQL(_SEQUENCES)))
        ]

    def argument(self, argument: Argument) -> tuple[str, str] | None:
        """Implements `Questions.argument`."""
        question = sql.SQL(_ARGUMENTS).format(
            schema=sql.Literal(argument.schema),
            function=sql.Literal(argument.function),
            count=sql.Literal(argument.count),
            place=sql.Literal(argument.place + 1),
            name=sql.Literal(argument.name),
        )
        rows = self._asked(argument, question)
        return (str(rows[0][0]), str(rows[0][1])) if rows else None

    def _asked(self, key: object, question: sql.Composed) -> Sequence[Any]:
        if key not in self._known:
            self._known[key] = self._answering(lambda: self._answer(question))
        return self._known[key]

    def _answer(self, question: sql.Composed) -> Sequence[Any]:
        connection = self._connection
        try:
            connection.execute(f"BEGIN {MARK} READ ONLY".encode())
            try:
                connection.execute(f"SET LOCAL {MARK} statement_timeout = '{SECONDS}s'".encode())
                # Operators and functions of users stay out of what a superuser may ask.
                connection.execute(f"SET LOCAL {MARK} search_path = pg_catalog".encode())
                rows: Sequence[Any] = connection.execute(question).fetchall()
                return rows
            finally:
                connection.execute(f"ROLLBACK {MARK}".encode())
        except psycopg.Error:
            if connection.broken:
                raise
            return ()


def _sampled(expression: Sampled, value: sql.Composable) -> sql.Composed:
    table: KnownColumn = expression.table
    return sql.SQL(
        "SELECT {mark} ({value})::text AS value FROM {table} AS {alias} "
        "TABLESAMPLE SYSTEM ({percent}) REPEATABLE (1)"
    ).format(
        mark=sql.SQL(MARK),
        value=value,
        table=sql.Identifier(table.schema, table.table),
        alias=sql.Identifier(expression.alias),
        percent=sql.Literal(sampled_percent(table)),
    )


_ARGUMENTS = f"""
SELECT {MARK} coalesce(p.proargnames[place], ''), format_type(p.proargtypes[place - 1], NULL)
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
CROSS JOIN LATERAL (
    SELECT CASE WHEN {{name}} = '' THEN {{place}} ELSE array_position(p.proargnames, {{name}}) END
) a (place)
WHERE p.proname = {{function}} AND p.pronargs - p.pronargdefaults <= {{count}}
    AND (p.pronargs >= {{count}} OR p.provariadic <> 0)
    AND ({{schema}} = '' AND n.nspname <> 'information_schema' OR n.nspname = {{schema}})
    AND place IS NOT NULL
ORDER BY n.nspname ~ '^pg_', p.pronargs, p.oid LIMIT 1
"""
"""Names of arguments that come back stand behind those that are given, as a rule."""

_SEQUENCES = f"""
SELECT {MARK} quote_ident(n.nspname) || '.' || quote_ident(c.relname),
    coalesce(tn.nspname, ''), coalesce(t.relname, ''), coalesce(a.attname, '')
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN (
    SELECT objid AS sequence, refobjid AS relation, refobjsubid AS number FROM pg_catalog.pg_depend
    WHERE classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND deptype IN ('a', 'i') AND refobjsubid > 0
    UNION
    SELECT d.refobjid, f.adrelid, f.adnum FROM pg_catalog.pg_depend d
    JOIN pg_catalog.pg_attrdef f ON f.oid = d.objid
    WHERE d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
) owned ON owned.sequence = c.oid
LEFT JOIN pg_catalog.pg_class t ON t.oid = owned.relation
LEFT JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = owned.number
WHERE c.relkind = 'S' AND n.nspname !~ '^pg_'
ORDER BY 1 LIMIT 10000
"""


__all__ = ["Questions", "Sequenced", "ServerQuestions"]

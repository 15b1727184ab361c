"""Whether files of rows have a table to go into: known before a server starts where statements tell, else
just before they are loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from pgstrata.errors import ServerError, UsageError, server_said
from pgstrata.files.user_files import shown
from pgstrata.sql_text import literal
from pgstrata.suggest import meant
from pgstrata.workload.core.language import WorkContext
from pgstrata.workload.custom.options import Rows
from pgstrata.workload.custom.rows import unquoted
from pgstrata.workload.custom.source import CopyBlock
from pgstrata.workload.custom.sql import SqlStatement

NAME = r"""((?:"(?:[^"]|"")+"|[\w$]+)(?:\.(?:"(?:[^"]|"")+"|[\w$]+))?)"""
"""Of a table, with its schema or without."""

_MADE = re.compile(
    rf"CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:UNLOGGED|FOREIGN|MATERIALIZED|RECURSIVE)\s+)*(?:TABLE|VIEW)\s+"
    rf"(?:IF\s+NOT\s+EXISTS\s+)?{NAME}"
    rf"|ALTER\s+TABLE\s.*\sRENAME\s+TO\s+{NAME}",
    re.I | re.S,
)
_MAKES_NONE = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:UNIQUE\s+)?(?:INDEX|SEQUENCE|TYPE|DOMAIN|FUNCTION|PROCEDURE|AGGREGATE"
    r"|OPERATOR|TRIGGER|RULE|STATISTICS|CAST|COLLATION|ROLE|USER|GROUP)\b"
    r"|CREATE\s+SCHEMA\s+(?:IF\s+NOT\s+EXISTS\s+)?\S+\Z|ALTER\s+(?!EXTENSION\b)"
    r"|(?:ANALYZE|BEGIN|COMMENT|COMMIT|COPY|DELETE|DROP|GRANT|INSERT|RESET|REVOKE|SET|TRUNCATE|UPDATE|VACUUM)\b"
    r"|SELECT\s+pg_catalog\.(?:set_config|setval)\b|DO\s+\$pgstrata\$",
    re.I,
)
"""Statements that make no table; of others (DO, SELECT, CREATE EXTENSION) their text does not tell."""

_ADVICE = (
    "name the file like its table, or both: { table = …, files = […] }; what makes the table comes before"
)


def check_tables(rows: Sequence[Rows], before: Sequence[SqlStatement | CopyBlock], extensions: bool) -> bool:
    """Returns whether it is known that each of these has its table. before: what is executed before them;
    extensions: some are created first, which may make tables.

    Raises UsageError where it is known that one has none.
    """
    statements = [item.written or item.text for item in before if isinstance(item, SqlStatement)]
    created = [match[1] or match[2] for text in statements if (match := _MADE.match(text))]
    names = {unquoted(name).rpartition(".")[2] for name in created}
    missing = [item for item in rows if unquoted(item.table).rpartition(".")[2] not in names]
    if not missing:
        return True
    if extensions or not all(_MADE.match(text) or _MAKES_NONE.match(text) for text in statements):
        return False
    table, file = missing[0].table, missing[0].files[0]
    guess = meant(table, sorted(created), "there are")
    raise UsageError(
        f"{shown(file)} has no table: nothing of `setup` before it makes {shown(table)}",
        "; ".join(filter(None, (guess, _ADVICE))),
    )


def look_for_tables(
    rows: Sequence[Rows], settings: Sequence[SqlStatement], confined: bool, context: WorkContext
) -> Mapping[str, Any]:
    """Asks the server for the table of each of these. settings: of the sessions that load them.

    Raises ServerError for the first that is not there.
    """
    with context.connect(confined=confined) as connection:
        for setting in settings:
            connection.execute(setting.text.encode())
        for item in rows:
            try:
                connection.execute(f"SELECT CAST({literal(item.table)} AS regclass)".encode())
            except psycopg.Error as error:
                raise ServerError(
                    f"{shown(item.files[0])} has no table {shown(item.table)}: {server_said(error)}", _ADVICE
                ) from error
    return {}


__all__ = ["NAME", "check_tables", "look_for_tables"]

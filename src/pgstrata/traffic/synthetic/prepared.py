"""The types of a statement's parameters, as a server finds them out when it prepares it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg.pq import ExecStatus

from pgstrata.errors import server_said
from pgstrata.traffic.synthetic.make import TypesOf
from pgstrata.traffic.synthetic.statistics import MARK
from pgstrata.traffic.synthetic.use import NotUnderstoodError


def types_by(connection: psycopg.Connection[Any]) -> TypesOf:
    """Asks the server of a connection in autocommit. Statements are parsed by it and not executed, so it does
    not count them either, as it would count PREPARE."""
    connection.execute(f"SET {MARK} lock_timeout = '5s'".encode())
    connection.execute(f"SET {MARK} statement_timeout = '30s'".encode())
    server = connection.pgconn

    @cache
    def name_of(type_: int) -> str:
        question = f"SELECT {MARK} pg_catalog.format_type(%s::pg_catalog.oid, NULL)"
        row = connection.execute(question.encode(), (type_,)).fetchone()
        return "" if row is None else str(row[0])

    def types_of(text: str) -> Sequence[str]:
        result = server.prepare(b"", text.encode())
        if result.status == ExecStatus.COMMAND_OK:
            result = server.describe_prepared(b"")
        if result.status != ExecStatus.COMMAND_OK:
            message = server_said(result.error_message.decode("utf-8", "replace"))
            raise NotUnderstoodError(f"the server does not prepare it: {message}")
        return [name_of(result.param_type(number)) for number in range(result.nparams)]

    return types_of


__all__ = ["types_by"]

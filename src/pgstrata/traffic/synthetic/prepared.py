"""The types of a statement's parameters, as a server finds them out when it prepares it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from pgstrata.errors import server_said
from pgstrata.sql_tokens import tokens
from pgstrata.traffic.synthetic.make import Typed, TypesOf
from pgstrata.traffic.synthetic.statistics import MARK
from pgstrata.traffic.synthetic.use import NotUnderstoodError

INDETERMINATE = b"42P18"
"""SQLSTATE of a parameter whose type the server cannot tell, `jsonb_build_object($1, $2)`."""

AMBIGUOUS = b"42725"
"""SQLSTATE of an operator of which the server has several."""

MOST_UNTYPED = 200

_PARAMETER = re.compile(r"\$([0-9]{1,5})(?!\d|\s*::)")


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

    def types_of(text: str) -> Typed:
        for _ in range(1 + MOST_UNTYPED):
            result = server.prepare(b"", text.encode())
            if (number := _untyped(result)) is not None:
                typed = _with_type(text, number, "text")
            elif (number := _unclear(result, text)) is not None:
                typed = _with_type(text, number, "int")
            else:
                break
            if typed == text:
                break
            text = typed
        if result.status == ExecStatus.COMMAND_OK:
            result = server.describe_prepared(b"")
        if result.status != ExecStatus.COMMAND_OK:
            message = server_said(result.error_message.decode("utf-8", "replace"))
            raise NotUnderstoodError(f"the server does not prepare it: {message}")
        types = [name_of(result.param_type(number)) for number in range(result.nparams)]
        return Typed(text, types)

    return types_of


def _untyped(result: PGresult) -> int | None:
    """Returns the number of the parameter whose type the server cannot tell; None where that is not the
    fault."""
    if result.error_field(DiagnosticField.SQLSTATE) != INDETERMINATE:
        return None
    match = re.search(rb"\$([0-9]{1,5})", result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"")
    return int(match[1]) if match else None


def _unclear(result: PGresult, text: str) -> int | None:
    """Returns the number of the parameter beside an operator of which the server has several, `day + $1`;
    None where that is not the fault."""
    if result.error_field(DiagnosticField.SQLSTATE) != AMBIGUOUS:
        return None
    message = (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
    place = int(result.error_field(DiagnosticField.STATEMENT_POSITION) or 0) - 1
    if not message.endswith(" unknown") or place < 0:
        return None
    behind = _PARAMETER.search(text, place)
    return int(behind[1]) if behind else None


def _with_type(text: str, number: int, type_: str) -> str:
    """Returns a statement in which a type is written behind one parameter, as a constant had it."""
    parts = (
        f"{token.text}::{type_}" if (token.kind, token.text) == ("parameter", f"${number}") else token.text
        for token in tokens(text)
    )
    return "".join(parts)


__all__ = ["types_by"]

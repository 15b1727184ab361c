"""Statements within others: what PREPARE, a cursor and COPY execute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pglast import ast, parse_sql
from pglast.parser import ParseError

from pgstrata.sql_tokens import tokens
from pgstrata.traffic.synthetic.statistics import CalledStatement
from pgstrata.traffic.synthetic.use import NotUnderstoodError

_OF_CURSORS = ("declare", "fetch", "move", "close")


def inner_text(text: str, node: Any) -> str | None:
    """Returns the text of the statement that another one executes; None where it is none of those.

    Raises NotUnderstoodError where it cannot be found.
    """
    match node:
        case ast.PrepareStmt():
            inner = _behind(text, "as")
        case ast.DeclareCursorStmt():
            inner = _behind(text, "for")
        case ast.CopyStmt() if node.query is not None and not node.is_program and node.filename is None:
            inner = _in_parentheses(text)
        case _:
            return None
    if inner is None:
        raise NotUnderstoodError("the statement that it executes cannot be found in it")
    return inner


def with_fetches(statements: Iterable[CalledStatement]) -> list[CalledStatement]:
    """Returns the statements with the time and the rows of FETCH at the cursors that they are of, by name."""
    plain: list[CalledStatement] = []
    by_cursor: dict[str, list[CalledStatement]] = {}
    fetches: list[tuple[str, CalledStatement]] = []
    for fields in statements:
        cursor, is_declared = _cursor_of(fields.text)
        if cursor and is_declared:
            by_cursor.setdefault(cursor, []).append(fields)
        elif cursor:
            fetches.append((cursor, fields))
        else:
            plain.append(fields)
    for cursor, fetch in fetches:
        if cursor in by_cursor:
            by_cursor[cursor] = _shared_out(fetch, by_cursor[cursor])
        else:
            plain.append(fetch)
    return [*plain, *(statement for declared in by_cursor.values() for statement in declared)]


def _shared_out(fetch: CalledStatement, declared: Sequence[CalledStatement]) -> list[CalledStatement]:
    calls = sum(statement.calls for statement in declared)
    return [
        replace(
            statement,
            seconds=statement.seconds + fetch.seconds * statement.calls / calls,
            rows=statement.rows + round(fetch.rows * statement.calls / calls),
        )
        for statement in declared
    ]


def _cursor_of(text: str) -> tuple[str, bool]:
    """Returns the name of the cursor that a statement declares or reads, empty where it does neither, and
    whether it declares it."""
    if not text.lstrip().lower().startswith(_OF_CURSORS):
        return "", False
    try:
        node = parse_sql(text)[0].stmt
    except (ParseError, IndexError):
        return "", False
    is_declared = isinstance(node, ast.DeclareCursorStmt)
    is_read = isinstance(node, ast.FetchStmt | ast.ClosePortalStmt)
    return (node.portalname or "", is_declared) if is_declared or is_read else ("", False)


def _behind(text: str, word: str) -> str | None:
    """Returns the text behind a word outside of parentheses; None where the word is not there."""
    depth = at = 0
    for token in tokens(text):
        at += len(token.text)
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind == "word" and token.text.lower() == word:
            return text[at:].lstrip()
    return None


def _in_parentheses(text: str) -> str | None:
    """Returns the text within the first parentheses; None where no pair of them is complete."""
    depth = at = begin = 0
    for token in tokens(text):
        at += len(token.text)
        if token.text == "(":
            begin = begin or at
            depth += 1
        elif token.text == ")":
            depth -= 1
            if depth == 0:
                return text[begin : at - 1].strip()
    return None


__all__ = ["inner_text", "with_fetches"]

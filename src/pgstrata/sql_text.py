"""How a text stands in SQL, PostgreSQL's and DuckDB's, where it cannot be a parameter."""

from __future__ import annotations


def literal(text: str) -> str:
    """Returns a text as an SQL constant; backslashes stand for themselves, as with
    standard_conforming_strings."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Returns a name as a quoted SQL identifier, with whatever letters it has."""
    return '"' + name.replace('"', '""') + '"'

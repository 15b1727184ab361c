"""How a text stands in SQL, PostgreSQL's and DuckDB's, where it cannot be a parameter."""

from __future__ import annotations


def literal(text: str) -> str:
    """A text as a constant; backslashes stand for themselves, as with standard_conforming_strings."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name with whatever letters it has."""
    return '"' + name.replace('"', '""') + '"'

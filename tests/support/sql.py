"""Reads the specs of steps back as the SQL text they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgstrata.driver.message import document
from pgstrata.driver.spec import StepSpec

Json = dict[str, Any]


def text(op: Json, splice: int = 1) -> str:
    """The statement with `?` for each value and the number `splice` where a table is picked."""
    return _parts(op["sql"], splice)


def _parts(parts: list[Any], splice: int) -> str:
    pieces = []
    for part in parts:
        if isinstance(part, str):
            pieces.append(part)
        elif "text" in part:
            assert part["from"] <= splice <= part["to"]
            pieces.append(str(splice))
        elif "repeat" in part:
            pieces.append(part["separator"].join([_parts(part["of"], splice)] * part["repeat"]))
        else:
            pieces.append("?")
    return "".join(pieces)


def values(op: Json) -> list[Json]:
    """The parts that are values, once for each place in the template."""

    def walk(parts: list[Any]) -> Iterator[Json]:
        for part in parts:
            if isinstance(part, dict):
                if "repeat" in part:
                    yield from walk(part["of"])
                elif "text" not in part:
                    yield part

    return list(walk(op["sql"]))


def statements(ops: list[Json]) -> list[Json]:
    """The SQL statements among ops, those inside `every` and `if` too."""
    statement_ops: list[Json] = []
    for op in ops:
        if "sql" in op:
            statement_ops.append(op)
        elif "every" in op:
            statement_ops += statements(op["ops"])
        elif "if" in op:
            for _, inner in op["if"]:
                statement_ops += statements(inner)
            statement_ops += statements(op["else"])
    return statement_ops


def role(spec: StepSpec, name: str) -> Json:
    """A role as the driver is told of it."""
    roles: list[Json] = [r for r in document(spec)["roles"] if r["name"] == name]
    return roles[0]

"""The statements of a captured file with values, so that a server can be asked for their plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pgstrata.driver.samples import Prepared, Sample
from pgstrata.sql_text import literal
from pgstrata.sql_tokens import Token, tokens
from pgstrata.traffic.captured import PREPARED, Captured, Statement, name_of

MOST_READ = 1_000_000
"""Statements that are looked at for the first of each shape: the often asked ones are found long before."""

MOST_SAMPLES = 200
"""Shapes that are looked for, those with the largest share of the time first."""

PLANNED = frozenset(("select", "insert", "update", "delete", "merge", "with", "values", "table"))
"""How statements begin that have a plan."""


def replayed_samples(file: Path, database: str, role: str) -> Sequence[Sample]:
    """Returns the first statement that succeeded of each normalized statement that has a plan, those that
    took most time first.

    Raises CapturedError.
    """
    return list(samples_by_number(file, database, role, MOST_SAMPLES).values())


def samples_by_number(file: Path, database: str, role: str, most: int) -> dict[int, Sample]:
    """Returns the samples of at most `most` normalized statements, by the number of each in the header.

    What one connection had set for itself (a search path, a temporary table) is not there when a plan is
    asked for. Raises CapturedError.
    """
    by_shape: dict[int, Statement] = {}
    with Captured(file) as captured:
        shapes = captured.header.shapes
        order = sorted(range(len(shapes)), key=lambda n: (-shapes[n].seconds, -shapes[n].calls))
        wanted = set(order[:most])
        databases = [captured_database.name for captured_database in captured.header.databases]
        read = 0
        for entry in captured.sessions():
            if not wanted or read > MOST_READ:
                break
            if databases[entry.database] != database:
                continue
            for statement in captured.statements(entry):
                read += 1
                if statement.shape in wanted and not statement.sqlstate:
                    wanted.discard(statement.shape)
                    by_shape[statement.shape] = statement
                if not wanted or read > MOST_READ:
                    break
    samples = {n: _sample(name_of(n, shapes[n].text), role, by_shape[n]) for n in order if n in by_shape}
    return {n: sample for n, sample in samples.items() if sample is not None}


def _sample(name: str, role: str, statement: Statement) -> Sample | None:
    parts = plannable(statement.text)
    if not parts:
        return None
    text = "".join(part.text for part in parts)
    if statement.protocol == PREPARED:
        values = statement.parameters
        return Sample(role, name, text, Prepared(text, ("unknown",) * len(values), values))
    return Sample(role, name, _with_values(parts, statement))


def text_with_values(statement: Statement) -> str:
    """Returns a statement with its values as literals in the place of parameters; empty where it has no
    plan."""
    return _with_values(plannable(statement.text), statement)


def _with_values(parts: Sequence[Token], statement: Statement) -> str:
    return "".join(
        _value(statement.parameters, int(part.text[1:8])) if part.kind == "parameter" else part.text
        for part in parts
    )


def plannable(text: str) -> list[Token]:
    """Returns the pieces of a statement without what follows it; none for what has no plan, and for several
    statements in one text: EXPLAIN would execute the second."""
    parts = tokens(text)
    while parts and (parts[-1].kind in ("space", "comment") or parts[-1].text == ";"):
        parts.pop()
    words = [
        part.text.lower() for part in parts if part.kind not in ("space", "comment") and part.text != "("
    ]
    if not words or words[0] not in PLANNED or any(part.text == ";" for part in parts):
        return []
    return parts


def _value(parameters: Sequence[str | None], number: int) -> str:
    value = parameters[number - 1] if 0 < number <= len(parameters) else None
    return "NULL" if value is None else literal(value)


__all__ = ["MOST_READ", "PLANNED", "plannable", "replayed_samples", "samples_by_number", "text_with_values"]

"""What the statements of a replay came to, over all its rounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pgstrata.store.record import StepRecord
from pgstrata.store.statement import Statement, statement_of


@dataclass
class StatementTotal:
    """Of one statement. succeeded: calls that did not fail; rows: that they had or changed; seconds: of all
    calls."""

    calls: int = 0
    succeeded: int = 0
    rows: int = 0
    seconds: float = 0.0


def totals_of(records: Iterable[StepRecord]) -> dict[Statement, StatementTotal]:
    """Returns what each statement came to."""
    found: dict[Statement, StatementTotal] = {}
    for one in (each for record in records for each in record.headline.statements_by_name):
        total = found.setdefault(statement_of(one), StatementTotal())
        total.calls += one.count
        total.succeeded += one.count - one.errors
        total.rows += one.rows
        total.seconds += one.seconds_total
    return found


__all__ = ["StatementTotal", "totals_of"]

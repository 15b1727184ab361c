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
    totals: dict[Statement, StatementTotal] = {}
    for statement_record in (each for record in records for each in record.headline.statements_by_name):
        total = totals.setdefault(statement_of(statement_record), StatementTotal())
        total.calls += statement_record.count
        total.succeeded += statement_record.count - statement_record.errors
        total.rows += statement_record.rows
        total.seconds += statement_record.seconds_total
    return totals


__all__ = ["StatementTotal", "totals_of"]

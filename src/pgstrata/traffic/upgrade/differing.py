"""Statements that come to another number of rows on the new version, in every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgstrata.page.results import Repeats, StepResults
from pgstrata.store.read import MeasuredStep
from pgstrata.store.statement import Statement, recorded_statement, statement_of

LEAST_ROUNDS = 2


@dataclass(frozen=True)
class DifferingRows:
    """A statement whose rows differ. calls: in a round, the same on both; base, other: rows of a round."""

    statement: Statement
    calls: int
    base: int
    other: int

    def record(self) -> dict[str, int | str]:
        """Returns the differing rows as JSON."""
        return {**vars(self), "statement": self.statement.name}


def differing_rows(step: StepResults, base: str, variant: str) -> list[DifferingRows]:
    """Returns the statements that had one number of rows in all rounds on the base and another in all on the
    variant, executed as often and without an error: what depends on which session came first varies.

    Raises StoreError where a table is damaged.
    """
    here, there = (_by_statement(step.by_variant.get(name)) for name in (base, variant))
    differing = []
    for statement, rounds in here.items():
        others = there.get(statement, [])
        if len(rounds) < LEAST_ROUNDS or len(others) < LEAST_ROUNDS:
            continue
        if len(set(rounds)) == 1 == len(set(others)):
            (calls, rows), (other_calls, other_rows) = rounds[0], others[0]
            if calls == other_calls and rows != other_rows:
                differing.append(DifferingRows(statement, calls, rows, other_rows))
    return sorted(differing, key=lambda entry: -abs(entry.base - entry.other))


def _by_statement(repeats: Repeats | None) -> Mapping[Statement, list[tuple[int, int]]]:
    """Calls and rows of each statement in each round; none of those that had an error in any."""
    by_statement: dict[Statement, list[tuple[int, int]]] = {}
    failed: set[Statement] = set()
    measured: Sequence[MeasuredStep] = repeats.repeats if repeats is not None else ()
    for measured_step in measured:
        named = {each.name: statement_of(each) for each in measured_step.record.headline.statements_by_name}
        table = measured_step.run.table(
            "statements", ["step", "part", "statement", "calls", "errors", "rows"]
        )
        for step, _, name, calls, errors, rows in table.values:
            if step == measured_step.record.name and calls:
                statement = named.get(name) or recorded_statement(None, name)
                by_statement.setdefault(statement, []).append((calls, rows))
                if errors:
                    failed.add(statement)
    return {statement: rounds for statement, rounds in by_statement.items() if statement not in failed}


__all__ = ["DifferingRows", "differing_rows"]

"""What statements that change rows answer and write, on each variant with the same data and values.

Each execution is a transaction of its own that is rolled back; the server counts the rows that it writes,
those of triggers and foreign keys among them, by table. Where something differs it is executed again, with
other plans, too: what then differs on the same server (numbers of sequences, moments, which rows LIMIT takes)
differs by nature and is left out. What a statement returns is compared as whole rows, and column by column,
so that a column of new keys hides no other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pgstrata.driver.events import StatementDone
from pgstrata.measure.turns.executions import OTHER_PLANS, Asking, Execution
from pgstrata.store.record import AnswerRecord
from pgstrata.store.statement import Statement
from pgstrata.workload.core.recorded import digest_of_lines, lines_of, rows_of

REPEATS = (OTHER_PLANS, (), OTHER_PLANS, ())
"""Settings of the executions by which is told what differs by nature."""

_WRITTEN = """
SELECT n.nspname || '.' || c.relname, pg_stat_get_xact_tuples_inserted(c.oid),
    pg_stat_get_xact_tuples_updated(c.oid), pg_stat_get_xact_tuples_deleted(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND n.nspname !~ '^pg_' AND pg_stat_get_xact_tuples_inserted(c.oid)
    + pg_stat_get_xact_tuples_updated(c.oid) + pg_stat_get_xact_tuples_deleted(c.oid) > 0
""".replace("pg_stat_get", "pg_catalog.pg_stat_get")
"""Rows of this transaction, and of earlier ones that the session has not reported yet."""

_WAYS = ("inserted into", "updated in", "deleted from")


class Effect(NamedTuple):
    """What one execution did. returned: digests of its rows in any order and of each column; counts: rows
    that it returned or changed, and rows written, by words that say which."""

    returned: Mapping[str, str]
    counts: Mapping[str, int]

    def parts(self, *, is_counted: bool) -> dict[str, str | int]:
        """Returns what can differ, by the name of the part. is_counted: only numbers of rows."""
        return {**({} if is_counted else self.returned), **self.counts}


Effects = Mapping[str, Mapping[Execution, Effect | str]]
"""By the label of each participant; a text where an execution failed: why."""


def compare_changes(asking: Asking, texts: Mapping[Execution, str], moving: Collection[Statement]) -> None:
    """Keeps with the step of each participant what its statements did.

    moving: statements whose words make values others at each execution: of them only numbers of rows are
    compared. Raises Interrupted.
    """
    first = _effects(asking, texts, ())
    differing = {each: text for each, text in texts.items() if len(set(map(repr, _known(each, first)))) > 1}
    by_nature: dict[Statement, set[str]] = {}
    for more in REPEATS if differing else ():
        for label, own_effects in _effects(asking, differing, more).items():
            for each, effect in own_effects.items():
                parts = by_nature.setdefault(each.statement, set())
                parts |= _differing_parts(first[label].get(each, ""), effect)
    executions: dict[Statement, list[Execution]] = {}
    for each in texts:
        executions.setdefault(each.statement, []).append(each)
    for statement, own_executions in executions.items():
        _keep(asking, own_executions, first, by_nature.get(statement, set()), is_counted=statement in moving)


def _effects(asking: Asking, texts: Mapping[Execution, str], more: Sequence[str]) -> Effects:
    """Returns what each execution does in a transaction that is rolled back. more: settings."""
    transactions = {each: ["BEGIN", _WRITTEN, text, _WRITTEN, "ROLLBACK"] for each, text in texts.items()}
    return asking.ask(transactions, more, _effect, reads_only=False)


def _effect(events: Sequence[StatementDone], rows: Path) -> Effect | str:
    """Returns the effect of a transaction in which rows are counted before and after a statement; why it
    failed, as text, where it has."""
    if error := next((event.error for event in events if event.error is not None), None):
        return error.message
    if len(events) != 5:
        return "the session in which it was executed did not come to its end"
    _, before, done, after, _ = events
    counts = Counter(_written(after, rows))
    counts.subtract(_written(before, rows))
    counts["rows"] = done.rows
    return Effect(dict(_returned(done, rows)), {part: count for part, count in counts.items() if count})


def _returned(done: StatementDone, rows: Path) -> Iterator[tuple[str, str]]:
    if not done.result:
        return
    lines = lines_of(rows / done.result)
    yield "rows returned", digest_of_lines(sorted(lines))
    columns = zip(*(line.split(b"\t") for line in lines), strict=False)
    for number, values in enumerate(columns, 1):
        yield f"column {number}", digest_of_lines(sorted(values))


def _written(event: StatementDone, rows: Path) -> dict[str, int]:
    if not event.result:
        return {}
    return {
        f"rows {way} {table}": int(count or 0)
        for table, *counts in rows_of((rows / event.result).read_text())
        for way, count in zip(_WAYS, counts, strict=True)
    }


def _known(execution: Execution, effects: Effects) -> list[Effect]:
    """Returns what all participants did that came to an end with an execution."""
    each = (own_effects.get(execution) for own_effects in effects.values())
    return [effect for effect in each if isinstance(effect, Effect)]


def _differing_parts(first: Effect | str, other: Effect | str) -> set[str]:
    if isinstance(first, str) or isinstance(other, str):
        return set()
    here, there = first.parts(is_counted=False), other.parts(is_counted=False)
    return {part for part in here.keys() | there.keys() if here.get(part, 0) != there.get(part, 0)}


def _keep(
    asking: Asking,
    executions: Sequence[Execution],
    effects: Effects,
    by_nature: Collection[str],
    *,
    is_counted: bool,
) -> None:
    """Keeps one answer of a statement, of the executions that went well on all participants that answered."""
    statement = executions[0].statement
    answering = [own_effects for own_effects in effects.values() if own_effects]
    compared = [each for each in executions if len(_known(each, effects)) == len(answering) > 0]
    kept: dict[str, tuple[str, dict[str, int]]] = {}
    for label, own_effects in effects.items():
        digest = hashlib.md5(usedforsecurity=False)
        written: Counter[str] = Counter()
        for each in compared:
            effect = own_effects.get(each)
            if isinstance(effect, Effect):
                parts = effect.parts(is_counted=is_counted)
                digest.update(repr(sorted((part, parts[part]) for part in parts.keys() - by_nature)).encode())
                written.update({part: effect.counts[part] for part in effect.counts.keys() - by_nature})
        if compared and own_effects:
            kept[label] = digest.hexdigest(), dict(written)
    is_changed = len({digest for digest, _ in kept.values()}) > 1
    for side in asking.group.here:
        if side.measurement is None:
            continue
        first = effects[side.label].get(executions[0], "it was not executed")
        answer, counts = kept.get(side.label, (None, {}))
        side.measurement.answers.append(
            AnswerRecord(
                number=statement.number,
                name=statement.name,
                digest=answer,
                written=counts,
                varies=not is_changed and (is_counted or bool(by_nature)),
                reason=first if isinstance(first, str) and answer is None else "",
            )
        )


__all__ = ["compare_changes"]

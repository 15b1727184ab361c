"""The objects of CREATE STATISTICS of a server, and which values of a file are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from pgstrata.server.capabilities import catalog_of, relation
from pgstrata.traffic.upgrade.planned.calls import ExtendedCall
from pgstrata.traffic.upgrade.planned.extended_values import Combination
from pgstrata.traffic.upgrade.planned.missing import Missing

_OBJECTS = """
SELECT o.nspname::text, s.stxname::text, s.oid::bigint, n.nspname::text, c.relname::text, c.relkind = 'p',
    string_to_array(s.stxkeys::text, ' ')::int[], s.stxkind::text[],
    EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = c.oid) AND NOT c.relispartition,
    EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attisdropped)
FROM pg_statistic_ext s JOIN pg_namespace o ON o.oid = s.stxnamespace
JOIN pg_class c ON c.oid = s.stxrelid JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2
"""


class Unfit(Exception):
    """Why values are not those of an object here, or were not taken as they were meant."""


@dataclass(frozen=True)
class Target:
    """An object of CREATE STATISTICS. keys: the numbers of its columns; kinds: letters of pg_statistic_ext;
    is_child: its table inherits from another one, and may have its columns in another order than it had;
    has_dropped: its table has had more columns."""

    oid: int
    schema: str
    table: str
    is_partitioned: bool
    keys: tuple[int, ...]
    kinds: frozenset[str]
    is_child: bool
    has_dropped: bool


def find_targets(
    session: psycopg.Connection[Any], calls: Sequence[ExtendedCall], missing: Missing
) -> list[tuple[ExtendedCall, Target]]:
    """Returns the calls with the objects that they are of here, their columns numbered as here. Adds to
    `missing` the others, and objects of which the file says nothing. Raises psycopg.Error."""
    has = catalog_of(session).has
    rows = session.execute(_OBJECTS.encode()).fetchall() if has(relation("pg_statistic_ext")) else []
    targets = {
        (row[0], row[1]): Target(
            row[2], row[3], row[4], row[5], tuple(row[6]), frozenset(row[7]), row[8], row[9]
        )
        for row in rows
    }
    pairs = []
    for call in calls:
        target = targets.get((call.statistics_schema, call.statistics))
        try:
            if target is None:
                raise Unfit("there are no such extended statistics here")
            pairs.append((_placed(call, target), target))
        except Unfit as why:
            missing.add(call.title, str(why))
    named = {(call.statistics_schema, call.statistics) for call in calls}
    for names in sorted(targets.keys() - named):
        missing.add(".".join(names), "the file has no values of these extended statistics")
    return pairs


def _placed(call: ExtendedCall, target: Target) -> ExtendedCall:
    """Returns the call with the numbers that columns have here: a table made anew lacks dropped ones."""
    if (call.schema, call.table) != (target.schema, target.table):
        raise Unfit("they are of another table here")
    if target.is_child:
        raise Unfit("a table that inherits may have its columns in another order here")
    combinations = (*call.distinct, *call.dependencies)
    numbers = sorted({number for c in combinations for number in c.attributes if number > 0})
    # All columns keep their order. Dependencies need not name all: then numbers are those here, but for a
    # table that has had others.
    if len(numbers) == len(target.keys):
        places = dict(zip(numbers, target.keys, strict=True))
    elif not numbers or (set(numbers) <= set(target.keys) and not target.has_dropped):
        places = dict(zip(numbers, numbers, strict=True))
    else:
        raise Unfit("their columns cannot be told by their numbers here")

    def moved(combinations: Sequence[Combination]) -> tuple[Combination, ...]:
        return tuple(
            replace(c, attributes=tuple(places.get(number, number) for number in c.attributes))
            for c in combinations
        )

    return replace(
        call,
        # A partitioned table has values of all its partitions only; servers before 15 do not say so.
        inherited=call.inherited or target.is_partitioned,
        distinct=moved(call.distinct),
        dependencies=moved(call.dependencies),
    )


__all__ = ["Target", "Unfit", "find_targets"]

"""The plans of a step's statements, asked of the server when the step is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from pgstrata.campaign.sampling import Sample, samples
from pgstrata.errors import PgstrataError

Json = dict[str, Any]

MOST_STATEMENTS = 50
MOST_NOTES = 3
SECONDS = 5.0
"""All the time that is spent on the plans of one step."""
_SHOWN = 2000  # letters of a statement's text that are kept


def step_plans(
    connect: Callable[[], psycopg.Connection[Any]], spec: Mapping[str, Any]
) -> tuple[list[Json], list[str]]:
    """`plans` of the step record, and notes on what is missing. Never raises.

    EXPLAIN without ANALYZE: nothing is executed. The values are literals, so the plan is the one a
    server makes for known values, not the generic plan of a prepared statement.
    """
    plans: list[Json] = []
    refused: list[str] = []
    try:
        wanted = samples(spec)
        if wanted:
            with connect() as connection:
                _ask(connection, wanted, plans, refused)
    except (psycopg.Error, PgstrataError, ValueError, TypeError, KeyError) as error:
        return plans, [f"plans not read: {type(error).__name__}: {' '.join(str(error).split())[:200]}"]
    return plans, refused[:MOST_NOTES]


def _ask(
    connection: psycopg.Connection[Any], wanted: list[Sample], plans: list[Json], refused: list[str]
) -> None:
    connection.execute("SET statement_timeout = '2s'")
    deadline = time.monotonic() + SECONDS
    for number, sample in enumerate(wanted):
        if number == MOST_STATEMENTS or time.monotonic() > deadline:
            refused.insert(0, f"plans of the first {number} of {len(wanted)} statements only")
            return
        try:
            # the workload's own statement
            row = connection.execute(f"EXPLAIN (FORMAT JSON) {sample.sql}".encode()).fetchone()
        except psycopg.DatabaseError as error:
            if connection.broken:
                raise
            refused.append(f"no plan of {sample.name[:80]}: {str(error).strip().splitlines()[0]}")
            continue
        if row:
            plans.append({"name": sample.name, "statement": sample.sql[:_SHOWN], "plan": row[0]})

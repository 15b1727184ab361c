"""Asks one server for the plans of all statements. Nothing is executed: EXPLAIN without ANALYZE."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from pgstrata.driver.samples import Prepared
from pgstrata.errors import ServerError
from pgstrata.measure.query_plans import plan_of
from pgstrata.server.capabilities import catalog_of, setting
from pgstrata.store.record import QueryPlan
from pgstrata.traffic.upgrade.planned.asked import AskedStatement
from pgstrata.traffic.upgrade.schema import OF_THE_SERVER, Schema, find_names_anywhere, said_plainly

PLAN_SECONDS = 10
"""`statement_timeout` of a plan."""

ALL_SECONDS = 1800.0
"""Of all statements on one server."""

MOST_SESSIONS = 20
"""Sessions that statements may end, a defect of the server, before no more are asked."""

SHOWN = 2000
"""Characters of a statement's text that are kept beside its plan."""

_CANCELED = "57014"


@dataclass(frozen=True)
class NoPlan:
    """Why a server has no plan. refused: of the statement itself, as for a column that is not there."""

    why: str
    refused: bool = False


def plans_of(
    schema: Schema, statements: Sequence[AskedStatement], check: Callable[[], None]
) -> dict[int, QueryPlan | NoPlan]:
    """Returns what the server says of each statement, by its number. Raises ServerError where it has ended,
    and for one that can write no plan as JSON."""
    plans: dict[int, QueryPlan | NoPlan] = {}
    deadline = time.monotonic() + ALL_SECONDS
    left = list(statements)
    for _ in range(MOST_SESSIONS):
        with schema.connect() as connection:
            has_generic = _prepare_session(schema, connection)
            while left:
                check()
                statement = left.pop(0)
                if time.monotonic() > deadline:
                    plans[statement.number] = NoPlan(f"all plans took more than {ALL_SECONDS / 60:.0f} min")
                    continue
                plans[statement.number] = _asked(connection, statement, has_generic=has_generic)
                if connection.broken:
                    break
        if not left:
            return plans
    return plans | {
        statement.number: NoPlan("earlier statements ended the server's sessions") for statement in left
    }


def _prepare_session(schema: Schema, connection: psycopg.Connection[Any]) -> bool:
    """Returns whether the server makes generic plans where it is told to."""
    catalog = catalog_of(connection)
    if not catalog.accepts("EXPLAIN (FORMAT JSON) SELECT 1"):
        raise ServerError(
            f"PostgreSQL {schema.cluster.server.version} writes plans as text only", "name 9.0 or later"
        )
    find_names_anywhere(connection)
    connection.execute(f"SET statement_timeout = {1000 * PLAN_SECONDS}".encode())
    return catalog.has(setting("plan_cache_mode"))


def _asked(
    connection: psycopg.Connection[Any], asked_statement: AskedStatement, *, has_generic: bool
) -> QueryPlan | NoPlan:
    assert asked_statement.sample is not None
    if asked_statement.generic and not has_generic:
        return NoPlan("it has no values, and this version plans for none (generic plans: since 12)")
    try:
        if asked_statement.generic and asked_statement.sample.prepared is not None:
            plan, kind = _generic(connection, asked_statement.sample.prepared), "generic"
        else:
            plan, kind = plan_of(connection, asked_statement.sample)
    except psycopg.Error as error:
        code = error.sqlstate or ""
        if code == _CANCELED:
            return NoPlan(f"planning took more than {PLAN_SECONDS} s")
        return NoPlan(said_plainly(error), bool(code) and not code.startswith(OF_THE_SERVER))
    return QueryPlan(
        name=asked_statement.sample.name,
        statement=asked_statement.sample.sql[:SHOWN],
        plan=plan,
        kind=kind,  # type: ignore[arg-type]
    )


def _generic(connection: psycopg.Connection[Any], prepared: Prepared) -> Any:
    """Returns the plan for any values. Raises psycopg.Error."""
    connection.execute(f"PREPARE pgstrata_plan AS {prepared.text}".encode(), prepare=False)
    try:
        (count,) = connection.execute(_COUNT.encode()).fetchone() or (0,)
        connection.execute(b"SET plan_cache_mode = force_generic_plan")
        call = f"EXECUTE pgstrata_plan({', '.join(['NULL'] * count)})" if count else "EXECUTE pgstrata_plan"
        row = connection.execute(f"EXPLAIN (FORMAT JSON) {call}".encode(), prepare=False).fetchone()
        return row[0] if row else None
    finally:
        with suppress(psycopg.Error):
            connection.execute(b"RESET plan_cache_mode")
            connection.execute(b"DEALLOCATE pgstrata_plan", prepare=False)


_COUNT = (
    "SELECT pg_catalog.cardinality(parameter_types) FROM pg_catalog.pg_prepared_statements "
    "WHERE name = 'pgstrata_plan'"
)


__all__ = ["NoPlan", "plans_of"]

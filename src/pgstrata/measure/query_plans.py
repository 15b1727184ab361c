"""The plans of a step's statements, asked of the server when the step is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import psycopg

from pgstrata.driver.samples import Prepared, Sample
from pgstrata.errors import PgstrataError, server_said
from pgstrata.server.capabilities import catalog_of
from pgstrata.sql_text import literal
from pgstrata.store.record import QueryPlan

Kind = Literal["generic", "custom"]

MOST_STATEMENTS = 50
MOST_NOTES = 3
SECONDS = 5.0
"""All the time that is spent on the plans of one step."""
_SHOWN = 2000  # letters of a statement's text that are kept


def step_plans(
    connect: Callable[[], psycopg.Connection[Any]], sampled: Callable[[], Sequence[Sample]]
) -> tuple[tuple[QueryPlan, ...], list[str]]:
    """Returns `plans` of the step record, and notes on missing plans. Never raises.

    sampled: gives the statements with values, those that matter most first. EXPLAIN without ANALYZE: nothing
    is executed. Of a statement the step prepares it is the plan the server keeps to from the sixth execution
    on: it makes five for the values at hand, then takes the generic one if that is estimated to be no dearer
    (plancache.c, choose_custom_plan). Of others it is the plan for the sample values.
    """
    plans: list[QueryPlan] = []
    refused: list[str] = []
    try:
        wanted = sampled()
        if wanted:
            with connect() as connection:
                _ask(connection, wanted, plans, refused)
    except (psycopg.Error, PgstrataError, ValueError, TypeError, KeyError) as error:
        return tuple(plans), [f"plans not read: {type(error).__name__}: {server_said(error, 200)}"]
    return tuple(plans), refused[:MOST_NOTES]


def _ask(
    connection: psycopg.Connection[Any], wanted: Sequence[Sample], plans: list[QueryPlan], refused: list[str]
) -> None:
    if not catalog_of(connection).accepts("EXPLAIN (FORMAT JSON) SELECT 1"):
        refused.append("no plans: before 9.0 EXPLAIN writes text only")
        return
    connection.execute("SET statement_timeout = 2000")
    deadline = time.monotonic() + SECONDS
    for number, sample in enumerate(wanted):
        if number == MOST_STATEMENTS or time.monotonic() > deadline:
            refused.insert(0, f"plans of the first {number} of {len(wanted)} statements only")
            return
        try:
            plan, kind = plan_of(connection, sample)
        except psycopg.DatabaseError as error:
            if connection.broken:
                raise
            refused.append(f"no plan of {sample.name[:80]}: {server_said(error, 300)}")
            continue
        text = sample.prepared.text if kind == "generic" and sample.prepared else sample.sql
        plans.append(QueryPlan(name=sample.name, statement=text[:_SHOWN], plan=plan, kind=kind))


def plan_of(connection: psycopg.Connection[Any], sample: Sample) -> tuple[Any, Kind]:
    """Returns the plan and its kind: `custom`, made for known values, or `generic`, for any. Raises
    psycopg.Error."""
    if sample.prepared is None:
        return _explain(connection, sample.sql), "custom"
    # without parameters there is nothing a plan could be made for but the statement itself
    if not sample.prepared.values:
        return _explain(connection, sample.sql), "generic"
    connection.execute(_prepare(sample.prepared), prepare=False)
    try:
        run = f"EXECUTE pgstrata_plan({', '.join(map(_given, sample.prepared.values))})"
        first = _explain(connection, run, verbose=True)
        for _ in range(4):
            _explain(connection, run)
        plan = _explain(connection, run)
        # VERBOSE shows every expression: constants in a custom plan, parameters in a generic one
        generic = _explain(connection, run, verbose=True) != first
    finally:
        if not connection.broken:
            connection.execute("DEALLOCATE pgstrata_plan", prepare=False)
    return plan, "generic" if generic else "custom"


def _explain(connection: psycopg.Connection[Any], statement: str, *, verbose: bool = False) -> Any:
    how = "VERBOSE, FORMAT JSON" if verbose else "FORMAT JSON"
    # the workload's own statement
    row = connection.execute(f"EXPLAIN ({how}) {statement}".encode(), prepare=False).fetchone()
    return row[0] if row else None


def _prepare(statement: Prepared) -> bytes:
    return f"PREPARE pgstrata_plan ({', '.join(statement.types)}) AS {statement.text}".encode()


def _given(value: str | None) -> str:
    """Returns a value as the protocol carries it: text which the server converts to the parameter's type."""
    return "NULL" if value is None else literal(value)

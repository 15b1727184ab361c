"""Whether the plan of a query hangs on the rows that ANALYZE happens to sample.

Two plans whose costs the planner estimates alike may take very different times, and the sample decides
between them: the same command, with the same servers, may find one version slower today and faster tomorrow.
So ANALYZE samples again, in transactions that are rolled back, and EXPLAIN shows the plan each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import psycopg

from pgstrata.errors import ServerError
from pgstrata.judge.plan_shape import shape
from pgstrata.measure.run.active import DATABASE
from pgstrata.measure.turns.participant import Participant
from pgstrata.workload.core.language import Step
from pgstrata.workload.core.queries import explain_of

SAMPLES = 5
"""For each variant. A plan that two samples of three lead to is the only one in five once in seven times."""

MOST_SECONDS = 30.0
"""For one variant; no sample begins after it."""

_TABLES = """
SELECT DISTINCT quote_ident(s.schemaname) || '.' || quote_ident(s.tablename)
FROM pg_stats s JOIN pg_namespace n ON n.nspname = s.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename
WHERE c.relkind IN ('r', 'm') AND s.schemaname NOT IN ('pg_catalog', 'information_schema')
"""
"""Those that were analyzed: what has no statistics gets none."""


def plans_by_sample(
    side: Participant, steps: Mapping[str, Step], check: Callable[[], None]
) -> dict[str, int]:
    """Returns how many plans the planner takes for each query, by its name, with other samples of ANALYZE.

    A query that has no plan is left out. The result is empty for a server that has no EXPLAIN (FORMAT JSON)
    or that somebody else runs, and if fewer than two samples were taken. steps: of one execution; check:
    called before each sample, may raise.
    """
    texts = {
        name: explain.replace("EXPLAIN ", "EXPLAIN (FORMAT JSON) ", 1)
        for name, step in steps.items()
        if (explain := explain_of(step)) is not None
    }
    if side.error is not None or side.cluster.postmaster.pid is None or not texts:
        return {}
    # Planning may call functions: as the role that executes the query.
    confined = next(iter(steps.values())).confined
    shapes: dict[str, set[str]] = {}
    drawn = 0
    until = time.monotonic() + MOST_SECONDS
    with (
        suppress(psycopg.Error, ServerError),
        side.cluster.connect(DATABASE, confined=confined) as session,
    ):
        session.execute(f"SET statement_timeout = {round(1000 * MOST_SECONDS)}".encode())
        tables = [str(name) for (name,) in session.execute(_TABLES.encode()).fetchall()]
        while tables and drawn < SAMPLES and time.monotonic() < until:
            check()
            for name, text in _sampled(session, tables, texts).items():
                shapes.setdefault(name, set()).add(text)
            drawn += 1
    return {name: len(of_query) for name, of_query in shapes.items()} if drawn > 1 else {}


def _sampled(session: psycopg.Connection[Any], tables: list[str], texts: Mapping[str, str]) -> dict[str, str]:
    """Returns the shapes of the plans with one more sample."""
    session.execute(b"BEGIN")
    try:
        for table in tables:
            session.execute(f"ANALYZE {table}".encode())
        plans = {}
        for name, text in texts.items():
            row = session.execute(text.encode()).fetchone()
            plans[name] = shape(row[0]) if row is not None else ""
        return plans
    finally:
        session.execute(b"ROLLBACK")


__all__ = ["SAMPLES", "plans_by_sample"]

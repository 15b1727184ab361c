"""The consistency conditions of clause 3.3.2, checked in the server; their queries are in conditions.sql."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import psycopg

from pgstrata.errors import ServerError, server_said
from pgstrata.workload.core.language import WorkContext

LONGEST_SECONDS = 600
"""Of one query."""

FIRST_FOUR = (1, 2, 3, 4)
"""Those that every implementation has to show (3.3.1)."""

_EMPTY = """SELECT count(*) FROM district
WHERE NOT EXISTS (SELECT 1 FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)"""


@cache
def queries() -> Mapping[int, str]:
    """Returns the query of each condition by its number."""
    text = files("pgstrata.tproc_c").joinpath("conditions.sql").read_text("utf-8")
    _, *parts = re.split(r"^-- (\d+)$", text, flags=re.MULTILINE)
    return {int(number): query.strip() for number, query in zip(parts[::2], parts[1::2], strict=True)}


def check(context: WorkContext, step: str, numbers: Sequence[int]) -> dict[str, Any]:
    """Checks conditions after a step. Raises ServerError where one does not hold.

    Returns the facts for run.json: the conditions, and how many districts have no order left to deliver.
    """
    try:
        with context.connect() as session:
            session.execute(f"SET statement_timeout = '{LONGEST_SECONDS}s'".encode())
            for number in numbers:
                context.check()
                violated = session.execute(f"{queries()[number]} LIMIT 1".encode()).fetchone()
                if violated is not None:
                    raise ServerError(
                        f"after step {step} condition {number} of TPC-C is violated: {violated[0]}",
                        "the server has lost or invented rows, or another program has changed them: "
                        "look at its log, and repeat the run",
                    )
            empty = session.execute(_EMPTY).fetchone()
    except psycopg.Error as error:
        raise ServerError(
            f"the consistency conditions could not be checked after step {step}: {server_said(error)}",
            "leave them out with --set conditions=none, or check fewer with --set conditions=four",
        ) from error
    assert empty is not None
    return {"conditions": list(numbers), "districts_without_new_orders": empty[0]}


__all__ = ["FIRST_FOUR", "check", "queries"]

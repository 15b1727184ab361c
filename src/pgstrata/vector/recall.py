"""Finding the setting of an index with which it finds the share of true neighbours that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg

from pgstrata.errors import ServerError, server_said
from pgstrata.workload.core.language import WorkContext

Json = dict[str, Any]


def recall_of(neighbours: Sequence[Sequence[int]], true: Sequence[Sequence[int]]) -> float:
    """Returns the share of the true neighbours that were found, over all queries."""
    hits = sum(len(set(ours) & set(theirs)) for ours, theirs in zip(neighbours, true, strict=True))
    return hits / sum(map(len, true))


def smallest(target: float, most: int, recall: Callable[[int], float]) -> tuple[int, float]:
    """Returns the smallest setting up to `most` that reaches the target, and its recall; `most` if none does.

    Recall grows with the setting, but for a few queries: what is found has been tried itself.
    """
    tried: dict[int, float] = {}

    def at(value: int) -> float:
        if value not in tried:
            tried[value] = recall(value)
        return tried[value]

    low, high = 0, 1
    while at(high) < target and high < most:
        low, high = high, min(most, 2 * high)
    while high - low > 1 and tried[high] >= target:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle) >= target else (middle, high)
    return high, tried[high]


def tune(
    context: WorkContext,
    step: str,
    query: str,
    setting: str,
    most: int,
    target: float,
    true: Sequence[Sequence[int]],
) -> Json:
    """Finds the setting for a step and leaves it in the table from which the step's connections take theirs.

    query: with `%s` for the number of what is looked for. Raises ServerError.
    """
    try:
        with context.connect() as session:
            _use(session, {"enable_seqscan": "off", "max_parallel_workers_per_gather": "0"})

            def recall(value: int) -> float:
                _use(session, {setting: str(value)})
                neighbours = []
                for number in range(1, len(true) + 1):
                    context.check()
                    neighbours.append(
                        [row[0] for row in session.execute(query.encode(), [number]).fetchall()]
                    )
                return recall_of(neighbours, true)

            value, reached = smallest(target, most, recall)
            session.execute("DELETE FROM vector_settings WHERE step = %s", [step])
            for name, text in (("enable_seqscan", "off"), (setting, str(value))):
                session.execute("INSERT INTO vector_settings VALUES (%s, %s, %s)", [step, name, text])
    except psycopg.Error as error:
        raise ServerError(f"{step}: recall cannot be found out: {server_said(error)}") from error
    context.say(
        f"  {step}: {setting} = {value}, recall {reached:.3f}"
        + (f": {target:g} is not reached" if reached < target else "")
    )
    return {
        "target": target,
        "recall": reached,
        "setting": setting,
        "value": value,
        "k": len(true[0]),
        "queries": len(true),
    }


def _use(session: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        session.execute("SELECT set_config(%s, %s, false)", [name, value])


__all__ = ["recall_of", "smallest", "tune"]

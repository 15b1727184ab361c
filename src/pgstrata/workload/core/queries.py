"""A step of recorded queries: each timed alone, on one connection or in several streams at once."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pgstrata.driver.events import StatementDone
from pgstrata.driver.spec import SqlSpec
from pgstrata.judge.common_queries import QUERIES_PER_HOUR
from pgstrata.workload.core.language import Digest, Headline, Mode, Op, Role, Script, SingleQueries, Sql, Step
from pgstrata.workload.core.shares import each_its_own

T = TypeVar("T")

Digesting = Callable[[Sequence[StatementDone], Path], Digest]


def in_own_order(queries: Sequence[T], workload: str, seed: int, stream: int) -> list[T]:
    """Returns the queries in the order of a stream: the same for every version, another for each stream."""
    order = list(queries)
    random.Random(f"{workload}/{seed}/{stream}").shuffle(order)
    return order


READ_ONLY = Sql.verbatim("SET default_transaction_read_only = on", name="read only")
"""For the `start` of a role: what is told of its step, that it only reads, is held by the server."""


def limited_to(seconds: float) -> Sql:
    """Returns a statement for the `start` of a role: the server cancels statements that take longer than
    this."""
    return Sql.verbatim(f"SET statement_timeout = {max(1, round(seconds * 1000))}", name="limit")


def query_step(
    name: str,
    streams: Sequence[Sequence[Op]],
    time_limit: float,
    *,
    seconds: float = 0.0,
    digest: Digesting | None = None,
    group: str,
    tables: Sequence[str] = (),
    measured: bool,
    start: Sequence[Op] = (),
    reads_only: bool = True,
) -> Step:
    """Returns a step in which each stream is the queries of one connection, in their order. seconds: about;
    start: what each connection says before, beside the limit; reads_only: as in `Step`."""

    def step(name: str, streams: Sequence[Sequence[Op]], seconds: float, mode: Mode = "simple") -> Step:
        return Step(
            name,
            [
                Role(
                    "query",
                    len(streams),
                    [Script(*each_its_own(streams))],
                    counts="statements",
                    operations=1,
                    mode=mode,
                    start=[limited_to(time_limit), *start],
                )
            ],
            Headline("query", "operations", QUERIES_PER_HOUR),
            tables=tables,
            group=group,
            measured=measured,
            reads_only=reads_only,
            apart=len(streams) == 1,
            uncounted="several streams at once are its point" if len(streams) > 1 else "",
            estimated_seconds=1 + seconds,
        )

    single: SingleQueries | None = None
    if measured and len(streams) == 1:
        queries = {op.name: op for op in streams[0] if isinstance(op, Sql)}
        single = SingleQueries(
            list(queries),
            lambda query, times: step(query, [[queries[query]] * times], 0.0, _mode_of(queries[query])),
            time_limit,
        )
    return replace(step(name, streams, seconds), digest=digest, single=single)


def _mode_of(query: Sql) -> Mode:
    """Returns the protocol in which a query is executed alone: the extended one, in which the answer to Bind
    tells planning from execution, unless its text may hold several statements."""
    return "simple" if any(";" in piece for piece in _pieces(query) if isinstance(piece, str)) else "extended"


def _pieces(query: Sql) -> Sequence[object]:
    """Returns what its text is made of: strings, and what is made anew for each execution."""
    op = query.op()
    return op.sql if isinstance(op, SqlSpec) else ()


_READING = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:select|with|values|table)\b", re.IGNORECASE | re.DOTALL
)


def planned_first(step: Step) -> Step | None:
    """Returns a step of executions of one query with EXPLAIN of it before them, recorded as they are: then a
    new connection has read the catalogs that the query needs. None where it is no query, or is more than
    one."""
    (role,) = step.roles
    (script,) = role.scripts
    text = explain_of(step)
    if text is None or not isinstance(script, Script) or not isinstance(script.ops[0], Sql):
        return None
    planned = Script(script.ops[0].with_text(text), *script.ops, before=script.before, name=script.name)
    return replace(step, roles=[replace(role, scripts=[planned])])


def explain_of(step: Step) -> str | None:
    """Returns EXPLAIN of the query that a step executes; None where it is no query, is more than one, or is
    made anew for each execution."""
    (role,) = step.roles
    (script,) = role.scripts
    query = script.ops[0] if isinstance(script, Script) else None
    pieces = _pieces(query) if isinstance(query, Sql) else ()
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    if ";" in text or not _READING.match(text) or not all(isinstance(piece, str) for piece in pieces):
        return None
    return f"EXPLAIN {text}"


__all__ = [
    "READ_ONLY",
    "Digesting",
    "explain_of",
    "in_own_order",
    "limited_to",
    "planned_first",
    "query_step",
]

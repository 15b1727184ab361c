"""A folder of queries, each file one statement, timed alone; a broken one is marked, the rest goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgstrata.driver.events import StatementDone
from pgstrata.errors import PgstrataError, UsageError
from pgstrata.files.user_files import shown
from pgstrata.judge.common_queries import rate_of_queries
from pgstrata.judge.single_queries import in_order
from pgstrata.server.features import Feature, Features
from pgstrata.workload.core.language import Digest, Op, Phase, Sql
from pgstrata.workload.core.queries import READ_ONLY, Digesting, in_own_order, query_step
from pgstrata.workload.core.recorded import (
    answer_as_it_came,
    answer_in_any_order,
    answer_in_order,
    explained,
    rows_from,
)
from pgstrata.workload.custom.options import CustomOptions
from pgstrata.workload.custom.sql import SqlStatement, items

SECONDS = 1.0
"""Of a query, for estimates only."""

MOST_QUERIES = 10_000

_ANSWERS = {"any-order": answer_in_any_order, "ordered": answer_in_order, "exact": answer_as_it_came}


@dataclass(frozen=True)
class QueryFiles:
    """texts: by name. broken: names of files that hold no query, and why."""

    texts: dict[str, str]
    broken: dict[str, str]


def read_queries(folder: Path) -> QueryFiles:
    """The queries in the order of their files' names, numbers within as numbers.

    Raises UsageError where there is none.
    """
    try:
        files = sorted(
            (p for p in folder.iterdir() if p.suffix.lower() == ".sql"), key=lambda file: in_order(file.stem)
        )
    except NotADirectoryError:
        raise UsageError(
            f"{shown(folder)} is no folder", "`queries` names one, with a .sql file for each"
        ) from None
    if not files:
        raise UsageError(f"the folder of queries {shown(folder)} has no .sql file")
    if len(files) > MOST_QUERIES:
        raise UsageError(f"{shown(folder)} has more than {MOST_QUERIES:,} .sql files")
    texts, broken = {}, {}
    for file in files:
        try:
            texts[file.stem] = _query(file)
        except PgstrataError as error:
            broken[file.stem] = error.message
        except OSError as error:
            broken[file.stem] = f"{file.name} cannot be read: {error.strerror}"
    if not texts:
        raise UsageError(f"no file of {shown(folder)} holds a query: {next(iter(broken.values()))}")
    return QueryFiles(texts, broken)


def _query(file: Path) -> str:
    found = list(items(file))
    if not found:
        raise UsageError(f"{file.name} is empty")
    if len(found) > 1 or not isinstance(found[0], SqlStatement):
        what = f"{len(found)} statements" if len(found) > 1 else "rows for COPY"
        raise UsageError(f"{file.name} has {what}, and a query is one statement")
    return found[0].text


def query_phases(o: CustomOptions, server: Features, tables: Sequence[str]) -> list[Phase]:
    """The steps of the folder of queries; none where there is no folder."""
    if o.queries is None:
        return []
    queries = read_queries(Path(o.queries))
    names = list(queries.texts)
    made: list[Phase] = []

    def run(name: str, streams: Sequence[list[Op]], digest: Digesting | None, *, measured: bool) -> None:
        made.append(
            query_step(
                name,
                streams,
                o.time_limit,
                seconds=SECONDS * len(streams[0]) * len(streams) ** 0.5,
                digest=digest,
                group="queries",
                tables=tables,
                measured=measured,
                start=[READ_ONLY],
            )
        )

    def once(order: Sequence[str], prefix: str = "") -> list[Op]:
        return [
            Sql.verbatim(prefix + queries.texts[name], name=name, record=True, on_error="record")
            for name in order
        ]

    digest = _digest(o, queries)
    if o.plans != "none" and server.has(Feature.EXPLAIN_JSON):
        how = "ANALYZE, BUFFERS, TIMING OFF, " if o.plans == "analyze" else ""
        run("plans", [once(names, f"EXPLAIN ({how}FORMAT JSON) ")], explained(o.time_limit), measured=False)
    if o.query_warmup:
        run("warm-up", [once(names) * o.query_warmup], None, measured=False)
    if o.passes:
        run("queries", [once(names) * o.passes], digest, measured=True)
    if o.streams:
        orders = [in_own_order(names, "custom", o.seed, n) for n in range(1, o.streams + 1)]
        run("streams", [once(order) for order in orders], digest, measured=True)
    return made


def _digest(o: CustomOptions, queries: QueryFiles) -> Digesting:
    def digest(events: Sequence[StatementDone], folder: Path) -> Digest:
        rows = rows_from(events, folder, o.time_limit, _ANSWERS[o.answers])
        return Digest(
            [*rows, *(_broken(name, why) for name, why in queries.broken.items())], rate=rate_of_queries(rows)
        )

    return digest


def _broken(name: str, why: str) -> dict[str, Any]:
    """The row of a file that holds no query: it stands where one that the server rejects would."""
    return {
        "query": name,
        "stream": 1,
        "execution": 1,
        "start": 0.0,
        "seconds": 0.0,
        "rows": None,
        "digest": None,
        "answer": None,
        "timed_out": False,
        "sqlstate": None,
        "error": why,
    }


__all__ = ["QueryFiles", "query_phases", "read_queries"]

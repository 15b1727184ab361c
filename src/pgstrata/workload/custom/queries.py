"""A folder of queries, each file one statement, timed alone; a broken one is marked, the rest goes on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from filecmp import cmp
from pathlib import Path
from typing import Any

from pgstrata import numbers
from pgstrata.driver.events import StatementDone
from pgstrata.errors import PgstrataError, UsageError
from pgstrata.files.user_files import shown
from pgstrata.judge.common_queries import rate_of_queries
from pgstrata.judge.queries import VARIES
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
from pgstrata.workload.custom.sql import SqlStatement, items, mentioned

SECONDS = 1.0
"""Of a query, for estimates only."""

MOST_QUERIES = 10_000

_VARYING = frozenset(
    [
        "clock_timestamp",
        "current_date",
        "current_time",
        "current_timestamp",
        "currval",
        "gen_random_uuid",
        "inet_client_port",
        "lastval",
        "localtime",
        "localtimestamp",
        "nextval",
        "now",
        "random",
        "random_normal",
        "statement_timestamp",
        "tablesample",
        "timeofday",
        "transaction_timestamp",
        "txid_current",
        "txid_current_snapshot",
        "uuid_generate_v1",
        "uuid_generate_v1mc",
        "uuid_generate_v4",
        "uuidv4",
        "uuidv7",
        "version",
        "xmax",
        "xmin",
    ]
)
"""Words of queries whose answer is another at each execution, or on each server."""

_VARYING_KINDS = ("explain", "show")
"""First words of statements that tell of the server, and nothing of the data."""

_OF_THE_SERVER = re.compile(
    "information_schema|pg_(?!(?:catalog|settings|typeof|sleep|notify|client_encoding)$"
    "|sleep_|size_|advisory_|try_advisory_|input_).*"
)
"""Words of what tells of a server and its version: system catalogs, their views and functions, as pg_dump,
psql and drivers ask them."""

_ANSWERS = {"any-order": answer_in_any_order, "ordered": answer_in_order, "exact": answer_as_it_came}


@dataclass(frozen=True)
class QueryFiles:
    """texts: by name. broken: names of files that hold no query, and why. varying: names of queries whose
    answer is another at each execution."""

    texts: dict[str, str]
    broken: dict[str, str]
    varying: frozenset[str] = frozenset()


def read_queries(paths: Sequence[Path], setup: Sequence[str] = ()) -> QueryFiles:
    """Reads the queries of files and folders, in the order of their files' names (q2 before q10).

    setup: files that are no queries where a folder has copies of them. Raises UsageError if there is no
    query, or if two files have the same name.
    """
    files: dict[str, Path] = {}
    for path in paths:
        for file in [path] if path.is_file() else _files_in(path, setup):
            if file.stem in files:
                if file == files[file.stem]:
                    raise UsageError(f"{shown(file)} is there twice", "name it once, or only its folder")
                raise UsageError(
                    f"two queries are called {shown(file.stem)}: {shown(files[file.stem])} and {shown(file)}",
                    "rename one: results name queries by their files",
                )
            files[file.stem] = file
    if len(files) > MOST_QUERIES:
        raise UsageError(f"there are more than {MOST_QUERIES:,} .sql files", "compare parts of them")
    texts, broken, varying, advice = {}, {}, set(), ""
    for file in sorted(files.values(), key=lambda file: in_order(file.stem)):
        try:
            texts[file.stem] = _query(file)
            if varies(texts[file.stem]):
                varying.add(file.stem)
        except PgstrataError as error:
            broken[file.stem] = error.message
            advice = advice or error.hint
        except OSError as error:
            broken[file.stem] = f"{file.name} cannot be read: {error.strerror}"
    if not texts:
        where = ", ".join(map(shown, paths))
        raise UsageError(
            f"no file of {where} holds a query: {next(iter(broken.values()))}",
            advice or "write each query into a file of its own; settings go into the config",
        )
    return QueryFiles(texts, broken, frozenset(varying))


def varies(query: str) -> bool:
    """Returns True if the answer is by nature another at each execution, on each server or under each config.
    Raises UsageError for literals and comments without an end."""
    words = mentioned(query).words
    return (
        query.split(maxsplit=1)[0].lower() in _VARYING_KINDS
        or bool(words & _VARYING)
        or any(map(_OF_THE_SERVER.fullmatch, words))
    )


def _files_in(folder: Path, setup: Sequence[str]) -> list[Path]:
    files = [path for path in folder.iterdir() if path.suffix.lower() == ".sql" and not _is_copy(path, setup)]
    if not files:
        raise UsageError(
            f"the folder of queries {shown(folder)} has no .sql file", "write each query into a file NAME.sql"
        )
    return files


def _is_copy(path: Path, files: Sequence[str]) -> bool:
    try:
        return any(cmp(path, file, shallow=False) for file in files)
    except OSError:
        return False


def _query(file: Path) -> str:
    statements = list(items(file))
    if not statements:
        raise UsageError(f"{file.name} is empty")
    if len(statements) > 1 or not isinstance(statements[0], SqlStatement):
        what = f"{len(statements)} statements" if len(statements) > 1 else "rows for COPY"
        raise UsageError(f"{file.name} has {what}, and a query is one statement")
    if parameters := mentioned(statements[0].text).parameters:
        plural = numbers.plural("parameter", parameters)
        raise UsageError(f"{file.name} has {parameters} {plural} ($1 …): write values in their place")
    return statements[0].text


def query_phases(o: CustomOptions, server: Features, tables: Sequence[str]) -> list[Phase]:
    """Returns the steps of the folder of queries; none if there is no folder."""
    if not o.query_paths:
        return []
    setup = [item for item in o.setup if isinstance(item, str)]
    queries = read_queries([Path(path) for path in o.query_paths], setup)
    names = list(queries.texts)
    phases: list[Phase] = []

    def run(name: str, streams: Sequence[list[Op]], digest: Digesting | None, *, measured: bool) -> None:
        phases.append(
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
    return phases


def _digest(o: CustomOptions, queries: QueryFiles) -> Digesting:
    def digest(events: Sequence[StatementDone], folder: Path) -> Digest:
        rows = rows_from(events, folder, o.time_limit, _ANSWERS[o.answers])
        for row in rows:
            if row["query"] in queries.varying and row["digest"] is not None:
                row["answer"] = VARIES
        return Digest(
            [*rows, *(_broken(name, why) for name, why in queries.broken.items())], rate=rate_of_queries(rows)
        )

    return digest


def _broken(name: str, why: str) -> dict[str, Any]:
    """Returns the row of a file that holds no query: it stands where a query that the server rejects
    would."""
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


__all__ = ["QueryFiles", "query_phases", "read_queries", "varies"]

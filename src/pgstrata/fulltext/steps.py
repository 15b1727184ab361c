"""Full text search: what it costs to load mail under GIN and GiST, and how fast each finds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from pgstrata.driver.events import StatementDone
from pgstrata.errors import ServerError, server_said
from pgstrata.files.user_files import user_path
from pgstrata.fulltext import corpus, queries
from pgstrata.fulltext.corpus.rows import COLUMNS
from pgstrata.fulltext.options import FulltextOptions
from pgstrata.judge.common_queries import rate_of_queries
from pgstrata.server.features import NEWEST, Feature, Features
from pgstrata.sql_text import literal
from pgstrata.workload.core.language import (
    Admin,
    CopyFile,
    Digest,
    Headline,
    Op,
    Phase,
    Role,
    Script,
    SingleQueries,
    Sql,
    Step,
    Work,
    WorkContext,
)
from pgstrata.workload.core.options import RunCost, need_feature
from pgstrata.workload.core.recorded import rows_from
from pgstrata.workload.core.shares import each_its_own

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

TABLE = "messages"
VECTORS = "pgstrata_vectors"
"""Trigger and its function, which replaces one of the same name."""

# Orders of magnitude of a small current server: bytes of text per second.
_LOAD = {"": 8e6, "gin": 4e6, "gist": 3e6}
_INDEX = {"gin": 12e6, "gist": 6e6}
_QUERY_SECONDS = {"gin": 0.01, "gist": 0.05}


class Fulltext:
    """Full text search over mail, by GIN and by GiST."""

    name = "fulltext"
    summary = "Full text search: mail loaded with tsvector triggers under GIN and GiST, ranked queries"
    Options = FulltextOptions
    scales: Mapping[str, Mapping[str, Any]] = {
        "count": {"messages": 300, "query_count": 20},
        "quick": {"messages": 2_000, "query_count": 200},
        "small": {"messages": 20_000, "query_count": 1_000},
        "medium": {},
        "large": {"messages": 1_000_000, "query_count": 33_000},
    }

    def phases(self, options: FulltextOptions, server: Features) -> list[Phase]:
        o = options
        need_feature(
            server, Feature.TEXT_SEARCH, "full text search", "older ones have no tsvector of their own"
        )
        rows = _corpus(o)
        texts = _queries(o)
        phases: list[Phase] = [Work("corpus", lambda context: _make(rows, context))]
        if not server.has(Feature.PLPGSQL):
            # The language of the trigger.
            phases.append(Admin("create language", ["CREATE LANGUAGE plpgsql"]))
        for kind in o.kinds:
            if o.build != "after":
                phases += [_create(o), _index_admin(kind), _load(o, rows, kind)]
                # Lists of what waits to be merged came in 8.4, the function that merges them in 9.6.
                if kind == "gin" and server.has(Feature.GIN_CLEANING):
                    phases.append(Work("pending list", _pending))
                phases += [_vacuum(), *_search(o, texts, kind)]
        if o.build != "before":
            phases += [_create(o), _load(o, rows, "")]
            for kind in o.kinds:
                phases.append(_index_step(o, rows, kind))
                if o.build == "after":
                    phases += [_vacuum(), *_search(o, texts, kind)]
                phases.append(Admin("drop index", [f"DROP INDEX {_index_name(kind)}"]))
        return phases

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the workload's section of the report."""
        from pgstrata.fulltext.report import fulltext

        return fulltext(results, workload)

    def estimate(self, options: FulltextOptions) -> RunCost:
        o = options
        rows = _corpus(o)
        steps = [p for p in self.phases(o, NEWEST) if isinstance(p, Step)]
        # Text, tsvectors of about its size, an index, the write-ahead log of all three.
        return RunCost(
            2 + rows.size / 50e6 + sum(s.estimated_seconds or 0.0 for s in steps), rows.size * 5 + (1 << 30)
        )


# --- the corpus -------------------------------------------------------------------------------


def _corpus(o: FulltextOptions) -> corpus.Corpus:
    path = o.archive
    return corpus.archive(path, damaged=o.damaged == "use") if path else corpus.synthetic(_synthetic(o))


def _synthetic(o: FulltextOptions) -> corpus.Synthetic:
    return corpus.Synthetic(o.messages, o.seed, corpus.CorpusShape(shortest=o.shortest))


def _queries(o: FulltextOptions) -> list[str]:
    if o.queries is not None:
        return queries.from_file(user_path(o.queries), o.query_count)
    path = o.archive
    words = (
        queries.archive_words(path, queries.stamp(path), o.language)
        if path
        else queries.synthetic_words(o.seed)
    )
    return queries.made_up(words, o.query_count, o.seed)


def _make(rows: corpus.Corpus, context: WorkContext) -> dict[str, Any]:
    return {"fulltext": rows.build(context.say, context.check)}


# --- the table --------------------------------------------------------------------------------


def _create(o: FulltextOptions) -> Admin:
    """Returns the phase that makes the table, empty, with the trigger that keeps its tsvectors; an older
    table is dropped."""
    return Admin(
        "create table",
        [
            f"DROP TABLE IF EXISTS {TABLE}",
            f"CREATE TABLE {TABLE} (id text NOT NULL, parent_id text, sent timestamptz, subject_plain text, "
            "author text, body_plain text, body tsvector, subject tsvector)",
            f"""CREATE OR REPLACE FUNCTION {VECTORS}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.body := to_tsvector('{o.language}', NEW.body_plain);
    NEW.subject := to_tsvector('{o.language}', NEW.subject_plain);
    RETURN NEW;
END $$""",
            f"CREATE TRIGGER {VECTORS} BEFORE INSERT OR UPDATE ON {TABLE} "
            f"FOR EACH ROW EXECUTE PROCEDURE {VECTORS}()",
        ],
    )


def _index_name(kind: str) -> str:
    return f"{TABLE}_body_{kind}"


def _create_index(kind: str) -> str:
    return f"CREATE INDEX {_index_name(kind)} ON {TABLE} USING {kind} (body)"


def _index_admin(kind: str) -> Admin:
    return Admin(f"create {kind} index", [_create_index(kind)])


def _vacuum() -> Admin:
    """Returns the phase that collects statistics for the planner and empties the pending list."""
    return Admin("vacuum", [f"VACUUM ANALYZE {TABLE}"])


def _load(o: FulltextOptions, rows: corpus.Corpus, kind: str) -> Step:
    """Returns the step that loads all messages by COPY, with an index of this kind in place, or with none."""
    sql = f"COPY {TABLE} ({', '.join(COLUMNS)}) FROM STDIN"
    return Step(
        f"load.{kind or 'plain'}",
        [Role("load", 1, [Script(CopyFile(sql, str(rows.file), name="copy"))], operations=1)],
        Headline("load", "rows", "messages/s"),
        tables=[TABLE],
        group="full text load",
        load=True,
        measured=o.judge_loads,
        estimated_seconds=1 + rows.size / _LOAD[kind],
        summary=f"Loads all messages {f'under a {kind} index' if kind else 'without an index'}.",
    )


def _index_step(o: FulltextOptions, rows: corpus.Corpus, kind: str) -> Step:
    """Returns the step that builds the index when all rows are there."""
    return Step(
        f"index.{kind}",
        [Role("load", 1, [Script(Sql.verbatim(_create_index(kind), name=f"create {kind}"))], operations=1)],
        Headline("load", "operations", "builds/h", fixed=1.0),
        tables=[TABLE],
        group="full text load",
        load=True,
        measured=o.judge_loads,
        estimated_seconds=1 + rows.size / _INDEX[kind],
        summary=f"Builds the {kind} index of all messages.",
    )


def _pending(context: WorkContext) -> dict[str, Any]:
    """Measures how much of the GIN index the load left in its pending list, and merges that list on the
    way."""
    try:
        with context.connect() as connection:
            row = connection.execute(
                "SELECT gin_clean_pending_list(%s::regclass), current_setting('block_size')::int, "
                "pg_relation_size(%s::regclass)",
                [_index_name("gin")] * 2,
            ).fetchone()
    except psycopg.Error as error:
        raise ServerError(f"the pending list cannot be read: {server_said(error)}") from error
    assert row is not None
    return {"fulltext_pending": {"bytes": row[0] * row[1], "index_bytes": row[2]}}


# --- the queries ------------------------------------------------------------------------------


def query(text: str) -> str:
    """Returns the search for a single tsquery: the hundred best matches."""
    wanted = literal(text)
    return (
        f"SELECT id FROM {TABLE} WHERE body @@ ({wanted})::tsquery "
        f"ORDER BY ts_rank(body, ({wanted})::tsquery) DESC LIMIT 100"
    )


def _search(o: FulltextOptions, texts: Sequence[str], kind: str) -> list[Phase]:
    phases: list[Phase] = []
    if o.warmup:
        phases.append(_pass(o, texts, kind, f"warm-up.{kind}", o.warmup, None))
    return [*phases, _pass(o, texts, kind, f"query.{kind}", o.passes, _digest(o))]


def _pass(
    o: FulltextOptions,
    texts: Sequence[str],
    kind: str,
    name: str,
    passes: int,
    digest: Callable[[Sequence[StatementDone], Path], Digest] | None,
) -> Step:
    statements = {f"{number:05d} {text[:60]}": query(text) for number, text in enumerate(texts, 1)}
    clients = min(o.clients, len(texts))

    def step(name: str, shares: Sequence[Sequence[str]], executions: int) -> Step:
        ops = [[_recorded(name, statements[name]) for name in share] * executions for share in shares]
        limit = [
            Sql.verbatim(f"SET statement_timeout = {max(1, round(o.time_limit * 1000))}", name="limit"),
        ]
        return Step(
            name,
            [
                Role(
                    "query",
                    len(shares),
                    [Script(*each_its_own(ops))],
                    counts="statements",
                    operations=1,
                    start=limit,
                )
            ],
            Headline("query", "operations", "queries/s"),
            tables=[TABLE],
            group="full text queries",
            measured=digest is not None,
            reads_only=True,
            estimated_seconds=1 + len(texts) * passes * _QUERY_SECONDS[kind] / clients,
        )

    names = list(statements)
    # The client of number 0 has the queries whose number, from 1, is a multiple of that of the clients.
    shares = [names[(client or clients) - 1 :: clients] for client in range(clients)]
    single = None
    if digest is not None:
        single = SingleQueries(names, lambda name, times: step(name, [[name]], times), o.time_limit)
    return replace(step(name, shares, passes), digest=digest, single=single)


def _recorded(name: str, text: str) -> Op:
    return Sql.verbatim(text, name=name, record=True, on_error="record")


def _digest(o: FulltextOptions) -> Callable[[Sequence[StatementDone], Path], Digest]:
    def digest(events: Sequence[StatementDone], folder: Path) -> Digest:
        rows = rows_from(events, folder, o.time_limit)
        return Digest(rows, rate=rate_of_queries(rows, "queries/s"))

    return digest

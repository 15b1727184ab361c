"""Nearest neighbours: vectors loaded, indexes built, and searched at one recall after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgstrata.server.features import NEWEST, Feature, Features
from pgstrata.sql_text import literal
from pgstrata.vector.data import VectorData
from pgstrata.vector.options import Distance, Kind, VectorOptions
from pgstrata.vector.recall import tune
from pgstrata.workload.core.language import (
    Admin,
    CopyFile,
    Headline,
    Phase,
    Role,
    Script,
    Settle,
    Sql,
    Step,
    Uniform,
    Work,
    WorkContext,
)
from pgstrata.workload.core.options import RunCost, need_feature

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

EXTENSION = "vector"
ITEMS, PROBES, SETTINGS = TABLES = ["vector_items", "vector_probes", "vector_settings"]

_OPERATORS: Mapping[Distance, tuple[str, str]] = {
    "l2": ("<->", "vector_l2_ops"),
    "cosine": ("<=>", "vector_cosine_ops"),
    "ip": ("<#>", "vector_ip_ops"),
}
_SETTINGS: Mapping[Kind, str] = {"hnsw": "hnsw.ef_search", "ivfflat": "ivfflat.probes"}
MOST_EF_SEARCH = 1000
"""Of pgvector."""

# Orders of magnitude of a small current server: rows per second, for 64 dimensions.
_BUILD_ROWS = {"hnsw": 2e3, "ivfflat": 5e4}


class Vector:
    """Nearest neighbours by pgvector's indexes."""

    name = "vector"
    summary = "Nearest neighbours (pgvector): HNSW and IVFFlat built and searched, each rate at a recall"
    Options = VectorOptions
    scales: Mapping[str, Mapping[str, Any]] = {
        "count": {"rows": 1_000, "dimensions": 16, "queries": 20, "recall": [0.9], "seconds": 1},
        "quick": {"rows": 5_000, "dimensions": 32, "queries": 50, "seconds": 2, "warmup": 0.2},
        "demo": {"rows": 20_000, "dimensions": 32, "queries": 100, "seconds": 5},
        "small": {},
        "medium": {"rows": 1_000_000, "dimensions": 128, "clusters": 1000, "seconds": 60},
        "large": {"rows": 10_000_000, "dimensions": 256, "clusters": 10_000, "seconds": 120},
    }

    def extensions(self, options: VectorOptions) -> Sequence[str]:
        """Returns pgvector's name as CREATE EXTENSION takes it."""
        return [EXTENSION]

    def phases(self, options: VectorOptions, server: Features) -> list[Phase]:
        o, data = options, VectorData.of(options)
        # The oldest servers that it is made for are the first with these keys (11).
        need_feature(
            server, Feature.PARTITIONED_KEYS, "vector", "pgvector with HNSW is not made for older ones"
        )
        tuned: dict[str, Any] = {}
        phases: list[Phase] = [
            Work("vectors", lambda context: _make(data, context)),
            Admin(
                "create tables",
                [
                    f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}",
                    f"CREATE TABLE {ITEMS} (id int NOT NULL, embedding vector({o.dimensions}) NOT NULL)",
                    f"CREATE TABLE {PROBES} (id int PRIMARY KEY, embedding vector({o.dimensions}) NOT NULL)",
                    f"CREATE TABLE {SETTINGS} (step text NOT NULL, name text NOT NULL, value text NOT NULL)",
                ],
            ),
            _load(o, data),
        ]
        for kind in o.indexes:
            phases += [_build(o, kind), Settle([ITEMS, PROBES], seconds=0)]
            for target in o.recall:
                phases += _search(o, data, kind, target, tuned)
            phases.append(Admin("drop index", [f"DROP INDEX {_index(kind)}"]))
        return phases

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the workload's section of the report."""
        from pgstrata.vector.report import recalls  # what draws is loaded where something is drawn

        return recalls(results, workload)

    def estimate(self, options: VectorOptions) -> RunCost:
        o = options
        steps = [p for p in self.phases(o, NEWEST) if isinstance(p, Step)]
        seconds = sum(s.expected_seconds for s in steps)
        # Finding each setting takes about a dozen times all queries.
        seconds += len(o.indexes) * len(o.recall) * 12 * o.queries * 2e-3
        # Vectors, an index of about twice their size, the write-ahead log of both.
        return RunCost(seconds, o.rows * (o.dimensions * 4 + 40) * 6 + (1 << 30))


def _make(data: VectorData, context: WorkContext) -> Mapping[str, Any]:
    data.make(context.check)
    return {}


def _load(o: VectorOptions, data: VectorData) -> Step:
    script = Script(
        CopyFile(f"COPY {PROBES} FROM STDIN", str(data.probes), name=f"copy {PROBES}"),
        CopyFile(f"COPY {ITEMS} FROM STDIN", str(data.items), name=f"copy {ITEMS}"),
    )
    return Step(
        "load",
        [Role("load", 1, [script], operations=1)],
        Headline("load", "operations", "rows/s", fixed=float(o.rows + o.queries)),
        tables=TABLES,
        group="load",
        measured=False,
        load=True,
        estimated_seconds=data.bytes / 20e6,
    )


def _index(kind: Kind) -> str:
    return f"{ITEMS}_{kind}"


def _build(o: VectorOptions, kind: Kind) -> Step:
    parameters = (
        f"m = {o.m}, ef_construction = {o.ef_construction}" if kind == "hnsw" else f"lists = {o.lists_made}"
    )
    column = f"embedding {_OPERATORS[o.distance][1]}"
    text = f"CREATE INDEX {_index(kind)} ON {ITEMS} USING {kind} ({column}) WITH ({parameters})"
    return Step(
        f"{kind}-build",
        [Role("load", 1, [Script(Sql(text, name="create index"))], operations=1)],
        Headline("load", "operations", "indexed rows/s", fixed=float(o.rows)),
        tables=[ITEMS],
        group=kind,
        estimated_seconds=o.rows / _BUILD_ROWS[kind] * o.dimensions / 64,
        uncounted="an index is built by several processes",
        summary=f"Builds the {kind} index.",
    )


def _search(
    o: VectorOptions, data: VectorData, kind: Kind, target: float, tuned: dict[str, Any]
) -> list[Phase]:
    """Returns the phase that finds the setting, and the step that searches with it. tuned: by step,
    what was found so far."""
    name = f"{kind}-r{target * 100:.6g}"
    # The number of a vector stands for it: the vectors themselves never pass the connection.
    ordered = f"ORDER BY embedding {_OPERATORS[o.distance][0]} (SELECT embedding FROM {PROBES} WHERE id = "
    query = f"SELECT id FROM {ITEMS} {ordered}%s) LIMIT {o.k}"
    most = MOST_EF_SEARCH if kind == "hnsw" else o.lists_made

    def work(context: WorkContext) -> Mapping[str, Any]:
        tuned[name] = tune(context, name, query, _SETTINGS[kind], most, target, data.truth())
        return {"recall": dict(tuned)}

    search = Script(
        Sql(
            f"SELECT id FROM {ITEMS} {ordered}{{probe}}) LIMIT {o.k}",
            name="search",
            probe=Uniform(1, o.queries),
        )
    )
    settings = f"SELECT set_config(name, value, false) FROM {SETTINGS} WHERE step = {literal(name)}"
    role = Role(
        "query",
        o.clients,
        [search],
        mode="prepared",
        start=[Sql.verbatim(settings, name="settings")],
    )
    return [
        Work(f"recall of {name}", work),
        Step(
            name,
            [role],
            Headline("query", "operations", "queries/s"),
            seconds=o.seconds,
            warmup=o.warmup,
            tables=TABLES,
            group=kind,
            reads_only=True,
            summary=f"Searches nearest neighbours by the {kind} index at a recall of {target:g}.",
        ),
    ]

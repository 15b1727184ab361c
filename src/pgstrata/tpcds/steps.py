"""TPC-DS: load in timed phases, plans, a power run and a throughput run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgstrata.server.features import NEWEST, Feature, Features
from pgstrata.tpcds import data, judge, reference, schema
from pgstrata.tpcds.dialect import understood_by
from pgstrata.tpcds.options import TpcdsOptions
from pgstrata.tpcds.source import queries, tables
from pgstrata.workload.core.language import (
    Admin,
    CopyFile,
    Headline,
    Op,
    Phase,
    Role,
    Script,
    Sql,
    Step,
    Work,
    WorkContext,
)
from pgstrata.workload.core.options import RunCost
from pgstrata.workload.core.queries import Digesting, in_own_order, query_step
from pgstrata.workload.core.recorded import explained
from pgstrata.workload.core.shares import each_its_own

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

# Orders of magnitude of a small current server: raw bytes loaded per second and connection, indexed,
# vacuumed; seconds all 99 queries take at scale factor 1.
_COPY, _INDEX, _VACUUM, _ANALYZE = 20e6, 30e6, 200e6, 400e6
_QUERIES_SECONDS = 400.0


class Tpcds:
    """TPC-DS: 24 tables, 99 analytical queries."""

    name = "tpcds"
    summary = "TPC-DS: load in timed phases, 99 analytical queries with plans and checked answers"
    Options = TpcdsOptions
    scales: Mapping[str, Mapping[str, Any]] = {
        "count": {
            "scale": 0.01,
            "streams": 0,
            "plans": "none",
            "answers": False,
            "queries": "1-3 5-10 19 42 52 55 98",  # q04 takes twice as long as the others together
        },
        "quick": {"scale": 0.01, "time_limit": 20, "streams": 0, "queries": "1-10 19 42 52 55 98"},
        "small": {"scale": 0.1, "time_limit": 60},
        "medium": {"scale": 1, "time_limit": 300},
        "large": {"scale": 16},
    }

    def phases(self, options: TpcdsOptions, server: Features) -> list[Phase]:
        o = options
        phases: list[Phase] = [
            Work("data", lambda context: _data(o, context)),
            Admin("create tables", schema.create()),
            *_load(o),
        ]
        if o.answers and (o.passes or o.streams):
            phases.append(Work("answers", lambda context: _answers(o, context)))
        return [*phases, *_queries(o, server)]

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Its section of the report."""
        from pgstrata.tpcds.report import tpcds  # what draws is loaded where something is drawn

        return tpcds(results, workload)

    def estimate(self, options: TpcdsOptions) -> RunCost:
        o = options
        seconds = sum(p.estimated_seconds or 0.0 for p in self.phases(o, NEWEST) if isinstance(p, Step))
        there = data.about(o.scale) is not None
        raw = data.raw_bytes(o.scale)
        # Tables a little larger than their text, indexes, the write-ahead log of the load, sorts on disk.
        return RunCost(seconds + (0 if there else raw / 50e6), int(raw * 2.6) + (1 << 30))


def _data(o: TpcdsOptions, context: WorkContext) -> dict[str, Any]:
    return {"tpcds": data.make(o.scale, context.say, context.check)}


def _answers(o: TpcdsOptions, context: WorkContext) -> dict[str, Any]:
    reference.make(o.scale, o.numbers, context.say, context.check)
    return {}


# --- the load ---------------------------------------------------------------------------------


def _load(o: TpcdsOptions) -> list[Phase]:
    raw = data.raw_bytes(o.scale)
    vacuum = {"freeze": "VACUUM FREEZE", "full": "VACUUM FULL"}.get(o.vacuum)

    def copy(table: str) -> list[Op]:
        return [CopyFile(schema.copy(table), str(data.file(o.scale, table)), name=f"copy {table}")]

    def index(table: str) -> list[Op]:
        return [Sql.verbatim(sql, name=f"index {table}") for sql in schema.indexes(table, o.indexes)]

    made: list[Phase] = [_phase(o, "copy", copy, raw / _COPY)]
    if o.indexes != "none":
        made.append(_phase(o, "indexes", index, raw / _INDEX))
    if vacuum:
        made.append(
            _phase(
                o,
                "vacuum",
                lambda t: [Sql.verbatim(f"{vacuum} {t}", name=f"vacuum {t}")],
                raw / _VACUUM,
            )
        )
    made.append(
        _phase(o, "analyze", lambda t: [Sql.verbatim(f"ANALYZE {t}", name=f"analyze {t}")], raw / _ANALYZE)
    )
    return made


def _phase(o: TpcdsOptions, name: str, ops: Callable[[str], Sequence[Op]], seconds: float) -> Step:
    """One phase of the load over all tables, judged by how often it could be done in an hour."""
    shares = [share for share in schema.spread_tables(o.load_connections, ops) if share]
    return Step(
        name,
        [Role("load", len(shares), [Script(*each_its_own(shares))], operations=1)],
        Headline("load", "operations", "loads/h", fixed=1.0),
        tables=list(tables()),
        group="TPC-DS load",
        uncounted="it is one operation on all tables",
        load=True,
        estimated_seconds=1 + seconds / len(shares),
    )


# --- the queries ------------------------------------------------------------------------------


_SUMMARIES = {
    "power": "The queries one after the other on one connection.",
    "throughput": "The queries on several connections, on each in another order.",
}


def _queries(o: TpcdsOptions, server: Features) -> list[Phase]:
    made: list[Phase] = []
    digest = judge.judge(o.scale, o.time_limit, answers=o.answers)
    if o.plans != "none" and server.has(Feature.EXPLAIN_JSON):
        how = "ANALYZE, BUFFERS, TIMING OFF, " if o.plans == "analyze" else ""
        made.append(
            _run(
                o,
                "plans",
                [_pass(o, server, o.numbers, f"EXPLAIN ({how}FORMAT JSON) ", record=True)],
                explained(o.time_limit),
                measured=False,
            )
        )
    if o.warmup:
        made.append(
            _run(o, "warm-up", [_pass(o, server, o.numbers, record=True) * o.warmup], None, measured=False)
        )
    if o.passes:
        made.append(_run(o, "power", [_pass(o, server, o.numbers, record=True) * o.passes], digest))
    if o.streams:
        orders = [in_own_order(o.numbers, "tpcds", o.seed, n) for n in range(1, o.streams + 1)]
        made.append(_run(o, "throughput", [_pass(o, server, order, record=True) for order in orders], digest))
    return made


def _pass(
    o: TpcdsOptions, server: Features, numbers: Sequence[int], prefix: str = "", *, record: bool
) -> list[Op]:
    texts = {n: understood_by(text, server) for n, text in queries().items()}
    return [
        Sql.verbatim(prefix + texts[n], name=f"q{n:02d}", record=record, on_error="record") for n in numbers
    ]


def _run(
    o: TpcdsOptions,
    name: str,
    streams: Sequence[list[Op]],
    digest: Digesting | None,
    *,
    measured: bool = True,
) -> Step:
    whole = _QUERIES_SECONDS * (0.03 + o.scale) * len(streams[0]) / 99
    step = query_step(
        name,
        streams,
        o.time_limit,
        seconds=whole * len(streams) ** 0.5,
        digest=digest,
        group="TPC-DS queries",
        tables=list(tables()),
        measured=measured,
    )
    return replace(step, summary=_SUMMARIES.get(name, ""))

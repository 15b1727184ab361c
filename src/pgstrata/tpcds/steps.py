"""TPC-DS: load in timed phases, plans, a power run and a throughput run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pgstrata.server.features import NEWEST, Features
from pgstrata.tpc.load import Indexing, cost, create, load_phases, make_data
from pgstrata.tpc.runs import QueryRuns
from pgstrata.tpcds import schema
from pgstrata.tpcds.options import TpcdsOptions
from pgstrata.tpcds.schema import TPCDS
from pgstrata.workload.core.language import Admin, Phase, Work
from pgstrata.workload.core.options import RunCost
from pgstrata.workload.core.queries import in_own_order

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults


class Tpcds:
    """TPC-DS: 24 tables, 99 analytical queries."""

    name = TPCDS.name
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
        indexes = Indexing("indexes", "index", lambda table: schema.indexes(table, o.indexes))

        def order(stream: int) -> list[int]:
            return in_own_order(o.numbers, TPCDS.name, o.seed, stream) if stream else o.numbers

        runs = QueryRuns(TPCDS, o, server, order)
        return [
            Work("data", partial(make_data, TPCDS, o.scale)),
            Admin("create tables", create(TPCDS)),
            *load_phases(TPCDS, o, [indexes] if o.indexes != "none" else []),
            *(runs.answers() if o.passes or o.streams else []),
            *runs.before(),
            *runs.power(),
            *runs.throughput(),
        ]

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the workload's section of the report."""
        from pgstrata.tpcds.report import tpcds  # what draws is loaded where something is drawn

        return tpcds(results, workload)

    def estimate(self, options: TpcdsOptions) -> RunCost:
        return cost(TPCDS, options, self.phases(options, NEWEST))

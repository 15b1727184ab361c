"""TPC-H in the report."""

from __future__ import annotations

from pgstrata.page.blocks import Section
from pgstrata.page.query_tables import Wording
from pgstrata.page.results import RunSet, WorkloadResults
from pgstrata.tpc.report import ANSWERS, LoadWords, section
from pgstrata.tpch.schema import TPCH

_LOAD = LoadWords(
    ("copy", "keys", "indexes", "vacuum", "analyze"),
    "COPY of all tables, then primary keys, indexes on the columns of foreign keys, VACUUM, ANALYZE",
)
_WORDING = Wording(TPCH.name, ANSWERS, "Syntax that a version lacks is the usual reason.")


def tpch(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the report's section of TPC-H; None for workloads of another kind."""
    return section(results, workload, TPCH, _LOAD, _WORDING)

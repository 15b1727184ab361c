"""TPC-DS in the report."""

from __future__ import annotations

from pgstrata.page.blocks import Section
from pgstrata.page.query_tables import Wording
from pgstrata.page.results import RunSet, WorkloadResults
from pgstrata.tpc.report import ANSWERS, LoadWords, section
from pgstrata.tpcds.schema import TPCDS

_LOAD = LoadWords(
    ("copy", "indexes", "vacuum", "analyze"),
    "COPY of all tables, then primary keys and indexes, VACUUM, ANALYZE",
)
_WORDING = Wording(
    TPCDS.name,
    ANSWERS,
    "Syntax that a version lacks is the usual reason; division by zero comes from groups without sales on "
    "small scale factors.",
)


def tpcds(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the report's section of TPC-DS; None for workloads of another kind."""
    return section(results, workload, TPCDS, _LOAD, _WORDING)

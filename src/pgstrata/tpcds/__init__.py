"""TPC-DS: a load in timed phases, 99 analytical queries, and their answers checked."""

from pgstrata.registry import Capability

CAPABILITY = Capability(
    workloads={"tpcds": "pgstrata.tpcds.steps:Tpcds"},
    cached={"tpcds": "rows and answers of TPC-DS"},
)

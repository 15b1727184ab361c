"""TPC-H: a load in timed phases, 22 analytical queries, both refresh functions, and answers checked."""

from pgstrata.registry import Capability

CAPABILITY = Capability(
    workloads={"tpch": "pgstrata.tpch.steps:Tpch"},
    cached={"tpch": "rows and answers of TPC-H"},
)

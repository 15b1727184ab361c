"""TPC-DS: a load in timed phases, 99 analytical queries, and their answers checked."""

from pgstrata.workload.tpcds.steps import Tpcds

__all__ = ["Tpcds"]

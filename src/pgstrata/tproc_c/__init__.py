"""TPROC-C: order entry of a wholesaler by the rules of the TPC-C specification, as HammerDB runs it."""

from pgstrata.registry import Capability

CAPABILITY = Capability(
    workloads={"tproc-c": "pgstrata.tproc_c.steps:TprocC"},
    cached={"tproc-c": "rows of TPROC-C"},
)
"""Order entry: warehouses loaded, and five kinds of transactions in the specification's mix or alone."""

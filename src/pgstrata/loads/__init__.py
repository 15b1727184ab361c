"""Loads that are judged: COPY, indexes, VACUUM, ANALYZE, a restore, and what a server replays."""

from pgstrata.registry import Capability

CAPABILITY = Capability(workloads={"loads": "pgstrata.loads.steps:Loads"})
"""What people wait for beside queries, each as a step that is compared."""

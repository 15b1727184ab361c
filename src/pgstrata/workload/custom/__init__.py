"""A workload of files: a schema, scripts and queries of the user's own."""

from pgstrata.workload.custom.steps import Custom

__all__ = ["Custom"]

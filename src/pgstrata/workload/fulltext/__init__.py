"""Full text search: mail loaded under GIN and GiST indexes, then searched."""

from pgstrata.workload.fulltext.steps import Fulltext

__all__ = ["Fulltext"]

"""Full text search: mail loaded under GIN and GiST indexes, then searched."""

from pgstrata.registry import Capability

CAPABILITY = Capability(
    workloads={"fulltext": "pgstrata.fulltext.steps:Fulltext"},
    cached={"corpus": "mail"},
)

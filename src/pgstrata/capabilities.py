"""The capabilities: the packages around the core, in the order in which users see them.

To add a capability, write a package with a `CAPABILITY` (`pgstrata.registry.Capability`) and a line here.
"""

CAPABILITIES = (
    "pgstrata.source",
    "pgstrata.count",
    "pgstrata.search",
    "pgstrata.watch",
    "pgstrata.bundle",
    "pgstrata.imports",
    "pgstrata.assist",
    "pgstrata.traffic",
    "pgstrata.fleet",
    "pgstrata.tpcds",
    "pgstrata.tpch",
    "pgstrata.tproc_c",
    "pgstrata.loads",
    "pgstrata.fulltext",
    "pgstrata.vector",
)

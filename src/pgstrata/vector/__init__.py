"""Nearest neighbours by pgvector: HNSW and IVFFlat, with the recall that a rate was had at."""

from pgstrata.registry import Capability

CAPABILITY = Capability(
    workloads={"vector": "pgstrata.vector.steps:Vector"},
    cached={"vectors": "vectors"},
)

"""Nearest neighbours by pgvector: HNSW and IVFFlat, with the recall that a rate was had at."""

from pgstrata.workload.vector.steps import Vector

__all__ = ["Vector"]

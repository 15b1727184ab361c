"""One server for all tests of a module."""

from support.cluster import cluster

__all__ = ["cluster"]

"""Fixtures of these tests."""

from __future__ import annotations

from support.cluster import cluster

__all__ = ["cluster"]

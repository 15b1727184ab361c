"""A fixture: one server for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.model import Server
from support.steps import running


@pytest.fixture(scope="module")
def cluster(pg17: Server) -> Iterator[Cluster]:
    """A current server with pg_stat_statements, without autovacuum."""
    with running(pg17) as running_cluster:
        yield running_cluster

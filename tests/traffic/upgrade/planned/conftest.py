"""A database on PostgreSQL 13 with its schema, statistics and log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from support.needs import needs
from support.planner import Original, original


@pytest.fixture(scope="module")
def original13(pg13: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    with original(pg13, tmp_path_factory.mktemp("original"), dumped=True) as source:
        yield source


@pytest.fixture(scope="module")
def original17(pg17: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    with original(pg17, tmp_path_factory.mktemp("original"), dumped=False) as source:
        yield source


@pytest.fixture(scope="session")
@needs("server")
def pg18() -> Server:
    """The first with functions that restore statistics."""
    return acquire("pg:18")


@pytest.fixture(scope="session")
@needs("server")
def pg10() -> Server:
    """The first with CREATE STATISTICS."""
    return acquire("pg:10")

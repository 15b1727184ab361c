"""One server for all tests of a module, and a cache of its own for the rows."""

import pytest

from support.cluster import cluster


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of tests do not stay; a running server does not need its cache."""
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path_factory.mktemp("cache")))


__all__ = ["cluster"]

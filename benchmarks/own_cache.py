"""A cache that holds the fetched servers and nothing else, so that a benchmark makes its data anew."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgstrata.server.find.cache import cache_dir


@contextmanager
def own_cache() -> Iterator[Path]:
    """Makes such a cache that of this process; gives a folder for its cluster. Both are gone afterwards."""
    servers = cache_dir() / "servers"
    place = Path(tempfile.mkdtemp(prefix="pgs", dir="/var/tmp"))
    place.chmod(0o755)
    os.environ["PGSTRATA_CACHE"] = str(place / "cache")
    (place / "cache").mkdir(mode=0o755)
    (place / "cache" / "servers").symlink_to(servers)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)

"""Where a bench connects to, as libpq finds it out."""

from __future__ import annotations

from pgstrata.server.conninfo import Conninfo

APPLICATION = "pgstrata bench"


def conninfo(url: str) -> Conninfo:
    """Where to connect: of a URL, key=value words or a database's name, else as PG… variables say.

    Raises UsageError.
    """
    if "=" in url or "://" in url:
        return Conninfo.parse(url, APPLICATION)
    return Conninfo({"dbname": url} if url else {}, application=APPLICATION)

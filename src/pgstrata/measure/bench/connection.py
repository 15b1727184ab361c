"""Where a bench connects to, as libpq finds it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pgstrata.server.connect.conninfo import Conninfo

APPLICATION = "pgstrata bench"


def conninfo(url: str, more: Mapping[str, str]) -> Conninfo:
    """Returns the connection parameters of a URL, key=value words or a database's name, else those of PG…
    variables.

    more: parameters that hold before those of the URL.

    Raises UsageError.
    """
    if "=" in url or "://" in url:
        named = Conninfo.parse(url, APPLICATION)
    else:
        named = Conninfo({"dbname": url} if url else {}, application=APPLICATION)
    return replace(named, given={**named.given, **more})

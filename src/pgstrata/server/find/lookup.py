"""Which server a spec stands for, without fetching it: for plans that are only to be shown."""

from __future__ import annotations

from pathlib import Path

from pgstrata.errors import ServerError
from pgstrata.server.find import prebuilt as cache
from pgstrata.server.find.acquire import acquire, check_spec, fetched
from pgstrata.server.find.model import Server, version_number
from pgstrata.server.find.recipe import DEFAULT, Build, find_build
from pgstrata.server.find.sources import is_source, source_of


def look_up(spec: str, how: Build | None = None, *, folder: Path | None = None) -> Server:
    """Returns the server that `acquire` would fetch or build, with its version and label; it may not be there
    yet.

    Raises UsageError for what is no spec, ServerError where no version fits.
    """
    check_spec(spec)
    if is_source(spec):
        return source_of(spec).look_up(spec, how or find_build(DEFAULT), folder)
    kind, _, rest = spec.partition(":")
    if kind != "pg":
        return acquire(spec)  # nothing to fetch
    version = _newest(rest)
    if version is None:
        return acquire(spec)  # says which versions are near
    return Server(f"pg:{version}", f"pg{version}", version, version_number(version), "", Path())


def _newest(wanted: str) -> str | None:
    have = [version for version, _ in cache.fetched()]
    if wanted in have:
        return wanted
    try:
        # The newest of each major version is one question, all of them are many.
        published = cache.published()
        if wanted.count(".") == (2 if wanted.startswith("9.") else 1) and wanted not in published:
            published = cache.published(every=True)
    except ServerError:
        published = have
    fitting = [v for v in published if wanted in ("latest", v) or v.startswith(f"{wanted}.")]
    return max(fitting, key=version_number, default=None)


def server_here(spec: str) -> Server:
    """Returns the server of a spec as far as it is on this machine, without asking a site: of `pg:11` the
    newest that is in the cache; where none is, one without programs.

    Raises UsageError for what is no spec, ServerError for an installation that is none.
    """
    check_spec(spec)
    kind, _, rest = spec.partition(":")
    if kind != "pg":
        return look_up(spec)
    fitting = [s for s in fetched() if rest == "latest" or f"{s.version}.".startswith(f"{rest}.")]
    if fitting or rest == "latest":
        return fitting[-1] if fitting else look_up(spec)
    return Server(spec, f"pg{rest}", rest, version_number(rest), "", Path())

"""Where a PostgreSQL server comes from: `pg:17.11`, `path:DIR`, `dsn:URL`, or a source tree."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from pgstrata.errors import NoServerError, ServerError, UsageError, server_said
from pgstrata.files.ownership import check_executed
from pgstrata.files.user_files import real_path, user_path
from pgstrata.server.capabilities import catalog_of
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.secrets import spec_without_secrets, without_secrets
from pgstrata.server.connect.session import answering, use_catalogs_only
from pgstrata.server.features import ask_features
from pgstrata.server.find import prebuilt as cache
from pgstrata.server.find.cache import cache_dir
from pgstrata.server.find.model import Server, version_number
from pgstrata.server.find.prebuilt import published as available
from pgstrata.server.find.prebuilt import remove
from pgstrata.server.find.progress import BuildProgress, PlainBuildProgress
from pgstrata.server.find.recipe import DEFAULT, Build, find_build
from pgstrata.server.find.sources import is_source, source_of
from pgstrata.server.system.account import check_reachable, server_account
from pgstrata.server.system.isolation import probe

__all__ = [
    "acquire",
    "available",
    "cache_dir",
    "check_spec",
    "fetched",
    "remove",
    "version_number",
]

OLDEST = 70400
"""The first version that speaks the protocol of today."""


def check_spec(spec: str) -> None:
    """Raises UsageError unless `spec` is written as a server; looks at neither disk nor network."""
    kind, colon, rest = spec.partition(":")
    if not colon or not rest or "\0" in spec:
        raise _no_spec(spec)
    match kind:
        case "pg":
            cache.check_version(rest)
        case "path":
            user_path(rest)
        case "dsn":
            Conninfo.parse(rest).check()
        case _ if is_source(spec):
            source_of(spec).check_spec(spec)
        case _:
            raise _no_spec(spec)


def _no_spec(spec: str) -> UsageError:
    hint = (
        "write pg:17, pg:17.11 or pg:latest, path:DIR for an installation, dsn:URL for a running server; "
        "release:9.0.23, tar:FILE, src:DIR or git:DIR#REF for one to be built"
    )
    if meant := re.fullmatch(r"(?:pg|postgres|postgresql|v)?[:-]?(\d[\d.]*|latest)", spec):
        hint = f"did you mean pg:{meant[1]}?"
    if "://" in spec or re.match(r"\w+=", spec):
        hint = "write dsn: before the address of a running server"
    if re.match(r"(?:https?|ftp)://", spec):
        hint = "write tar:URL for an archive of a source tree, git:URL#REF for a repository"
    if os.path.isdir(spec):  # noqa: PTH112 - a text that is no path is no error here
        hint = f"write path:{spec} for an installation with bin/postgres, src:{spec} for a source tree"
    return UsageError(f"{without_secrets(spec)!r} does not name a server", hint)


def acquire(
    spec: str,
    how: Build | None = None,
    *,
    say: Callable[[str], None] | None = None,
    folder: Path | None = None,
    progress: Callable[[BuildProgress], None] | None = None,
    check: Callable[[], None] = lambda: None,
    again: bool = False,
) -> Server:
    """Returns the server behind a spec, fetched or built if need be; `say` takes sentences of progress.

    how: what a source tree is built with, `o2` unless said. folder: where relative paths of trees start.
    progress, check, again: as of the source. Raises UsageError for a spec that is not one,
    ServerError when the server is not to be had.
    """
    check_spec(spec)
    kind, _, rest = spec.partition(":")
    if is_source(spec):
        speak = say or (lambda text: None)
        source = source_of(spec)
        tree = source.find_tree(spec, speak, folder)
        return source.server_of(
            tree,
            how or find_build(DEFAULT),
            say=speak,
            progress=progress or PlainBuildProgress(speak),
            check=check,
            again=again,
        )
    if kind == "pg":
        return _of_cache(cache.fetch(rest, say))
    return _installed(rest) if kind == "path" else _foreign(rest)


def fetched() -> list[Server]:
    """Returns the servers in the cache, oldest version first."""
    return [_of_cache(folder) for _, folder in cache.fetched()]


def _of_cache(folder: Path) -> Server:
    version = folder.name.removeprefix("pg-")
    bin_dir = folder / "bin"
    return Server(f"pg:{version}", f"pg{version}", version, version_number(version), _build(bin_dir), bin_dir)


def _installed(where: str) -> Server:
    folder = real_path(where)
    bin_dir = next((d for d in (folder / "bin", folder) if (d / "postgres").is_file()), None)
    if bin_dir is None:
        raise NoServerError(
            f"there is no PostgreSQL in {folder}: neither bin/postgres nor postgres",
            "name the folder that holds bin, lib and share",
        )
    if not (bin_dir / "initdb").is_file():
        raise ServerError(f"the PostgreSQL in {folder} has no initdb beside postgres")
    check_reachable(bin_dir, server_account(), "the server")
    _check_installation(folder, bin_dir)
    try:
        answer = probe([bin_dir / "postgres", "--version"])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"{bin_dir / 'postgres'} does not run: {error}") from error
    match = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)*(?:devel|(?:alpha|beta|rc)\d+)?)", answer.stdout)
    if answer.returncode != 0 or not match:
        problem = (answer.stderr or answer.stdout).strip() or f"exit code {answer.returncode}"
        raise ServerError(f"{bin_dir / 'postgres'} does not run: {problem}")
    version = match[1]
    number = version_number(version)
    if number < OLDEST:
        raise ServerError(f"{folder} is PostgreSQL {version}; the oldest that can be measured is 7.4")
    root = bin_dir.parent if bin_dir != folder else folder
    return Server(f"path:{root}", f"path{version}", version, number, _build(bin_dir), bin_dir)


def _check_installation(folder: Path, bin_dir: Path) -> None:
    """Raises OwnershipError where another user could have put programs or libraries there; of the system's
    own folders, which hold much else, only the programs count."""
    advice = "copy it to a folder of your own, or build one (pgstrata servers build)"
    what = f"the server path:{folder}"
    try:
        if bin_dir.parent in (Path("/"), Path("/usr"), Path("/usr/local")):
            for name in ("postgres", "initdb", "pg_ctl", "pg_config", "pg_controldata"):
                if (bin_dir / name).exists():
                    check_executed(bin_dir / name, what, advice=advice)
            return
        check_executed(folder, what, advice=advice, below=False)
        for part in (bin_dir, bin_dir.parent / "lib", bin_dir.parent / "share"):
            if part.exists():
                check_executed(part, what, advice=advice)
    except OSError as error:
        raise ServerError(f"{error.filename} cannot be looked at: {error.strerror}") from error


def _foreign(dsn: str) -> Server:
    import psycopg

    conninfo = Conninfo.parse(dsn)
    with conninfo.connect() as session:
        number = session.info.server_version
        version_text = session.info.parameter_status("server_version") or ""
        match = re.match(r"\d[\w.]{0,30}", version_text)
        if not match or number < OLDEST:
            raise ServerError(
                f"the server says that it is PostgreSQL {server_said(version_text, 40) or 'of no version'}; "
                "the oldest that can be measured is 7.4"
            )
        with answering(session, conninfo.seconds):
            try:
                # The view came with 9.6: before, `public` might have one of that name.
                use_catalogs_only(session)
                row = session.execute("SELECT setting FROM pg_config WHERE name = 'CONFIGURE'").fetchone()
                build = str(row[0]) if row else ""
            except psycopg.DatabaseError:
                if session.broken:
                    raise
                build = ""  # only superusers may read it
            try:
                asked = ask_features(catalog_of(session))
            except psycopg.DatabaseError:
                if session.broken:
                    raise
                asked = None  # a pooler or a fork without these catalogs: its number decides
            try:
                rows = session.execute("SELECT lower(name) FROM pg_settings", prepare=False).fetchall()
                settings = frozenset(str(name) for (name,) in rows) or None
            except psycopg.DatabaseError:
                if session.broken:
                    raise
                settings = None
    version = match[0]
    spec, label = spec_without_secrets(f"dsn:{dsn}"), f"dsn{version}"
    return Server(spec, label, version, number, build, None, dsn, asked=asked, settings=settings)


def _build(bin_dir: Path) -> str:
    """Returns the configure flags, read out of the server's binary: archives often come without pg_config."""
    try:
        with (
            (bin_dir / "postgres").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m,
        ):
            place = m.find(b"'--prefix=")
            if place < 0:
                place = m.find(b"-Dprefix=")
            if place < 0:
                return ""
            begin, end = m.rfind(b"\0", 0, place) + 1, m.find(b"\0", place)
            return bytes(m[begin:end]).decode(errors="replace").strip()
    except (OSError, ValueError):
        return ""

"""Archives of releases, from the project's own site, checked against the digest published beside them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from pgstrata.errors import ServerError, UsageError
from pgstrata.files import digests, disk
from pgstrata.server.find.sources import Tree
from pgstrata.source.tree import tree_of_archive

SITE = "https://ftp.postgresql.org/pub/source"
"""Where releases are published; `PGSTRATA_RELEASES` names a mirror."""
MOST_BYTES = 256 << 20
SILENT_SECONDS = 60.0
MOST_SECONDS = 3600.0
_ENDINGS = (".tar.bz2", ".tar.gz")
_DIGESTS = ("sha256", "md5")
"""Releases of long ago have only the second beside them."""

_VERSION = re.compile(r"\d{2,}(\.\d+|(alpha|beta|rc)\d+)?|[789]\.\d+(\.\d+|(alpha|beta|rc)\d+)?", re.ASCII)


def check_version(version: str) -> None:
    """Raises UsageError for what is no release's version: 17.11, 9.0.23, 19beta2, or a major one."""
    if not _VERSION.fullmatch(version):
        raise UsageError(
            f"release:{version} is not a version of PostgreSQL", "write release:17.11 or release:9.0.23"
        )


def is_url(where: str) -> bool:
    """Returns whether an archive is named by an address."""
    return re.match(r"https?://", where) is not None


def site() -> str:
    """Returns the address of the folder of all releases."""
    return os.environ.get("PGSTRATA_RELEASES", SITE).rstrip("/")


def tree_of_release(version: str, cache: Path, say: Callable[[str], None]) -> Tree:
    """Returns the tree of a release, `17.11`, or the newest of a major version, `17`.

    Raises ServerError where the site cannot be reached or has no such release, or the digest is not right.
    """
    kept = cache / "archives"
    if re.fullmatch(r"\d{2,}|[789]\.\d+", version):
        version = _newest(version, kept)
    for ending in _ENDINGS:
        if (file := kept / f"postgresql-{version}{ending}").is_file():
            return tree_of_archive(
                file, f"release:{version}", f"release{version}", url=_address(version, ending)
            )
    missing: ServerError | None = None
    for ending in _ENDINGS:
        address = _address(version, ending)
        try:
            kind, digest = _digest_beside(address)
        except _NotThereError as error:
            missing = error
            continue
        file = kept / f"postgresql-{version}{ending}"
        _download(address, file, say, (kind, digest))
        return tree_of_archive(file, f"release:{version}", f"release{version}", url=address)
    raise ServerError(
        f"{site()} has no release {version}", "pgstrata servers list --available shows those of today"
    ) from missing


def tree_of_url(address: str, cache: Path, say: Callable[[str], None]) -> Tree:
    """Returns the tree in an archive at an address; no digest is published for it, so its hash is in every
    run."""
    name = digests.of(address)[:16]
    base = urllib.parse.urlsplit(address).path.rpartition("/")[2]
    if not re.fullmatch(r"[\w.+~-]{1,100}", base):
        base = "archive"
    file = cache / "archives" / f"{name}-{base}"
    if not file.is_file():
        _download(address, file, say, None)
    return tree_of_archive(file, f"tar:{_public(address)}", url=_public(address))


class _NotThereError(ServerError):
    """The site answers and has no such file."""


def _address(version: str, ending: str) -> str:
    return f"{site()}/v{version}/postgresql-{version}{ending}"


def _public(address: str) -> str:
    """Returns an address without the user and password it may hold."""
    parts = urllib.parse.urlsplit(address)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _newest(major: str, kept: Path) -> str:
    pattern = re.compile(rf"{re.escape(major)}\.(\d+)")
    try:
        listing = _read(f"{site()}/", 4 << 20).decode(errors="replace")
        names = re.findall(r'href="(?:\./)?v([\w.]+)/?"', listing)
    except ServerError:
        names = [
            p.name.removeprefix("postgresql-").partition(".tar")[0] for p in kept.glob("postgresql-*.tar.*")
        ]
        if not any(pattern.fullmatch(name) for name in names):
            raise
    releases = [int(m[1]) for name in names if (m := pattern.fullmatch(name))]
    if not releases:
        raise ServerError(
            f"{site()} has no release of {major}", "name one that it has, such as release:9.0.23"
        )
    return f"{major}.{max(releases)}"


def _digest_beside(address: str) -> tuple[str, str]:
    for kind in _DIGESTS:
        try:
            text = _read(f"{address}.{kind}", 1 << 16).decode(errors="replace")
        except _NotThereError:
            continue
        length = 64 if kind == "sha256" else 32
        if match := re.search(rf"\b[0-9a-fA-F]{{{length}}}\b", text):
            return kind, match[0].lower()
        raise ServerError(f"{address}.{kind} holds no digest", "the site is not in order; try later")
    raise _NotThereError(f"there is no {address}")


def _open(address: str) -> contextlib.closing:  # type: ignore[type-arg]
    headers = {"User-Agent": "pgstrata"}
    who = urllib.parse.urlsplit(address)
    if who.username is not None:
        pair = f"{urllib.parse.unquote(who.username)}:{urllib.parse.unquote(who.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    request = urllib.request.Request(_public(address), headers=headers)
    try:
        return contextlib.closing(urllib.request.urlopen(request, timeout=SILENT_SECONDS))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (404, 410):
            raise _NotThereError(f"there is no {_public(address)}") from None
        raise _unreachable(address, f"it answers {error.code} {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise _unreachable(address, str(getattr(error, "reason", error))) from error


def _unreachable(address: str, why: str) -> ServerError:
    host = urllib.parse.urlsplit(address).hostname or address
    return ServerError(
        f"{host} cannot be reached: {why}",
        "check the network; PGSTRATA_RELEASES names a mirror, tar:FILE an archive that is here",
    )


def _read(address: str, most: int) -> bytes:
    with _open(address) as answer:
        try:
            return bytes(answer.read(most))
        except (OSError, HTTPException) as error:
            raise _unreachable(address, str(error)) from error


def _download(address: str, file: Path, say: Callable[[str], None], expected: tuple[str, str] | None) -> None:
    """Fetches a file, whole and checked or not at all."""
    say(f"fetching {_public(address)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.new(expected[0], usedforsecurity=False) if expected else None
    begun, size = time.monotonic(), 0
    try:
        with _open(address) as answer, disk.replacing(file, mode=0o644, durable=False) as target:
            length = answer.headers.get("Content-Length")
            while block := answer.read(1 << 18):
                size += len(block)
                if size > MOST_BYTES:
                    raise ServerError(f"{_public(address)} has more than {MOST_BYTES >> 20} MB")
                if time.monotonic() - begun > MOST_SECONDS:
                    raise _unreachable(address, f"it did not end within {MOST_SECONDS:.0f} s")
                target.write(block)
                if digest:
                    digest.update(block)
            if length is not None and size != int(length):
                raise _unreachable(address, f"it ended after {size} of {length} bytes")
            if digest and expected and digest.hexdigest() != expected[1]:
                raise ServerError(
                    f"{_public(address)} is not what its {expected[0]} beside it says: {digest.hexdigest()}",
                    "try again; if it stays so, the site or the way to it is not to be trusted",
                )
    except HTTPException as error:
        raise _unreachable(address, str(error) or type(error).__name__) from error
    except TimeoutError as error:
        raise _unreachable(address, f"it said nothing for {SILENT_SECONDS:.0f} s") from error
    except OSError as error:
        if error.filename is None and error.errno != 28:
            raise _unreachable(address, str(error)) from error
        raise ServerError(
            f"{file} cannot be written: {error.strerror}", "PGSTRATA_CACHE names another place"
        ) from error


__all__ = ["check_version", "is_url", "site", "tree_of_release", "tree_of_url"]

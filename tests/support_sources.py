"""Source archives of released PostgreSQLs, from the package mirror that this machine's apt already uses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.server.cache import cache_dir

APT = Path("/etc/apt")


def _mirrors() -> Iterator[tuple[str, str]]:
    """Address and keyring of every archive with a component `main` that apt knows."""
    for file in [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*.list"))]:
        for line in file.read_text().splitlines() if file.is_file() else []:
            if match := re.match(r"deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+\S+\s+.*\bmain\b", line):
                key = re.search(r"signed-by=(\S+)", match[1] or "")
                yield match[2], key[1] if key else ""
    for file in sorted((APT / "sources.list.d").glob("*.sources")):
        for block in file.read_text().split("\n\n"):
            field = dict(re.findall(r"^(URIs|Components|Signed-By):\s*(\S+)", block, re.MULTILINE))
            if field.get("Components") == "main" and "URIs" in field:
                yield field["URIs"], field.get("Signed-By", "")


def debian_archive(major: int, suite: str) -> Path:
    """The upstream archive that Debian's `suite` builds PostgreSQL `major` from; fetched once."""
    return debian_source(f"postgresql-{major}", suite)


def debian_source(package: str, suite: str) -> Path:
    """The upstream archive that Debian's `suite` builds a package from; fetched once."""
    kept = cache_dir() / "archives"
    if found := sorted(kept.glob(f"{package}_*.orig.tar.*")):
        return found[-1]
    if not shutil.which("apt-get"):
        pytest.skip("source packages come by apt-get, which this machine does not have")
    mirrors = [(where, key) for where, key in _mirrors() if where.rstrip("/").endswith("/debian")]
    assert mirrors, "apt knows no archive of Debian on this machine"
    where, key = mirrors[0]
    own = kept / f".apt-{os.getpid()}"
    for part in ("lists/partial", "cache/archives/partial"):
        (own / part).mkdir(parents=True)
    try:
        signed = f"[signed-by={key}] " if key else ""
        (own / "sources.list").write_text(f"deb-src {signed}{where} {suite} main\n")
        options = [
            f"Dir::Etc::sourcelist={own}/sources.list",
            "Dir::Etc::sourceparts=-",
            f"Dir::State::lists={own}/lists",
            f"Dir::Cache={own}/cache",
            "APT::Sandbox::User=root",
        ]
        apt = ["apt-get", *(word for option in options for word in ("-o", option)), "-q"]
        for command in (["update"], ["source", "--download-only", package]):
            subprocess.run([*apt, *command], cwd=own, check=True, capture_output=True, timeout=600)
        (archive,) = own.glob("*.orig.tar.*[!c]")
        archive.rename(kept / archive.name)
        return kept / archive.name
    finally:
        shutil.rmtree(own)

"""Source archives of released PostgreSQLs, from the package mirror that this machine's apt already uses."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.server.find.cache import cache_dir

APT = Path("/etc/apt")

# For the days on which a mirror lists a new version that it does not serve yet: one that it served
# before, by the digest that the signed list gave then.
EARLIER = {
    "postgresql-15": (
        "postgresql-15_15.18.orig.tar.bz2",
        "11df0df97fe3ea4ba9a791faaf39cee1d2fe571e78885b5b55d8517d27c323b4",
    ),
    "postgresql-17": (
        "postgresql-17_17.11.orig.tar.bz2",
        "dd27f2b3c59e73ed14aa3324901242bf69a032a6347805f274e6260322d42979",
    ),
}


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


def _earlier(package: str, where: str, folder: Path) -> Path | None:
    """The archive of `EARLIER` from the mirror's pool, if it is still there and is the one known."""
    name, digest = EARLIER.get(package, ("", ""))
    try:
        with urllib.request.urlopen(f"{where}/pool/main/p/{package}/{name}", timeout=300) as answer:
            content = answer.read()
    except (urllib.error.URLError, OSError):
        return None
    if hashlib.sha256(content).hexdigest() != digest:
        return None
    (folder / name).write_bytes(content)
    return folder / name


def debian_archive(major: int, suite: str) -> Path:
    """The upstream archive that Debian's `suite` builds PostgreSQL `major` from; fetched once."""
    return debian_source(f"postgresql-{major}", suite)


def debian_source(package: str, suite: str) -> Path:
    """The upstream archive that Debian's `suite` builds a package from; fetched once."""
    kept = cache_dir() / "archives"
    if archives := sorted(kept.glob(f"{package}_*.orig.tar.*")):
        return archives[-1]
    if not shutil.which("apt-get"):
        pytest.skip("source packages come by apt-get, which this machine does not have")
    mirrors = [(where, key) for where, key in _mirrors() if where.rstrip("/").endswith("/debian")]
    assert mirrors, "apt knows no archive of Debian on this machine"
    where, key = mirrors[0]
    folder = kept / f".apt-{os.getpid()}"
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    try:
        signed = f"[signed-by={key}] " if key else ""
        (folder / "sources.list").write_text(f"deb-src {signed}{where} {suite} main\n")
        options = [
            f"Dir::Etc::sourcelist={folder}/sources.list",
            "Dir::Etc::sourceparts=-",
            f"Dir::State::lists={folder}/lists",
            f"Dir::Cache={folder}/cache",
            "APT::Sandbox::User=root",
        ]
        apt = ["apt-get", *(word for option in options for word in ("-o", option)), "-q"]
        errors = []
        for command in (["update"], ["source", "--download-only", package]):
            done = subprocess.run([*apt, *command], cwd=folder, capture_output=True, text=True, timeout=600)
            errors.append(done.stderr)
        archive = next(folder.glob("*.orig.tar.*[!c]"), None) or _earlier(package, where, folder)
        if archive is None and suite == "experimental":
            pytest.skip(f"what comes before a release is not always there:\n{''.join(errors)}")
        assert archive, f"apt has no source of {package} from {suite}:\n{''.join(errors)}"
        archive.rename(kept / archive.name)
        return kept / archive.name
    finally:
        shutil.rmtree(folder)

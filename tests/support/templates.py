"""What initdb has made of a server, copied for every further cluster of it.

Tests make a thousand clusters, and initdb takes more than a second of CPU for each. It makes the first of
each server, those with options of their own, and those of programs that are ended at any time.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from pgstrata.server.cluster.cluster import Cluster

VARIABLE = "PGSTRATA_TESTS_TEMPLATES"
"""Names the folder of the templates of a run of tests, to its workers and to what they fork."""

CP = shutil.which("cp") or "cp"
"""Found before a test hides it."""

_initdb = Cluster._initdb
_folders: list[Path] = []


def make_folder() -> Path | None:
    """Makes the folder of this run of tests; None where another process of the run has made it."""
    if VARIABLE in os.environ:
        return None
    folder = Path(tempfile.mkdtemp(prefix="pgstrata-templates-"))
    os.environ[VARIABLE] = str(folder)
    return folder


def copy_templates() -> None:
    """Has clusters of this process begin with a copy where there is one."""
    _folders[:] = [Path(os.environ[VARIABLE])]
    Cluster._initdb = _copy_or_initdb  # type: ignore[assignment, method-assign]


def forget(place: Path) -> None:
    """Removes the templates of servers that lie in a folder."""
    for template in _folders[0].glob(f"*{_name(place)}_*"):
        shutil.rmtree(template, ignore_errors=True)


def _name(path: Path) -> str:
    return os.path.realpath(path).replace("_", "-").replace("/", "_")


def _template(bin_dir: Path) -> Path:
    """Returns the place of the template of the programs that lie there now."""
    times = (str((bin_dir / program).stat().st_mtime_ns) for program in ("initdb", "postgres"))
    return _folders[0] / "_".join((_name(bin_dir), *times))


def _copy_or_initdb(cluster: Cluster) -> None:
    bin_dir, data = cluster.server.bin_dir, cluster.data_folder.path
    # One that was ended starts nothing; a test that has become another user reads no template.
    may_copy = not cluster.postmaster._is_ended and os.access(_folders[0], os.W_OK | os.X_OK)
    if cluster._initdb_words or not may_copy or bin_dir is None or not (bin_dir / "initdb").exists():
        _initdb(cluster)
        return
    template = _template(bin_dir)
    if template.is_dir():
        if _copy(template, data):
            return
        for path in data.iterdir():  # a full disk, say: initdb says what is wrong
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    _initdb(cluster)
    if not template.is_dir():
        new = template.with_name(f".{secrets.token_hex(8)}")
        if _copy(data, new):
            with suppress(OSError):  # another process was quicker
                new.rename(template)
        shutil.rmtree(new, ignore_errors=True)


def _copy(source: Path, target: Path) -> bool:
    target.mkdir(exist_ok=True)
    command = [CP, "-a", "--reflink=auto", f"{source}/.", str(target)]
    return subprocess.run(command, capture_output=True).returncode == 0

"""Files with traffic, logs or results are for this user alone, whatever the umask."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pgstrata.server.find.acquire import acquire
from support.needs import needs
from support.program import environment

CAMPAIGN = """
servers = ["pg:17"]
data_dir = "data"
[[workloads]]
name = "pgbench"
options = { scale = 1, seconds = 1, warmup = 0, clients = 1 }
"""

LOG = """\
2026-01-01 00:00:00.000 UTC [11] LOG:  connection authorized: user=u database=d
2026-01-01 00:00:00.100 UTC [11] LOG:  duration: 1.000 ms  statement: SELECT 'secret'
2026-01-01 00:00:01.000 UTC [11] LOG:  disconnection: session time: 0:00:01.000 user=u database=d host=[local]
"""


def run(place: Path, *arguments: str) -> None:
    """The program with the most open umask there is."""
    command = ["sh", "-c", 'umask 0; exec "$0" -m pgstrata "$@"', sys.executable, *arguments]
    done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def too_open(folder: Path) -> list[str]:
    """What is not 0600 or 0700 below a folder, and the folder."""
    open_paths = []
    for path in (folder, *folder.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink() and mode & 0o077:
            open_paths.append(f"{path.relative_to(folder.parent)} {mode:04o}")
    return open_paths


@pytest.fixture
@needs("server")
def results(place: Path) -> Path:
    acquire("pg:17")
    (place / "study.toml").write_text(CAMPAIGN)
    run(place, "run", "study.toml")
    return place / "results"


def test_a_run_and_its_report(place: Path, results: Path) -> None:
    assert list(results.rglob("server.log.gz")) and list(results.rglob("run.json"))
    assert list(place.rglob("index.html"))
    assert too_open(results) == []
    run(place, "report", "--out", "report")
    assert list((place / "report").rglob("*.csv"))
    assert too_open(place / "report") == []


@pytest.mark.program
def test_a_captured_file(place: Path) -> None:
    (place / "server.log").write_text(LOG)
    run(place, "capture", "server.log", "-o", "monday.traffic", "--prefix", "%m [%p] ")
    assert stat.S_IMODE((place / "monday.traffic").stat().st_mode) == 0o600

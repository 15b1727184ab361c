"""`pgstrata bench` and pgbench itself against one server."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgstrata.server.cluster.cluster import Cluster
from support.forks import run_pgstrata
from support.program import environment
from support.schemas import check_printed

Done = subprocess.CompletedProcess[str]
Bench = Callable[..., Done]

TABLES = """
CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
INSERT INTO pgbench_branches SELECT i, 0 FROM generate_series(1, 2) i;
INSERT INTO pgbench_tellers SELECT i, 1, 0 FROM generate_series(1, 20) i;
INSERT INTO pgbench_accounts SELECT i, 1, 0 FROM generate_series(1, 200000) i;
"""


def url(cluster: Cluster) -> str:
    return f"postgresql:///postgres?host={cluster.socket_dir}&port={cluster.port}&user=postgres"


def run_bench(cluster: Cluster | None, folder: Path, *options: object) -> Done:
    """`pgstrata bench` in a folder, to its end. cluster: None where the options say where."""
    command = ["bench", *map(str, options), *([url(cluster)] if cluster else [])]
    done = run_pgstrata(command, folder, environment(), 300)
    check_printed(command, done.stdout)
    return done


def json_of(done: Done) -> dict[str, Any]:
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def pgbench_program() -> str | None:
    """A pgbench on this machine, the newest where Debian's layout is there."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), key=lambda p: float(p.parts[4]))
    return str(installed[-1]) if installed else shutil.which("pgbench")


def pgbench(cluster: Cluster, *options: object, folder: Path | None = None) -> Done:
    """pgbench itself, to its end; the test is skipped where there is none."""
    program = pgbench_program()
    if program is None:
        pytest.skip("pgbench is not installed (apt: postgresql-contrib)")
    where = ["-h", str(cluster.socket_dir), "-p", str(cluster.port), "-U", "postgres"]
    command = [program, *where, *map(str, options), "postgres"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)

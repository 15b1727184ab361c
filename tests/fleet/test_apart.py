"""A machine that does not see the client's results folder: runs come home through the engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.fleet import engine_on_loopback
from support.program import Program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="a view of its own on the file system needs root"),
]


def test_runs_come_through_the_engine(place: Path, pgstrata: Program, pg17: Server) -> None:
    (place / "apart.toml").write_text(
        f'servers = ["{pg17.spec}"]\nmargin = 0.9\n[fleet]\nqualify_seconds = 2\n'
        '[[workloads]]\nname = "sysbench"\n[workloads.options]\nrows = 500\nread_seconds = 1\nwarmup = 0\n'
        'settle_base = 0\ncache_seconds = 0\nsteps = ["point-query"]\n'
    )
    (place / "results").mkdir()
    hide = f'mount -t tmpfs none {place}/results && exec "$@"'
    inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", hide, "sh"]
    with engine_on_loopback(place, 1, inside={"w1": inside}) as (address, _):
        done = pgstrata("run", "apart.toml", "--fleet", address, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    assert run.done and run.machine == "w1"
    assert not list((place / "results" / ".fleet").glob("*.tar"))

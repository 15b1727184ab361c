"""Campaigns small enough for tests: every step of the Insert Benchmark, a second or less each."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgstrata.server.model import Server
from support_program import Running

TINY = """
name = "tiny"
data_dir = "data"
servers = [{servers}]
{more}

[[workloads]]
name = "insert"
[workloads.options]
rows = 3000
rows_i1 = 500
rows_i2 = 100
seconds = {seconds}
steps = [{steps}]
settle_base = 0
"""


@pytest.fixture
def campaign(place: Path) -> Callable[..., Path]:
    """Writes a tiny campaign into `place`."""

    def write(
        *servers: Server, steps: str = '"100:range", "100:point"', seconds: float = 1, more: str = ""
    ) -> Path:
        file = place / "tiny.toml"
        names = ", ".join(f'"{server.spec}"' for server in servers)
        file.write_text(TINY.format(servers=names, steps=steps, seconds=seconds, more=more))
        return file

    return write


@pytest.fixture
def start(place: Path) -> Iterator[Callable[..., Running]]:
    """Starts pgstrata in `place` and does not wait for it."""
    begun: list[Running] = []

    def begin(*arguments: str | Path) -> Running:
        begun.append(Running(place, [str(a) for a in arguments]))
        return begun[-1]

    yield begin
    for running in begun:
        if running.process.poll() is None:
            os.kill(running.process.pid, signal.SIGTERM)
            running.process.wait(240)

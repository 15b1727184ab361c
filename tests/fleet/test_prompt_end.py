"""Ctrl-C of a fleet on this machine, where its workers do not come to an end by themselves."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import psutil
import pytest

from pgstrata.server.find.model import Server
from support.commands import spec
from support.interleaved import text as interleaved
from support.program import Running


@pytest.mark.timeout(900)
def test_ctrl_c_of_a_fleet_that_does_not_answer(place: Path, pg17: Server) -> None:
    """Workers that hang are killed with what they have started; nothing outlives the command."""
    folder = place / "tmp"
    folder.mkdir()
    (place / "fleet.toml").write_text(
        interleaved(
            spec(pg17), ["point-query"], seconds=20, more="margin = 0.9\n[fleet]\nqualify_seconds = 2"
        )
    )
    running = Running(place, ["run", "fleet.toml", "--fleet", "local:2"], TMPDIR=str(folder))
    running.wait_for(lambda: running.backend() is not None)
    others = psutil.Process(running.process.pid).children(recursive=True)
    for process in others:
        with contextlib.suppress(psutil.Error):
            if "multiprocessing.spawn" in " ".join(process.cmdline()):
                process.suspend()
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 130, running.printed
    assert "the next start removes what is left" in running.printed
    _, alive = psutil.wait_procs(others, 60)
    assert [process.cmdline() for process in alive] == []

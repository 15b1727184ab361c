"""A disk that is full on one machine, before it begins or in the middle: another one measures."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.fleet import engine_on_loopback
from support.program import Running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root"),
]

TEXT = """
name = "full"
servers = ["{server}"]
margin = 0.9
[fleet]
qualify_seconds = 2
[[workloads]]
name = "insert"
[workloads.options]
rows = {rows}
rows_i1 = 500
rows_i2 = 100
seconds = 1
steps = ["100:point"]
settle_base = 0
"""


@contextmanager
def disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A disk of this size, in memory."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", folder], check=True)
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def events(client: Running) -> list[dict[str, str]]:
    return [json.loads(line) for line in client.printed.splitlines() if line.startswith("{")]


def test_one_that_is_too_small_takes_no_part(place: Path, pg17: Server) -> None:
    (place / "full.toml").write_text(TEXT.format(server=pg17.spec, rows=3000))
    with (
        disk(place / "small", 30) as small,
        engine_on_loopback(place, 2, worker_environ={"w1": {"TMPDIR": str(small)}}) as (address, _),
    ):
        client = Running(place, ["run", "full.toml", "--fleet", address, "--format", "json"])
        assert client.end() == 0, client.printed
    out = [e for e in events(client) if e["event"] == "machine-out"]
    assert [e["machine"] for e in out] == ["w1"] and "MiB free" in out[0]["reason"]
    (run,) = Results(place / "results").runs()
    assert run.done and run.machine == "w2"


def test_one_that_fills_in_the_middle(place: Path, pg17: Server) -> None:
    (place / "full.toml").write_text(TEXT.format(server=pg17.spec, rows=1_500_000))
    with (
        disk(place / "disk", 3000) as full,
        engine_on_loopback(place, 1, worker_environ={"w1": {"TMPDIR": str(full)}}) as (address, started),
    ):
        client = Running(place, ["run", "full.toml", "--fleet", address, "--format", "json"])
        client.wait_for_text('"comparison-begins"')
        client.wait_for(lambda: any((full / "pgstrata-root").glob("*/data/base/*")))
        with (full / "else").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
        # The only machine does not get it again, and nobody else is there: a failed run says why.
        assert client.end() == 1, client.printed
        assert started[1].poll() is None  # the worker lives on
        (full / "else").unlink()
        assert [path for path in (full / "pgstrata-root").iterdir() if path.is_dir()] == []
    again = [e for e in events(client) if e["event"] == "comparison-again"]
    assert [e["machine"] for e in again] == ["w1"] and "the disk of the data folder is full" in again[0][
        "reason"
    ]
    (run,) = Results(place / "results").runs()
    assert run.record.status == "failed" and run.record.error is not None
    assert "no machine of the fleet could measure it" in run.record.error.message
    assert "the disk of the data folder is full" in run.record.error.message

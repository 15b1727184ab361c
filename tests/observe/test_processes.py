"""Counters of a cluster's own processes, held against what a process is known to have done."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pgstrata.observe.processes import ProcessReading, read_processes, totals

WRITER = """
import os, sys
child = os.fork()
if child == 0:
    sys.stdin.readline()
    with open(sys.argv[1], "wb") as file:
        file.write(b"x" * (4 << 20))
        os.fsync(file.fileno())
    print("written", flush=True)
    sys.stdin.readline()
else:
    print("ready", flush=True)
    os.waitpid(child, 0)
"""


@pytest.mark.program
def test_what_a_child_wrote_is_counted_and_what_others_did_is_not() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(Path(folder) / "file")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdin is not None and writer.stdout is not None
        try:
            assert writer.stdout.readline() == "ready\n"
            before = read_processes(writer.pid, [])
            assert len(before.by_pid) == 2
            (Path(folder) / "other").write_bytes(b"y" * (8 << 20))
            writer.stdin.write("go\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "written\n"
            sums = totals(before, read_processes(writer.pid, []))
        finally:
            writer.stdin.close()
            writer.wait()
            writer.stdout.close()
    written = sums["write_bytes"]
    assert written is not None
    # a page more for the file system's own; none where the folder is in memory
    assert written == 0 or 4 << 20 <= written < 5 << 20
    assert sums["context_switches"] is not None and sums["context_switches"] >= 1
    assert sums["reads"] is None and sums["writes"] is None


def test_processes_that_are_born_or_gone_in_between() -> None:
    before = ProcessReading({1: {"read_bytes": 100, "context_switches": 5}, 2: {"read_bytes": 7}})
    after = ProcessReading({1: {"read_bytes": 150, "context_switches": 9}, 3: {"read_bytes": 20}})
    sums = totals(before, after)
    assert (sums["read_bytes"], sums["context_switches"], sums["write_bytes"]) == (70, 4, None)


@pytest.mark.program
def test_nothing_is_known_of_who_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert read_processes(process.pid, []).by_pid == {}
    assert os.getpid() in read_processes(os.getpid(), []).by_pid

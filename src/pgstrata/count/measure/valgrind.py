"""Counting with Valgrind's callgrind, which executes the server's own binary instruction by instruction.

It needs neither privileges nor counters of the hardware. A backend is forked by the postmaster, so it goes on
being executed so, and closes a part file of its own at each mark (`marks`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pgstrata.count.measure.callgrind import CallGraph, own_processes, read_part
from pgstrata.count.measure.engine import drive
from pgstrata.count.measure.left_out import asking_of, timed
from pgstrata.count.measure.marks import AT_BEGIN, MARK, PARTS, Length
from pgstrata.driver.spec import Spec
from pgstrata.errors import ServerError
from pgstrata.workload.core.language import Step

_PREFIX = "count"


def find_valgrind() -> tuple[str, str] | None:
    """Returns path and version of valgrind; None if it is not there, does not run, or lacks callgrind."""
    path = shutil.which("valgrind")
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--tool=callgrind", "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"valgrind-\S{1,40}", done.stdout.strip())
    return (path, match[0]) if done.returncode == 0 and match else None


class ValgrindEngine:
    """simulate: caches and branches too, of the machine that runs this; it takes twice as long."""

    name: Literal["valgrind", "perf"] = "valgrind"
    event = "instructions executed in user mode (Ir)"
    marks = True
    slow = True

    def __init__(self, valgrind: tuple[str, str], *, simulate: bool = False) -> None:
        self._path, self.tool = valgrind
        self.simulated = simulate

    def under(self, folder: Path) -> list[str]:
        # Addresses decide hash values of pointers: the same ones at each start.
        layout = [setarch, "-R"] if (setarch := shutil.which("setarch")) else []
        simulated = ["--cache-sim=yes", "--branch-sim=yes"] if self.simulated else []
        return [
            *layout,
            self._path,
            "--tool=callgrind",
            "--quiet",
            "--vgdb=no",
            "--trace-children=no",
            f"--callgrind-out-file={folder}/{_PREFIX}.%p",
            f"--log-file={folder}/said.%p",
            f"--dump-before={MARK}",
            "--dump-line=no",
            *simulated,
        ]

    def count(
        self, step: Step, lengths: Mapping[str, Length], spec: Spec, folder: Path
    ) -> dict[str, CallGraph]:
        pids = drive(spec)
        graphs = {}
        for role in lengths:
            parts = [folder / f"{_PREFIX}.{pids[role]}.{number}" for number in range(1, PARTS + 2)]
            there = [part.exists() for part in parts]
            if there != [True] * PARTS + [False]:
                raise ServerError(
                    f"{step.name}: the marks around the operations of {role} were not seen as they should be",
                    f"the server's binary has to export {MARK}, and the workload must not call it",
                )
            marks = [read_part(part) for part in parts[1:AT_BEGIN]]
            # A mark may be interrupted by a timer; the cheaper one was not.
            mark = min(marks, key=lambda graph: graph.instructions - timed(graph))
            graphs[role] = replace(read_part(parts[AT_BEGIN]).without(mark), asking=asking_of(mark))
        for pid in pids.values():
            for path in folder.glob(f"{_PREFIX}.{pid}.*"):
                path.unlink()
        return graphs

    def processes(self, folder: Path) -> dict[str, float]:
        by_name: dict[str, float] = {}
        for path in folder.glob(f"{_PREFIX}.*"):
            if path.suffix.count(".") and path.name.count(".") == 1 and path.stat().st_size:
                for name, instructions in own_processes(read_part(path)).items():
                    by_name[name] = by_name.get(name, 0.0) + instructions
        return by_name

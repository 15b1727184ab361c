"""The right answers: DuckDB's, on the same rows, computed once for each scale factor and kept.

They are computed in processes of their own (`answering`) before anything is measured; each takes over from
the one before when that has grown.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.building import building
from pgstrata.files.disk import read_regular
from pgstrata.files.ownership import own_folder
from pgstrata.server.find.cache import ADVICE
from pgstrata.server.system.process import start
from pgstrata.tpcds import data
from pgstrata.tpcds.compare import RightAnswer

METHOD = 2
"""Of asking: answers of another one are not used any more."""

MOST_BYTES = 64 << 20
"""Of the file of an answer."""


def folder(scale: float) -> Path:
    return data.folder(scale) / f"answers{METHOD}-duckdb{version('duckdb')}"


def place(scale: float, number: int) -> Path:
    """The file of an answer, which is there once it is known."""
    return folder(scale) / f"q{number:02d}.json"


def answer(scale: float, number: int) -> RightAnswer | None:
    """DuckDB's answer; None where it has none."""
    try:
        return json_as(read_regular(place(scale, number), MOST_BYTES), RightAnswer)
    except (OSError, BoundError):
        return None


def make(
    scale: float,
    numbers: Sequence[int],
    say: Callable[[str], None] = lambda text: None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Computes the answers that are not there yet. One that fails is kept as failed."""
    missing = _missing(scale, numbers)
    if not missing:
        return
    say(f"  asking DuckDB for {len(missing)} answers (kept in {folder(scale)})")
    own_folder(folder(scale), "the cache", advice=ADVICE, mode=0o755, roots=True)
    with building(folder(scale) / "duckdb") as work:
        while missing:
            failure = _run([f"{scale:g}", str(work), *map(str, missing)], check)
            left = _missing(scale, numbers)
            if failure is not None or left == missing:
                # Unchecked answers are no reason to measure nothing.
                say(f"  DuckDB did not answer, so {len(left)} answers stay unchecked: {failure}")
                return
            missing = left


def _missing(scale: float, numbers: Sequence[int]) -> list[int]:
    return [n for n in numbers if not place(scale, n).exists()]


def _run(arguments: Sequence[str], check: Callable[[], None]) -> str | None:
    """Runs `answering`; the last line that it said where it failed."""
    command = [sys.executable, "-P", "-m", "pgstrata.tpcds.answering", *arguments]
    said: str
    with start(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            while True:
                try:
                    _, said = process.communicate(timeout=0.5)
                    break
                except subprocess.TimeoutExpired:
                    check()
        except BaseException:
            process.kill()
            raise
    if process.returncode == 0:
        return None
    return (said.strip().splitlines() or [f"exit code {process.returncode}"])[-1][:300]

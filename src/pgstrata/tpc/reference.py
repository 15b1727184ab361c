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
from pgstrata.tpc import data
from pgstrata.tpc.benchmark import Benchmark
from pgstrata.tpc.compare import RightAnswer

METHOD = 2
"""Of asking: answers of another one are not used any more."""

MOST_BYTES = 64 << 20
"""Of the file of an answer."""


def folder(benchmark: Benchmark, scale: float) -> Path:
    return data.folder(benchmark, scale) / f"answers{METHOD}-duckdb{version('duckdb')}"


def place(benchmark: Benchmark, scale: float, number: int, state: str) -> Path:
    """Returns the file of an answer, which exists once the answer is known."""
    return folder(benchmark, scale) / f"q{number:02d}{state and '-' + state}.json"


def answer(benchmark: Benchmark, scale: float, number: int, state: str = "") -> RightAnswer | None:
    """Returns DuckDB's answer; None where it has none. state: what has changed the generator's rows before;
    empty: nothing."""
    try:
        return json_as(read_regular(place(benchmark, scale, number, state), MOST_BYTES), RightAnswer)
    except (OSError, BoundError):
        return None


def make(
    benchmark: Benchmark,
    scale: float,
    numbers: Sequence[int],
    say: Callable[[str], None] = lambda text: None,
    check: Callable[[], None] = lambda: None,
    state: str = "",
) -> None:
    """Computes the answers that are not there yet. One that fails is kept as failed."""
    missing = _missing(benchmark, scale, numbers, state)
    if not missing:
        return
    kept = folder(benchmark, scale)
    say(f"  asking DuckDB for {len(missing)} answers (kept in {kept})")
    own_folder(kept, "the cache", advice=ADVICE, mode=0o755, roots=True)
    with building(kept / "duckdb") as work:
        while missing:
            failure = _run(benchmark, [f"{scale:g}", str(work), state, *map(str, missing)], check)
            left = _missing(benchmark, scale, numbers, state)
            if failure is not None or left == missing:
                # Unchecked answers are no reason to measure nothing.
                say(f"  DuckDB did not answer, so {len(left)} answers stay unchecked: {failure}")
                return
            missing = left


def _missing(benchmark: Benchmark, scale: float, numbers: Sequence[int], state: str) -> list[int]:
    return [n for n in numbers if not place(benchmark, scale, n, state).exists()]


def _run(benchmark: Benchmark, arguments: Sequence[str], check: Callable[[], None]) -> str | None:
    """Runs `answering` of the benchmark's package; the last line that it said where it failed."""
    command = [sys.executable, "-P", "-m", f"pgstrata.{benchmark.name}.answering", *arguments]
    errors: str
    with start(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            while True:
                try:
                    _, errors = process.communicate(timeout=0.5)
                    break
                except subprocess.TimeoutExpired:
                    check()
        except BaseException:
            process.kill()
            raise
    if process.returncode == 0:
        return None
    return (errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1][:300]

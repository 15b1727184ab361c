"""How much servers of the same programs differ from start to start, by where their memory lies.

    .venv/bin/python benchmarks/layouts.py [--step point-query] [--starts 40] [--cpu 0]

A server against itself, started anew before each block of 2 s of each, once with the same layout for both at
each start (`layout` of the comparison: `shared`), and once each with its own that the kernel draws (`own`),
for which the second one runs from a copy of the installation. In each block the ratio of both is known as
well as its pairs tell; what blocks differ by beyond that is what a start is by chance.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console

from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.study import VERDICT_SLICE_SECONDS, Study, Variant, Workload
from pgstrata.judge.pairs import pairs_of
from pgstrata.measure.campaign import execute
from pgstrata.measure.self_comparison import LABELS, options_of
from pgstrata.server.find.acquire import acquire
from pgstrata.stats.estimate import estimate
from pgstrata.store import Results
from pgstrata.store.record import StepRecord
from pgstrata.turns.windows import BLOCK_SECONDS

MARGIN = 0.005
"""With which servers start anew between blocks."""


def main() -> int:
    parser = argparse.ArgumentParser(description="A server against itself, started again and again.")
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--step", default="point-query")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--starts", type=int, default=40, help="of each server, an even number")
    parser.add_argument(
        "--cpu", type=int, help="the only one of servers and driver; default: as campaigns do"
    )
    given = parser.parse_args()
    if given.cpu is not None:
        os.sched_setaffinity(0, {given.cpu})
    print("| step | layout | starts | ratio | error of its pairs | blocks differ by | a start by chance |")
    print("|---|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="pgstrata-layouts-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        bin_dir = acquire(given.server).bin_dir
        if bin_dir is None:
            parser.error("a server that pgstrata can start, please")
        copy = shutil.copytree(bin_dir.parent, root / "copy", symlinks=True)
        for layout, other in (("shared", given.server), ("own", f"path:{copy}")):
            steps = measured(root / layout, given, (given.server, other), layout)
            print(row(given.step, layout, *steps), flush=True)
    return 0


def measured(
    place: Path, given: argparse.Namespace, servers: tuple[str, str], layout: str
) -> tuple[StepRecord, StepRecord]:
    """Both sides of the step. Raises SystemExit where memory was not laid out as was meant."""
    options = {**options_of(given.step, given.rows), "read_seconds": BLOCK_SECONDS * given.starts}
    study = Study(
        name=f"layouts {layout}",
        order="interleaved",
        slice_seconds=VERDICT_SLICE_SECONDS,
        margin=MARGIN,
        variants=[Variant(server=s, label=label) for s, label in zip(servers, LABELS, strict=True)],
        workloads=[Workload(name="sysbench", options=options)],
    )
    execute(check_study(study), Results(place), Console(stderr=True))
    runs = {run.variant: run for run in Results(place).runs()}
    for run in runs.values():
        comparison = run.record.comparison
        if comparison is None or comparison.layout != layout:
            raise SystemExit(f"the memory of these servers was not laid out as {layout}")
    base_step, two = (next(step for step in runs[label].steps if step.name == given.step) for label in LABELS)
    return base_step, two


def row(step: str, layout: str, base: StepRecord, other: StepRecord) -> str:
    """Of the table. Blocks of either order of starts have a mean of their own."""
    pairs = pairs_of(base, other)
    ends = np.cumsum(pairs.blocks)
    blocks = [
        estimate(pairs.base[end - count : end], pairs.other[end - count : end])
        for end, count in zip(ends, pairs.blocks, strict=True)
    ]
    ratios = np.array([block.log for block in blocks])
    differ = math.sqrt((ratios[0::2].var(ddof=1) + ratios[1::2].var(ddof=1)) / 2)
    error = math.sqrt(np.mean([block.standard_error**2 for block in blocks]))
    chance = math.sqrt(max(0.0, differ**2 - error**2))
    shown = " | ".join(f"{100 * value:.2f} %" for value in (error, differ, chance))
    return f"| {step} | {layout} | {len(blocks)} | {math.exp(ratios.mean()):.4f} | {shown} |"


if __name__ == "__main__":
    sys.exit(main())

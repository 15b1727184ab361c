"""Runs of one campaign from several machines, of which each has a speed of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pgstrata.store import Results, Run, RunKey
from support.runs import make_run

STEP = "qr100"
FAST = {"db1": 1.0, "db2": 2.0, "db3": 5.0}
"""How fast machines are, which nobody asked for."""


def study(
    root: Path, slower: Mapping[str, float], *, repeats: int = 2, only: Mapping[str, str] | None = None
) -> list[Run]:
    """Two variants on each machine, the second one slower there by a share. only: a variant that a machine
    lacks."""
    repeat = 0
    for machine, share in slower.items():
        for _ in range(repeats):
            repeat += 1
            for variant, speed in (("base", 1.0), ("other", 1.0 - share)):
                if (only or {}).get(machine) == variant:
                    continue
                make_run(
                    root,
                    RunKey("study", variant, "insert", repeat),
                    speed=speed * FAST[machine],
                    seconds=2,
                    host={"hostname": machine},
                    seed=100 * repeat + len(variant),
                )
    return Results(root).runs()

"""Small interleaved campaigns of two variants of one server, and what they stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pgstrata.server.model import Server
from pgstrata.store import Results
from support_records import on_disk

CAMPAIGN = """
name = "turns"
data_dir = "data"
order = "interleaved"
slice_seconds = {slice}
rounds = {rounds}
{more}

[[variants]]
server = "{server}"
label = "a"

[[variants]]
server = "{server}"
label = "b"
config = ["default", "a17"]

[[workloads]]
name = "sysbench"
[workloads.options]
rows = {rows}
read_seconds = {seconds}
write_seconds = {writes}
warmup = 0
settle_base = 0
steps = {steps}
{options}
"""


def write(
    place: Path,
    server: Server,
    steps: list[str],
    *,
    slice_: float = 0.5,
    seconds: float = 1.5,
    writes: float = 0.5,
    rows: int = 500,
    rounds: int = 2,
    more: str = "",
    options: str = "cache_seconds = 0",
) -> Path:
    """more: lines for the campaign; options: lines for the options of sysbench."""
    file = place / "turns.toml"
    file.write_text(
        CAMPAIGN.format(
            server=server.spec,
            steps=json.dumps(steps),
            slice=slice_,
            seconds=seconds,
            writes=writes,
            rows=rows,
            rounds=rounds,
            more=more,
            options=options,
        )
    )
    return file


def by_variant(place: Path) -> dict[str, dict[str, Any]]:
    return {run.variant: on_disk(run) for run in Results(place / "results").runs()}

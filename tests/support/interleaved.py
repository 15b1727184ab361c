"""Small interleaved campaigns of two variants of one server, and what they stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.records import on_disk

NAME = "interleaved"


def text(
    server: str,
    steps: list[str],
    *,
    slice_: float = 0.5,
    seconds: float = 1.5,
    writes: float = 0.5,
    rows: int = 500,
    rounds: int = 2,
    more: str = "",
    options: str = "cache_seconds = 0",
) -> str:
    """A campaign without its name. more: lines for it; options: lines for the options of sysbench.

    No slice is left out because it waited for a CPU: tests run beside other tests."""
    return f"""
data_dir = "data"
order = "interleaved"
placement = "free"
slice_seconds = {slice_}
rounds = {rounds}
other_load = 1
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
steps = {json.dumps(steps)}
{options}
"""


def write(place: Path, server: Server, steps: list[str], **values: Any) -> Path:
    """The file of such a campaign, called NAME; values as of `text`."""
    file = place / f"{NAME}.toml"
    file.write_text(f'name = "{NAME}"\n{text(server.spec, steps, **values)}')
    return file


def by_variant(place: Path) -> dict[str, dict[str, Any]]:
    return {run.variant: on_disk(run) for run in Results(place / "results").runs()}

"""Interleaved campaigns on real servers: pairs, snapshots, a variant that dies, what cannot take turns."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from pgstrata.server.acquire import Server
from pgstrata.store import Results
from support_program import Program, Running

CAMPAIGN = """
name = "turns"
data_dir = "data"
order = "interleaved"
slice_seconds = {slice}
rounds = 2
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
rows = 500
read_seconds = {seconds}
write_seconds = 0.5
warmup = 0
cache_seconds = 0
settle_base = 0
steps = {steps}
"""


def write(
    place: Path,
    server: Server,
    steps: list[str],
    *,
    slice_: float = 0.5,
    seconds: float = 1.5,
    more: str = "",
) -> Path:
    file = place / "turns.toml"
    file.write_text(
        CAMPAIGN.format(server=server.spec, steps=json.dumps(steps), slice=slice_, seconds=seconds, more=more)
    )
    return file


def by_variant(place: Path) -> dict[str, dict[str, Any]]:
    return {run.variant: run.data for run in Results(place / "results").runs()}


def test_slices_and_rounds(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["point-query", "update-index"])
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "b: data copied from a" in done.stdout
    runs = by_variant(place)
    assert runs["a"]["comparison"]["id"] == runs["b"]["comparison"]["id"]
    steps = {v: {s["name"]: s for s in run["steps"]} for v, run in runs.items()}
    assert "load" in steps["a"]
    assert "load" not in steps["b"]
    for name, turns in (("point-query", 3), ("update-index", 2)):
        a, b = (steps[v][name] for v in "ab")
        for step in (a, b):
            assert [s["pair"] for s in step["slices"]] == list(range(1, turns + 1))
            assert step["seconds"] == pytest.approx(sum(s["seconds"] for s in step["slices"]))
            assert step["operations"] == pytest.approx(
                sum(s["rate"] * s["seconds"] for s in step["slices"]), rel=1e-6
            )
            assert step["sizes"]["database_bytes"] > 0
            assert step["server_cpu_seconds"] > 0
        first = [(s["started"], v) for v, step in (("a", a), ("b", b)) for s in step["slices"]]
        assert "".join(v for _, v in sorted(first)) == ("abbaab", "abba")[turns == 2]
    for run in Results(place / "results").runs():
        series = run.table("series")
        for step in run.steps:
            rows = series.filter((series["step"] == step["name"]) & (series["role"] == step["role"]))
            assert rows["operations"].sum() == step["operations"]
            assert rows["second"].to_list() == list(range(len(rows)))
    assert list((place / "data").iterdir()) == []
    # Every round began with the same data, so the rows that both rounds updated are dead only once.
    compared = pgstrata("compare", "a", "b", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    found = {s["step"]: s for s in json.loads(compared.stdout)[0]["steps"]}
    assert {name: s["evidence"] for name, s in found.items()} == {
        "point-query": "slices",
        "update-index": "slices",
    }
    assert found["point-query"]["n"] == 3

    # Nothing is missing; where one run is, both are made again.
    assert "2 of 2 runs are there already" in pgstrata("run", file, "--no-report").stdout


def test_until_the_verdict_is_known(place: Path, pgstrata: Program, pg17: Server) -> None:
    # A margin of 95 % makes any two runs of one server the same as soon as there is an interval.
    more = 'until = "verdict"\nmax_seconds = 60\nmargin = 0.95'
    done = pgstrata("run", write(place, pg17, ["point-query"], slice_=0.2, more=more), "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    turns = {v: len(run["steps"][-1]["slices"]) for v, run in by_variant(place).items()}
    assert 10 <= turns["a"] < 100, "looks begin at the tenth pair"
    assert turns["a"] == turns["b"]


def test_a_variant_that_dies_leaves_what_was_measured(place: Path, pg17: Server) -> None:
    file = write(place, pg17, ["point-query"], seconds=60)
    running = Running(place, ["run", str(file), "--no-report"])

    running.wait_for_text("data copied from a")
    seen: set[int] = set()

    def later() -> psutil.Process | None:
        """A backend once several slices have been taken, each with backends of its own."""
        if backend := running.backend():
            seen.add(backend.pid)
        return backend if len(seen) > 6 else None

    backend = running.wait_for(later)
    os.kill(backend.ppid(), signal.SIGKILL)
    assert running.end() == 1, running.said
    assert "leaves the comparison: the server died" in running.said
    runs = by_variant(place)
    assert sorted(run["status"] for run in runs.values()) == ["done", "failed"]
    failed = next(run for run in runs.values() if run["status"] == "failed")
    assert "the server died" in failed["error"]["message"]
    assert [s["name"] for s in failed["steps"]][-1] == "point-query"
    assert list((place / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("margin = 2", "margin"),
        ('until = "whenever"', "until"),
        ("slice_seconds = 0", "slice_seconds"),
    ],
)
def test_nonsense_is_refused(place: Path, pgstrata: Program, pg17: Server, more: str, said: str) -> None:
    file = write(place, pg17, ["point-query"], more=more)
    text = file.read_text()
    if said == "slice_seconds":
        text = text.replace("slice_seconds = 0.5\n", "", 1)
    file.write_text(text)
    done = pgstrata("run", file, "--dry-run")
    assert done.returncode == 2
    assert said in done.stderr


def test_one_variant_has_nobody_to_take_turns_with(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = place / "one.toml"
    file.write_text(f'order = "interleaved"\nservers = ["{pg17.spec}"]\n[[workloads]]\nname = "pgbench"\n')
    done = pgstrata("run", file, "--dry-run")
    assert done.returncode == 2
    assert "at least two variants" in done.stderr

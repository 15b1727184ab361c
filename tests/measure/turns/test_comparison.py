"""Interleaved campaigns on real servers: pairs, snapshots, a variant that dies, what cannot take turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.runs import Plan, make_plan
from pgstrata.numbers import quantity
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.turns.model import order_of_pair
from support.interleaved import by_variant, write
from support.program import Program
from support.records import on_disk


def test_slices_and_rounds(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["point-query", "update-index"], more='turns = "rounds"')
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "b: data copied from a" in done.stderr
    assert done.stderr.count("  load ") == 1
    runs = by_variant(place)
    assert runs["a"]["comparison"]["id"] == runs["b"]["comparison"]["id"]
    steps = {v: {s["name"]: s for s in run["steps"]} for v, run in runs.items()}
    assert "load" in steps["a"]
    assert "load" not in steps["b"]
    for name, turns in (("point-query", 4), ("update-index", 2)):
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
        order = "".join(v for _, v in sorted(first))
        assert order in {4: ("abbabaab", "baababba"), 2: ("abba", "baab")}[turns]  # drawn
    for run in Results(place / "results").runs():
        series = run.table("series")
        for step in on_disk(run)["steps"]:
            rows = series.where(step=step["name"], role=step["role"])
            assert sum(rows["operations"]) == step["operations"]
            assert rows["second"] == list(range(len(rows)))
    assert list((place / "data").iterdir()) == []
    # Every round began with the same data, so the rows that both rounds updated are dead only once.
    compared = pgstrata("compare", "a", "b", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    by_step = {s["step"]: s for s in json.loads(compared.stdout)[0]["steps"]}
    assert {name: s["evidence"] for name, s in by_step.items()} == {
        "point-query": "slices",
        "update-index": "slices",
    }
    assert by_step["point-query"]["n"] == 4
    # What the progress has told at the end of a step is what the comparison says.
    for step in by_step.values():
        for rate in (step["base_rate"], step["other_rate"]):
            assert quantity(rate, step["unit"]) in done.stderr, step["step"]
    # Only one of them loaded, with an engine of its own; what both did they did alike.
    assert json.loads(compared.stdout)[0]["differences"] == []

    # Nothing is missing; where one run is, both are made again.
    assert "2 of 2 runs are there already" in pgstrata("run", file, "--no-report").stderr


def test_short_rounds_end_by_the_clock(place: Path, pgstrata: Program, pg17: Server) -> None:
    """Here 30 rounds would fill `max_seconds`, and each takes as long as a server's start."""
    more = 'turns = "rounds"\nuntil = "verdict"\nmax_seconds = 0.6\nmargin = 0.0001'
    file = write(place, pg17, ["update-index"], more=more, writes=0.01)
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    for run in by_variant(place).values():
        (step,) = (step for step in run["steps"] if step["name"] == "update-index")
        assert 10 <= len(step["slices"]) < 20


@pytest.mark.parametrize("variants", range(1, 13))
def test_the_order_of_turns_is_balanced(variants: int) -> None:
    """Over as many blocks as there are variants each begins one, and all have come at the same mean time."""
    pairs = 2 * variants
    orders = [order_of_pair(pair, variants) for pair in range(1, pairs + 1)]
    assert all(sorted(order) == list(range(variants)) for order in orders)
    assert sorted(order[0] for order in orders[::2]) == list(range(variants))
    turns = [variant for order in orders for variant in order]
    for block in range(0, len(turns), 2 * variants):
        when = [
            [i for i, v in enumerate(turns[block : block + 2 * variants]) if v == n] for n in range(variants)
        ]
        assert {sum(times) for times in when} == {2 * variants - 1}


def test_until_the_verdict_is_known(place: Path, pgstrata: Program, pg17: Server) -> None:
    # A margin of 95 % makes any two runs of one server the same as soon as there is an interval.
    more = 'until = "verdict"\nmax_seconds = 60\nmargin = 0.95'
    done = pgstrata("run", write(place, pg17, ["point-query"], slice_=0.2, more=more), "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    # A slice whose window fell into a stall of the machine is left out, but not the pair's number.
    pairs = {v: [s["pair"] for s in run["steps"][-1]["slices"]] for v, run in by_variant(place).items()}
    assert len(pairs["a"]) > 5 and len(pairs["b"]) > 5
    last = max(*pairs["a"], *pairs["b"])
    assert last >= 10, "looks begin at the tenth pair"
    assert last % 2 == 0
    took = 2 * 0.2 * last
    assert took < 60, "it did not go on to its limit"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("margin = 2", "margin"),
        ('until = "whenever"', "until"),
        ("slice_seconds = 0", "slice_seconds"),
    ],
)
def test_nonsense_is_refused(place: Path, pgstrata: Program, pg17: Server, more: str, message: str) -> None:
    file = write(place, pg17, ["point-query"], more=more)
    text = file.read_text()
    if message == "slice_seconds":
        text = text.replace("slice_seconds = 0.5\n", "", 1)
    file.write_text(text)
    done = pgstrata("run", file, "--dry-run")
    assert done.returncode == 2
    assert message in done.stderr


def test_one_variant_has_nobody_to_take_turns_with(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = place / "one.toml"
    file.write_text(f'order = "interleaved"\nservers = ["{pg17.spec}"]\n[[workloads]]\nname = "pgbench"\n')
    done = pgstrata("run", file, "--dry-run")
    assert done.returncode == 2
    assert "needs two variants, and there is one" in done.stderr


def test_every_variant_warms_its_own_caches(place: Path, pgstrata: Program, pg17: Server) -> None:
    """The scan by count takes turns whole: it ends after its operations, so it has no warm-up."""
    file = write(place, pg17, ["point-query", "scan"], options="cache_seconds = 0.2\nscans = 2")
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    for run in by_variant(place).values():
        steps = {s["name"]: s for s in run["steps"]}
        assert steps["point-query.warm"]["operations"] > 0
        assert steps["scan.warm"]["operations"] == 1
        assert [s["pair"] for s in steps["scan"]["slices"]] == [1, 2]
        assert steps["scan"]["operations"] == 2 * 2


def test_a_running_server_cannot_take_turns(place: Path, pgstrata: Program, pg17: Server) -> None:
    with Cluster(pg17, resolve([], pg17.version_num, 1 << 30), place / "c") as cluster:
        cluster.create()
        cluster.start()
        dsn = f"dsn:host={cluster.socket_dir} port={cluster.port} user={cluster.user}"
        file = place / "c.toml"
        file.write_text(
            f'order = "interleaved"\nservers = ["{pg17.spec}", "{dsn}"]\n[[workloads]]\nname = "sysbench"\n'
        )
        for more in ([], ["--dry-run"]):
            done = pgstrata("run", file, *more)
            assert done.returncode == 2
            assert "is a running server (dsn:)" in done.stderr
            assert "use another order" in done.stderr
            assert "Traceback" not in done.stderr


def test_the_plan_counts_turns(place: Path, pgstrata: Program, pg17: Server) -> None:
    """Total seconds and the lines of the plan, for two variants."""

    def seconds(**more: Any) -> float:
        plan = plan_of(write(place, pg17, ["point-query", "update-index"], **more))
        return plan.seconds

    def plan_of(file: Path) -> Plan:
        return make_plan(read_campaign(file), Results(place / "results"), lambda spec, how: pg17)

    assert seconds(rounds=12) > seconds() + 2 * 10 * 0.5
    watched = seconds(more='until = "verdict"\nmax_seconds = 1000')
    assert watched > 2 * 1000
    assert seconds(seconds=101.5) > seconds(seconds=1.5) + 2 * 100
    first, other = plan_of(write(place, pg17, ["update-index"])).runs
    alone = plan_of(write(place, pg17, ["point-query"]))
    assert first.disk_bytes == 2 * alone.runs[0].disk_bytes, "data and snapshot"
    assert alone.disk_bytes == 2 * alone.runs[0].disk_bytes, "both clusters are there at the same time"
    assert other.key.variant == "b"

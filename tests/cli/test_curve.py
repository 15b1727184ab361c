"""A range of clients measured on real servers: each doubling, points between them, and one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.page import PageReader
from support.program import Program
from support.slots import CURVE, write_slots

CAMPAIGN = """
name = "curve"
data_dir = "data"
order = "interleaved"
placement = "free"
slice_seconds = 0.1
other_load = 1

[[variants]]
server = "{server}"
label = "a"

[[variants]]
server = "{server}"
label = "b"

[[workloads]]
name = "pgbench"
[workloads.options]
scale = 1
builtin = "select-only"
modes = "prepared"
clients = "{clients}"
seconds = 1
warmup = 0
"""


@pytest.mark.timeout(300)
def test_a_range_of_clients_becomes_a_curve(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = place / "curve.toml"
    file.write_text(CAMPAIGN.format(server=pg17.spec, clients="1..4"))
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stderr
    assert "\nselect-only-prepared, b against a: " in done.stdout
    page = (place / "results" / "curve.report" / "index.html").read_text()
    assert 'id="curves-pgbench"' in page
    compared = pgstrata("compare", "a", "b").stdout
    assert all(f"select-only-prepared-c{n} " in compared for n in (1, 2, 4))
    assert "\npgbench/select-only-prepared: " in compared


@pytest.mark.timeout(400)
def test_a_variant_that_is_slower_with_many_clients_only(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    file = write_slots(place, pg17.spec, CURVE)
    done = pgstrata("run", file, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "  sleep: next with 3 clients, as the curve is not known there yet" in done.stderr
    (comparison,) = json.loads(done.stdout)["comparisons"]
    (curve,) = comparison["curves"]
    assert curve["sentence"] == "the same up to 2 clients, slower beyond, Lock advisory"
    words = {point["clients"]: point["word"] for point in curve["points"]}
    assert words == {1: "same", 2: "same", 3: "slower", 4: "slower"}
    assert curve["base_knee"]["high"] == 4, "the rate of 64 slots grows up to the end"
    knee = curve["other_knee"]
    assert knee["low"] <= 2 <= knee["high"] and knee["clients"] < 3
    stdout = pgstrata("compare", "many", "two").stdout
    page = PageReader(place / "results" / "slots.report" / "index.html")
    assert f"\ncustom/sleep: {curve['sentence']}\n" in stdout
    (compared,) = json.loads(pgstrata("compare", "many", "two", "--format", "json").stdout)
    assert compared["curves"] == [curve]
    # Where the time went, of proven differences: what waits for a slot waits for a lock, and sleeps as long.
    parts = {step["step"]: step["operation_parts"] for step in compared["steps"] if "operation_parts" in step}
    assert set(parts) == {"sleep-c3", "sleep-c4"}
    for name, of_step in parts.items():
        assert of_step["reason"] == "" and of_step["not_apart"] == []
        seconds = {part["name"]: part["difference_seconds"] for part in of_step["parts"]}
        assert seconds["locks"] == max(seconds.values()) > 0.5 * of_step["difference_seconds"], of_step
        assert sum(seconds.values()) == pytest.approx(of_step["sum_seconds"])
        rest = of_step["difference_seconds"] - of_step["sum_seconds"]
        assert of_step["unexplained_seconds"] in (None, pytest.approx(rest))
        (line,) = (
            line for line in stdout.splitlines() if line.startswith(f"{name}: where the time went: + ")
        )
        assert "waiting for locks: advisory + " in line
        assert f"{name}: {line.partition('went: ')[2]}" in page.all_text
    assert page.table("Parts of the time of one operation").rows


def test_a_range_that_is_none_ends_in_one_sentence(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = place / "curve.toml"
    file.write_text(CAMPAIGN.format(server=pg17.spec, clients="1..many"))
    done = pgstrata("run", file)
    assert done.returncode == 2
    assert "'1..many' is no range of clients: write 1..N, with N from 2 to 10,000" in done.stderr

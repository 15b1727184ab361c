"""A campaign that asks why: profiles, wait events and plans of real steps, in the run and in its report."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pgstrata.observe.profile import unavailable
from pgstrata.server.find.model import Server
from support.interleaved import write
from support.program import Program

CAMPAIGN = """
name = "why"
data_dir = "data"
servers = ["{server}"]
waits = 20
profile = {{ seconds = 1, frequency = 499 }}
[[workloads]]
name = "pgbench"
[workloads.options]
scale = 1
builtin = "select-only"
modes = "prepared"
clients = 2
seconds = 2
warmup = 0.2
"""


@pytest.mark.skipif(bool(unavailable()), reason="perf is not installed")
def test_profiles_waits_and_plans(pgstrata: Program, place: Path, pg17: Server) -> None:
    (place / "why.toml").write_text(CAMPAIGN.format(server=pg17.spec))
    done = pgstrata("run", "why.toml")
    assert done.returncode == 0, done.stderr
    (run,) = place.glob("results/why/*/*/*/run.json")
    load, *_, step = json.loads(run.read_text())["steps"]
    assert "profile" not in load
    assert set(step["waits"]) >= {"query", "server"}
    assert all(sum(shares.values()) == pytest.approx(1) for shares in step["waits"].values())
    assert step["waits_cost"]["polls"] > 0
    (plan,) = step["plans"]
    assert plan["name"].startswith("SELECT abalance") and plan["statement"].endswith("aid = $1")
    assert plan["kind"] == "generic" and plan["plan"][0]["Plan"]["Node Type"].startswith("Index")
    profile = step["profile"]["query"]
    if profile["file"] is None:
        assert profile["note"] and any(profile["note"] in note for note in step["notes"])
        pytest.skip(profile["note"])
    folded = gzip.decompress((run.parent / profile["file"]).read_bytes()).decode()
    assert "PostgresMain" in folded and profile["samples"] > 0
    assert not list((place / "data").glob("*perf*"))


TURNS = """
waits = 50
profile = { seconds = 0.8, frequency = 499 }
"""


@pytest.mark.skipif(bool(unavailable()), reason="perf is not installed")
def test_variants_that_take_turns(pgstrata: Program, place: Path, pg17: Server) -> None:
    steps_of = ["point-query", "update-index"]
    done = pgstrata("run", write(place, pg17, steps_of, seconds=2, writes=1, rows=2000, more=TURNS))
    assert done.returncode == 0, done.stdout + done.stderr
    for run in place.glob("results/interleaved/*/*/*/run.json"):
        steps = {step["name"]: step for step in json.loads(run.read_text())["steps"]}
        for name in steps_of:
            step = steps[name]
            assert [p["kind"] for p in step["plans"]] == ["generic"], name
            assert sum(step["waits"]["query"].values()) == pytest.approx(1)
            # a few of the polls a step of its own would have had are lost at the ends of slices
            assert 0.5 * 50 * step["seconds"] < step["waits_cost"]["polls"] <= 50 * step["seconds"] + 4
            profile = step["profile"]["query"]
            # 0.8 s of all slices or rounds; by the clock, beside turns of the other variant, up to twice that
            assert 0.6 <= profile["seconds"] <= (1.0 if name == "point-query" else 2.0), name
            assert [part["number"] for part in profile["parts"]] == sorted(
                {part["number"] for part in profile["parts"]}
            )
            if profile["file"] is None:
                assert profile["note"] and any(profile["note"] in note for note in step["notes"])
                continue
            folded = gzip.decompress((run.parent / profile["file"]).read_bytes()).decode()
            assert "PostgresMain" in folded and profile["samples"] > 0
            if profile["event"] == "cpu-clock":  # a weight is nanoseconds of one sample
                weights = sum(int(line.rpartition(" ")[2]) for line in folded.splitlines())
                assert weights * 499 / 1e9 == pytest.approx(profile["samples"], rel=0.05)
    page = (place / "results" / "interleaved.report" / "index.html").read_text()
    assert "Wait event" in page and "flames/" in page


def test_without_perf_the_run_goes_on(pgstrata: Program, place: Path, pg17: Server) -> None:
    (place / "why.toml").write_text(CAMPAIGN.format(server=pg17.spec))
    done = pgstrata("run", "why.toml", "--no-report", PATH=str(place))
    assert done.returncode == 0, done.stderr
    (run,) = place.glob("results/why/*/*/*/run.json")
    step = json.loads(run.read_text())["steps"][-1]
    assert step["profile"]["query"]["file"] is None
    assert any("perf is not installed" in note for note in step["notes"])
    assert step["rate"] > 0


def test_wrong_profile_is_said(pgstrata: Program, place: Path, pg17: Server) -> None:
    text = CAMPAIGN.format(server=pg17.spec).replace("frequency", "frequenzy")
    (place / "why.toml").write_text(text)
    done = pgstrata("run", "why.toml")
    assert done.returncode == 2
    assert "profile.frequenzy" in done.stderr and "frequency" in done.stderr

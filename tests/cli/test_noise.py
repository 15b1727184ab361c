"""`pgstrata noise`: two clusters of one server, and what would be visible."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.program import Program


def test_the_base_against_itself(place: Path, pgstrata: Program, pg17: Server) -> None:
    arguments = ["noise", "--server", pg17.spec, "--rows", "500", "--data-dir", "data"]
    arguments += ["--other-load", "100%"]
    done = pgstrata(*arguments, "--minutes", "0.08", "--slice-seconds", "0.25", "--format", "json")
    assert done.returncode == 0, done.stderr
    noise = json.loads(done.stdout)
    assert noise["pairs"] == 10
    assert [v["minutes"] for v in noise["visible"]] == [1, 5, 20]
    assert [v["pairs"] for v in noise["visible"]] == [120, 600, 2400]
    for visible in noise["visible"]:
        assert 0 < visible["fixed"] < visible["watched"] < 1
    assert list((place / "data").iterdir()) == []

    assert noise["run_spread"] is None
    assert "at least 8" in pgstrata(*arguments, "--minutes", "0.01").stderr
    refused = pgstrata(*arguments, "--minutes", "0.08", "--slice-seconds", "0.25", "--step", "point-qery")
    assert refused.returncode == 2
    short = ["--minutes", "0.08", "--slice-seconds", "0.25"]
    failed = pgstrata(*arguments, *short, "--set-guc", "shared_buffers=7000GB")
    assert (failed.returncode, "failed: " in failed.stderr) == (1, True), failed.stderr


@pytest.mark.slow
def test_runs_of_noise_let_one_run_each_have_an_interval(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    common = ["--server", pg17.spec, "--data-dir", "data"]
    short = ["--other-load", "100%", "--minutes", "0.08", "--slice-seconds", "0.25", "--rows", "500"]
    done = pgstrata("noise", *common, *short, "--runs", "3", "--run-seconds", "1")
    assert done.returncode == 0, done.stderr
    assert "3 runs of 1 s differ by " in done.stdout
    options = [
        "rows=500",
        "steps=point-query",
        "read_seconds=1",
        "warmup=1",
        "cache_seconds=0",
        "settle_base=0",
    ]
    sets = [word for option in options for word in ("--set", option)]
    configs = ["--config", "default", "--config", "safe-defaults", "--name", "two"]
    run = pgstrata("run", *common, *configs, "--workload", "sysbench", *sets, "--no-report")
    assert run.returncode == 0, run.stdout + run.stderr
    labels = sorted({p.name for p in (place / "results" / "two").iterdir() if p.is_dir()})
    comparisons = json.loads(pgstrata("compare", *labels, "--campaign", "two", "--format", "json").stdout)
    assert [s["evidence"] for s in comparisons[0]["steps"]] == ["runs"]
    assert comparisons[0]["steps"][0]["run_spread"] > 0
    assert comparisons[0]["steps"][0]["high"] is not None

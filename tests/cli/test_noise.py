"""`pgstrata noise`: two clusters of one server, and what would be visible."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.observe.placement import placements_here
from pgstrata.server.model import Server
from pgstrata.store import Results
from support_program import Program


def test_the_base_against_itself(place: Path, pgstrata: Program, pg17: Server) -> None:
    arguments = ["noise", "--server", pg17.spec, "--rows", "500", "--data-dir", "data"]
    done = pgstrata(*arguments, "--minutes", "0.08", "--slice-seconds", "0.25", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pairs"] == 10
    assert [v["minutes"] for v in found["visible"]] == [1, 5, 20]
    assert [v["pairs"] for v in found["visible"]] == [120, 600, 2400]
    for visible in found["visible"]:
        assert 0 < visible["fixed"] < visible["watched"] < 1
    assert list((place / "data").iterdir()) == []

    assert found["run_spread"] is None
    assert "at least 8" in pgstrata(*arguments, "--minutes", "0.01").stderr
    refused = pgstrata(*arguments, "--minutes", "0.08", "--slice-seconds", "0.25", "--step", "point-qery")
    assert refused.returncode == 2


@pytest.mark.slow
def test_runs_of_noise_let_one_run_each_have_an_interval(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    common = ["--server", pg17.spec, "--data-dir", "data"]
    short = ["--minutes", "0.08", "--slice-seconds", "0.25", "--rows", "500"]
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
    found = json.loads(pgstrata("compare", *labels, "--campaign", "two", "--format", "json").stdout)
    assert [s["evidence"] for s in found[0]["steps"]] == ["runs"]
    assert found[0]["steps"][0]["run_spread"] > 0
    assert found[0]["steps"][0]["high"] is not None


@pytest.mark.slow
def test_placements_are_tried_the_best_is_named_and_campaigns_use_it(
    place: Path, pgstrata: Program, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    assert pg17.bin_dir is not None
    server = f"path:{pg17.bin_dir.parent}"
    run = ["run", "--server", server, "--config", "default", "--config", "a17", "--workload", "sysbench"]
    run += ["--until", "verdict", "--max-seconds", "1", "--data-dir", "data", "--name", "c", "--no-report"]
    for option in ("rows=500", "steps=point-query", "warmup=0", "cache_seconds=0", "settle_base=0"):
        run += ["--set", option]
    expected = placements_here()
    first = pgstrata(*run, "--dry-run")
    assert len(expected) == 1 or f"{len(expected)} are tried first on this machine" in first.stdout
    done = pgstrata(
        "noise", "--server", server, "--data-dir", "data", "--rows", "500", "--placements", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [p["name"] for p in found["placements"]] == [p.name for p in expected]
    errors = {p["name"]: p["error_of_a_second"] for p in found["placements"]}
    assert all(error > 0 for error in errors.values())
    assert errors[found["best"]] == min(errors.values())
    runs = Results(place / "results").runs()
    for made in runs:
        tried = next(p for p in expected if made.campaign.endswith(f" {p.name}"))
        assert (made.record.cpus.server, made.record.cpus.driver) == (tried.server, tried.driver)
    if len(expected) > 1:
        best = next(p for p in expected if p.name == found["best"])
        used = pgstrata(*run)
        assert used.returncode == 0, used.stderr
        assert "placements on this machine" not in used.stderr, "it is known already"
        for made in Results(place / "results").runs():
            if made.campaign == "c":
                cpus = made.record.cpus
                assert cpus.placement is not None and cpus.placement.name == best.name
                assert (cpus.server, cpus.driver) == (best.server, best.driver)
                assert f"`{best.name}`" in pgstrata("show", made.run_id).stdout

"""Profiles of servers that take turns: a planted slower function is found, and nothing on equal servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pgstrata.observe.profile import unavailable
from pgstrata.server.find.model import Server
from pgstrata.stats.criterion import LEAST_BLOCKS
from support.program import Program

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="perf is not installed")

CAMPAIGN = """
name = "profiled"
data_dir = "data"
order = "interleaved"
placement = "free"
slice_seconds = 0.3
other_load = 1
profile = {{ seconds = 3, frequency = 999 }}

[[variants]]
server = "{server}"
label = "base"

[[variants]]
server = "{server}"
label = "same"

[[variants]]
server = "{server}"
label = "slow"
config = ["default", "./slow.conf"]

[[workloads]]
name = "custom"
[workloads.options]
setup = ["setup.sql"]
seconds = 3.6
warmup = 0

[[workloads.options.steps]]
scripts = ["work.sql"]
reads_only = true
"""

SETUP = """
CREATE TABLE anything (id int);
CREATE FUNCTION work() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    content text := repeat('x', 40000);
    hash bigint := 0;
BEGIN
    FOR turn IN 1 .. coalesce(current_setting('test.turns', true), '2')::int LOOP
        hash := hash + hashtext(content);
    END LOOP;
    RETURN hash;
END $$;
"""


def profile_of(pgstrata: Program, other: str) -> dict[str, Any]:
    done = pgstrata("compare", "base", other, "--campaign", "profiled", "--format", "json")
    assert done.returncode == 0, done.stderr
    (step,) = json.loads(done.stdout)[0]["steps"]
    profile: dict[str, Any] = step["profiles"][0]
    return profile


def test_a_slower_function_is_proven_and_equal_servers_are_not(
    pgstrata: Program, place: Path, pg17: Server
) -> None:
    (place / "profiled.toml").write_text(CAMPAIGN.format(server=pg17.spec))
    (place / "slow.conf").write_text("test.turns = '3'\n")
    (place / "setup.sql").write_text(SETUP)
    (place / "work.sql").write_text("SELECT work();\n")
    done = pgstrata("run", "profiled.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    same, slow = profile_of(pgstrata, "same"), profile_of(pgstrata, "slow")
    if any(profile["pairs"] < LEAST_BLOCKS for profile in (same, slow)):
        # Other programs had the CPUs in many batches: it is said, and nothing is proven.
        for profile in (same, slow):
            unclear = {change["word"] for change in profile["functions"]} <= {"unclear"}
            assert profile["pairs"] >= LEAST_BLOCKS or (profile["reason"] and unclear), profile
        return
    for profile in (same, slow):
        assert profile["reason"] == "", profile
        for kind in ("functions", "phases"):
            total = sum(change["difference_seconds"] for change in profile[kind])
            assert total == pytest.approx(profile["whole"]["difference_seconds"], abs=1e-12)
    assert {change["word"] for change in same["functions"]} == {"unclear"}, same
    words = {change["name"]: change["word"] for change in slow["functions"] if change["word"] != "unclear"}
    assert words == {"hash_bytes": "more"}, slow
    change = slow["functions"][0]
    assert change["name"] == "hash_bytes" and change["difference_seconds"] < 1.1 * change["base_seconds"]
    assert change["low_seconds"] < change["base_seconds"] / 2 < change["high_seconds"], "2 turns became 3"
    assert "hash_bytes" in done.stdout
    page = (place / "results" / "profiled.report" / "index.html").read_text()
    assert "CPU time by function" in page
    rows = pgstrata("query", "select count(distinct part), sum(samples) from profiles", "--format", "json")
    ((parts, samples),) = [tuple(row.values()) for row in json.loads(rows.stdout)]
    assert parts >= LEAST_BLOCKS and samples > 1000

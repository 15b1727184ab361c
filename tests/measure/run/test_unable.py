"""A campaign of versions of which some cannot run a workload."""

from __future__ import annotations

import json
from pathlib import Path

from support.program import Program

# Partitioned tables have primary keys from 11 on: 10 is to this what 8.1 is to `insert`.
CAMPAIGN = """
servers = ["pg:10", "pg:17"]
base = "pg17"
[[workloads]]
name = "pgbench"
[workloads.options]
scale = 1
seconds = 0.5
warmup = 0
clients = 1
modes = "prepared"
partitions = 2
builtin = "select-only"
"""


def test_what_a_version_cannot_run_is_an_empty_cell_with_the_reason(place: Path, pgstrata: Program) -> None:
    (place / "both.toml").write_text(CAMPAIGN)
    ran = pgstrata("run", "both.toml", "--data-dir", place / "data")
    assert ran.returncode == 0, ran.stderr
    assert "pgbench: not measured: Option partitions = 2 needs PostgreSQL 11" in ran.stderr
    runs = {
        run["variant"][:4]: run
        for p in (place / "results").rglob("run.json")
        if (run := json.loads(p.read_text()))
    }
    assert {name: run["status"] for name, run in runs.items()} == {"pg10": "unable", "pg17": "done"}
    assert "needs PostgreSQL 11" in runs["pg10"]["error"]["message"] and runs["pg10"]["steps"] == []
    page = next((place / "results").rglob("*.html")).read_text()
    assert "cannot run pgbench" in page and "not possible" in page and "Failed runs" not in page
    again = pgstrata("run", "both.toml", "--data-dir", place / "data")
    assert again.returncode == 0 and "1 of 2 runs is there already" in again.stderr


def test_where_no_version_can_it_is_a_mistake(place: Path, pgstrata: Program) -> None:
    (place / "none.toml").write_text(
        CAMPAIGN.replace('"pg:10", "pg:17"', '"pg:10"').replace('base = "pg17"', "")
    )
    ran = pgstrata("run", "none.toml", "--data-dir", place / "data")
    assert ran.returncode == 2 and "needs PostgreSQL 11" in ran.stderr

"""Response times judged beside the rate, on a real server: a rare stall is in the tail alone."""

from __future__ import annotations

import json
from pathlib import Path

from pgstrata.server.find.model import Server
from support.program import Program

SCRIPT = """
\\set stalls random(1, 300)
select case when current_setting('test.stall', true) = 'on' and :stalls <= 1 then pg_sleep(0.01) end;
"""


def test_a_rare_stall_is_slower_at_p99_9_and_not_at_p50(place: Path, pgstrata: Program, pg17: Server) -> None:
    (place / "stall.sql").write_text(SCRIPT)
    (place / "stall.conf").write_text("test.stall = on\n")
    (place / "study.toml").write_text(
        f"""
servers = ["{pg17.spec}"]
configs = [["default"], ["default", "stall.conf"]]
data_dir = "data"
until = "verdict"
max_seconds = 24
other_load = 1
judge = ["p50", "p99.9"]

[[workloads]]
name = "custom"
[workloads.options]
steps = [{{ name = "stall", scripts = ["stall.sql"], reads_only = true, seconds = 12, warmup = 0 }}]
"""
    )
    done = pgstrata("run", "study.toml", "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(done.stdout)
    (comparison,) = record["comparisons"]
    steps = {step["step"]: step for step in comparison["steps"]}
    tail, middle = steps["stall.p99.9"], steps["stall.p50"]
    assert (tail["evidence"], tail["word"]) == ("times", "slower")
    assert tail["other_seconds"] > 0.01 > tail["base_seconds"] * 2 or tail["ratio"] < 0.7
    assert middle["word"] in ("same", "unclear")
    text = Path(record["report"]).read_text()
    assert "Response times, judged" in text and "stall.p99.9" in text
    compared = pgstrata(
        "compare", steps and record["comparisons"][0]["base"], record["comparisons"][0]["other"]
    )
    assert "stall.p99.9" in compared.stdout and "pairs of batches" in compared.stdout


def test_a_name_that_is_no_response_time_is_refused(place: Path, pgstrata: Program) -> None:
    done = pgstrata("run", "pg:17", "--judge", "p98")
    assert done.returncode == 2
    assert "judge" in done.stderr and "p99" in done.stderr

"""Queries that one side was made slow for in one way each: where a comparison says that their time went."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pgstrata.server.find.model import Server
from support.program import Program

SETUP = """
CREATE TABLE wide (id int PRIMARY KEY, note text);
ALTER TABLE wide ALTER note SET STORAGE PLAIN;
INSERT INTO wide SELECT n, repeat('x', 7000) FROM generate_series(1, 2500) n;
CREATE TABLE item (id int PRIMARY KEY);
INSERT INTO item SELECT generate_series(1, 1000);
CREATE FUNCTION slow() RETURNS bool LANGUAGE sql STABLE AS $$ SELECT current_setting('work_mem') = '5MB' $$;
CREATE FUNCTION turned(n int) RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF slow() THEN FOR i IN 1..20000 LOOP NULL; END LOOP; END IF;
    RETURN n;
END $$;
CREATE FUNCTION waiting() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF slow() THEN PERFORM pg_sleep(0.05); END IF;
    RETURN 1;
END $$;
"""

JOINS = " ".join(f"JOIN item t{number} USING (id)" for number in range(1, 10))

QUERIES = {
    "cpu": "SELECT sum(turned(id)) FROM item WHERE id <= 300",
    "cache": "SELECT count(*) FROM wide",
    "lock": "SELECT waiting()",
    "planner": f"SELECT count(*) FROM item t0 {JOINS} WHERE t0.id = 1",
}

GREW = {"cpu": "execution", "cache": "files", "lock": "other_waits", "planner": "planning"}

FAST = "default+shared_buffers=256MB+geqo=off+join_collapse_limit=1+from_collapse_limit=1"
SLOW = (
    "default+shared_buffers=1MB+work_mem=5MB+geqo=off+join_collapse_limit=12+from_collapse_limit=12"
    "+synchronize_seqscans=off"
)


def test_the_part_that_was_planted_has_most_of_the_difference(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    (place / "setup.sql").write_text(SETUP)
    (place / "queries").mkdir()
    for name, text in QUERIES.items():
        (place / "queries" / f"{name}.sql").write_text(text)
    run = pgstrata(
        "compare-queries", "queries", "--setup", "setup.sql", "--server", pg17.spec,
        *("--config", FAST, "--config", SLOW, "--margin", "0.5", "--other-load", "100%"),
        *("--max-seconds", "60", "--why-seconds", "40", "--format", "json"),
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    (comparison,) = json.loads(run.stdout)["comparisons"]
    steps = {step["step"].removeprefix("queries."): step for step in comparison["steps"]}
    known = {name: step for name, step in steps.items() if "parts" in step}
    # A busy machine may leave factors of five unclear, not those of fifty and more.
    assert len(known) >= 2, f"not proven: {steps}"
    for name, step in known.items():
        check(name, step["parts"])
    shown = pgstrata("report", "results").stdout
    assert "Where the time went: + " in shown
    page = (place / "results" / "queries.report" / "index.html").read_text()
    assert "Where the time of queries went (custom)" in page and "Parts of an execution" in page
    if "cpu" in known:
        assert "pgstrata count --server " in shown and "--step queries.cpu" in shown


def check(name: str, parts: dict[str, Any]) -> None:
    differences = {part["name"]: part["difference_seconds"] for part in parts["parts"]}
    assert all(part["other_seconds"] >= 0 <= part["base_seconds"] for part in parts["parts"])
    # Waiting for a CPU is that of other programs: it may have any share on a busy machine.
    waited = differences.pop("cpu_wait", 0.0)
    assert max(differences, key=lambda part: differences[part]) == GREW[name], (name, parts)
    assert abs(parts["sum_seconds"] - sum(differences.values()) - waited) < 1e-9
    if parts["unexplained_seconds"] is None:
        rest = parts["difference_seconds"] - parts["sum_seconds"]
        assert abs(rest) <= 0.1 * abs(parts["difference_seconds"])
    if name == "cache":
        base, other = parts["pages_from_files"]
        assert base < 500 < 1000 < other

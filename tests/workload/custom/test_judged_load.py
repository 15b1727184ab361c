"""Load steps of own files that are compared."""

from __future__ import annotations

import json
from pathlib import Path

from pgstrata.store import Results
from support.program import Program

DUMP = """--
-- PostgreSQL database dump
--
SET statement_timeout = 0;
SET default_with_oids = false;
CREATE TABLE t (i int);
COPY t (i) FROM stdin;
1
2
\\.
CREATE INDEX t_i ON t (i);
"""


def test_the_load_of_own_files_is_judged(place: Path, pgstrata: Program) -> None:
    (place / "app.sql").write_text(DUMP)
    (place / "more.sql").write_text("INSERT INTO t SELECT generate_series(3, 2000);\nANALYZE t;\n")
    (place / "own.toml").write_text(
        'servers = ["pg:10", "pg:17"]\norder = "interleaved"\nuntil = "time"\nrounds = 2\n'
        '[[workloads]]\nname = "custom"\n[workloads.options]\nsetup = ["app.sql", "more.sql"]\n'
        "judge_load = true\nsettle_seconds = 0\n"
    )
    done = pgstrata("run", "own.toml")
    # The dump's setting is there before 12 only: each server gets the statements that it takes.
    assert done.returncode == 0, done.stdout + done.stderr
    names = ["load.app.schema", "load.app.rows", "load.app.indexes", "load.more"]
    for run in Results(place / "results").runs():
        judged = [step for step in run.steps if step.measured]
        assert [step.name for step in judged] == names
        assert all(step.turns == "rounds" and len(step.slices) == 2 for step in judged)
        assert all(step.judged_load and step.judged_load.executions == 2 for step in judged)
    compared = pgstrata("compare", "pg10", "pg17", "--format", "json")
    (against,) = json.loads(compared.stdout)
    assert [row["step"] for row in against["steps"]] == names

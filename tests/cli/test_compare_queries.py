"""`pgstrata compare-queries`: files of queries, a setup and servers in, a verdict on each query out."""

from __future__ import annotations

import json
from pathlib import Path

from pgstrata.server.find.model import Server
from support.program import Program

SETUP = """
create table item (id int primary key, note text not null);
insert into item select n, repeat(md5(n::text), 4) from generate_series(1, 200000) n;
"""

WITHOUT_INDEX = "default+enable_indexscan=off+enable_bitmapscan=off+enable_indexonlyscan=off"


def test_each_query_has_a_verdict_of_its_own(place: Path, pgstrata: Program, pg17: Server) -> None:
    (place / "setup.sql").write_text(SETUP)
    queries = place / "queries"
    queries.mkdir()
    (queries / "by-key.sql").write_text("select note from item where id = 4711;\n")
    (queries / "not-there.sql").write_text("select 1 from nothing;\n")
    alone = place / "whole.sql"
    alone.write_text("select sum(sqrt(n)) from generate_series(1, 300000) n\n")
    done = pgstrata(
        "compare-queries", "--server", pg17.spec, "--config", "default", "--config", WITHOUT_INDEX,
        "--setup", place / "setup.sql", queries, alone,
        "--max-seconds", "20", "--other-load", "100%", "--format", "json", "--data-dir", place,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(done.stdout)
    (comparison,) = record["comparisons"]
    words = {step["step"]: step["word"] for step in comparison["steps"]}
    assert words["queries.by-key"] == "slower"
    assert words["queries.whole"] not in ("slower", "faster")
    assert "queries.not-there" not in words or words["queries.not-there"] not in ("slower", "faster", "same")
    page = Path(record["report"]).read_text()
    assert "by-key" in page and "not-there" in page


def test_two_files_of_the_same_name_are_refused(place: Path, pgstrata: Program, pg17: Server) -> None:
    for folder in ("a", "b"):
        (place / folder).mkdir()
        (place / folder / "slow.sql").write_text("select 1")
    done = pgstrata(
        "compare-queries",
        "--server",
        pg17.spec,
        "--config",
        "default",
        "--config",
        "a1",
        place / "a",
        place / "b",
    )
    assert done.returncode == 2
    assert "two queries are called slow" in done.stderr and "rename one" in done.stderr

"""`pgstrata compare-queries`: files of queries, a setup and servers in, a verdict on each query out."""

from __future__ import annotations

import json
from pathlib import Path

from pgstrata.server.find.model import Server
from pgstrata.store import Results
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
        "--max-seconds", "12", "--other-load", "100%", "--format", "json", "--data-dir", place,
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


BAD = {
    "parameter": "select note from item where id = $1",
    "several": "select 1; select 2",
    "writes": "insert into item values (0, 'x')",
    "temporary": "create temp table other as select 1",
    "dies": "select pg_terminate_backend(pg_backend_pid())",
    "endless": "select pg_sleep(1000)",
    "varies": "select random()",
    "changed": "select current_setting('enable_indexscan')",
    "unordered": "select id, note from item where id < 100",
    "digits": "select sum(0.1::float8 * id) from item where id < 1000",
}


def test_what_cannot_be_compared_is_told_and_the_others_go_on(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    (place / "setup.sql").write_text(SETUP)
    (place / "queries").mkdir()
    for name, text in BAD.items():
        (place / "queries" / f"{name}.sql").write_text(text)
    done = pgstrata(
        "compare-queries", "--server", pg17.spec, "--config", "default", "--config", WITHOUT_INDEX,
        "--setup", place / "setup.sql", place / "queries", "--limit", "2",
        "--max-seconds", "3", "--other-load", "100%", "--data-dir", place,
    )  # fmt: skip
    output = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answers changed differently from" in output
    assert "varies" not in output.partition("differently")[0]
    assert "both sides run into its limit of 2 s" in output
    assert "warning: several is left out: several.sql has 2 statements" in done.stderr
    assert "warning: parameter is left out: parameter.sql has 1 parameter" in done.stderr
    (folder,) = (place / "results").glob("*.report")
    page = " ".join((folder / "report.md").read_text().replace("\\", "").split())
    for name, why in {
        "parameter": "parameter.sql has 1 parameter ($1 …): write values in their place",
        "several": "several.sql has 2 statements, and a query is one statement",
        "writes": "cannot execute INSERT in a read-only transaction",
        "temporary": "read-only transaction",
        "dies": "it ends its connection: ",
    }.items():
        assert f"| {name} |" in page and why in page
    queries = {row["query"]: row for row in _rows(place)}
    assert queries["unordered"]["digest"] and queries["digits"]["digest"]


def _rows(place: Path) -> list[dict[str, object]]:
    runs = Results(place / "results").runs()
    digests = [{row["query"]: row["digest"] for row in run.table("queries")} for run in runs]
    for name in ("unordered", "digits"):
        assert digests[0][name] == digests[1][name]
    return list(runs[0].table("queries"))


def test_a_run_in_which_no_query_can_be_compared_fails_with_the_servers_words(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    (place / "not-there.sql").write_text("select 1 from nothing")
    command = (
        "compare-queries", "--server", pg17.spec, "--config", "default", "--config", WITHOUT_INDEX,
        place / "not-there.sql", "--max-seconds", "10", "--data-dir", place, "--no-report",
    )  # fmt: skip
    done = pgstrata(*command)
    assert done.returncode == 1, done.stdout
    words = 'both sides reject it: relation "nothing" does not exist'
    assert f"failed: no query could be compared: queries.not-there: {words}" in done.stderr
    assert words in " ".join(done.stdout.split())
    assert "Disturbed" not in done.stdout and "verdict (" not in done.stdout
    checked = pgstrata("check", "--base", "pg17.default", "--fail-slower", "50%")
    assert checked.returncode in (2, 3), checked.stderr
    again = pgstrata(*command, "--format", "json")
    assert again.returncode == 1
    (step,) = json.loads(again.stdout)["comparisons"][0]["steps"]
    assert (step["word"], step["base_end"], step["other_end"]) == ("unclear", "rejected", "rejected")
    assert words in step["reason"]


def test_queries_that_other_programs_disturb_are_no_failure(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    (place / "short.sql").write_text("select 1")
    done = pgstrata(
        "compare-queries", "--server", pg17.spec, "--config", "default", "--config", "default+work_mem=8MB",
        place / "short.sql", "--max-seconds", "2", "--other-load", "1%", "--data-dir", place,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "no query could be compared" not in done.stderr


def test_a_query_with_parameters_asks_for_values(place: Path, pgstrata: Program, pg17: Server) -> None:
    (place / "slow.sql").write_text("select $2::text -- $3\n where 1 = $1 and '$4' <> ''")
    done = pgstrata(
        "compare-queries", "--server", pg17.spec, "--config", "default", "--config", WITHOUT_INDEX,
        place / "slow.sql",
    )  # fmt: skip
    assert done.returncode == 2
    assert "slow.sql has 2 parameters ($1 …): write values in their place" in done.stderr


def test_planning_and_execution_are_told_apart(place: Path, pgstrata: Program, pg17: Server) -> None:
    """Nine tables have thousands of orders; what is executed is the same."""
    (place / "setup.sql").write_text(SETUP)
    joins = " ".join(f"join item t{number} using (id)" for number in range(1, 9))
    work = "select sum(sqrt(n)) from generate_series(1, 200000) n"
    (place / "joins.sql").write_text(f"select ({work}) from item t0 {joins} where t0.id = 1")
    few, many = (f"default+geqo=off+join_collapse_limit={n}+from_collapse_limit={n}" for n in (1, 12))
    done = pgstrata(
        "compare-queries", "--server", pg17.spec, "--config", few, "--config", many,
        "--setup", place / "setup.sql", place / "joins.sql", "--format", "json",
        "--max-seconds", "8", "--other-load", "100%", "--data-dir", place,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (step,) = json.loads(done.stdout)["comparisons"][0]["steps"]
    planning, execution = step["planning"], step["execution"]
    assert planning["other"] > 2 * planning["base"]
    assert execution["other"] < 2 * execution["base"]
    assert step["word"] != "faster" and planning["word"] in ("slower", "unclear")
    assert execution["word"] != "slower"


REGRESSIONS = Path(__file__).parents[2] / "campaigns" / "regressions"


def test_public_regressions_are_executed_on_both_servers(
    place: Path, pgstrata: Program, pg12: Server, pg17: Server
) -> None:
    """Whether they are slower a busy machine may not tell; that both servers execute them it can."""
    setups = sorted(REGRESSIONS.glob("*.sql"))
    queries = sorted((REGRESSIONS / "queries").glob("*.sql"))
    assert len(setups) == 5 and [setup.name for setup in setups] == [query.name for query in queries]
    given = [word for setup in setups for word in ("--setup", setup)]
    servers = ["--server", pg12.spec, "--server", pg17.spec]
    done = pgstrata("compare-queries", *servers, *given, *queries, "--max-seconds", "3", "--why-seconds", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rejected" not in done.stdout
    assert all(query.stem in done.stdout for query in queries)

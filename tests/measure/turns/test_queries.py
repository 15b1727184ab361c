"""Queries executed one at a time in pairs: what a pass says of them, and whole campaigns on real servers."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from pathlib import Path

import pytest

from pgstrata.driver.events import SqlError, StatementDone
from pgstrata.driver.spec import SqlSpec
from pgstrata.measure.turns.queries import START_PAIRS
from pgstrata.measure.turns.query_pairs import Query, order_after_start, queries_of
from pgstrata.page.queries import read
from pgstrata.page.results import read_results
from pgstrata.server.find.model import Server
from pgstrata.stats.verdict import Verdict
from pgstrata.workload.core.language import Script, Sql
from pgstrata.workload.core.queries import planned_first, query_step
from support.interleaved import by_variant
from support.interrupts import load
from support.program import Program

SETUP = (
    "CREATE TABLE events AS SELECT i AS id, i % 50 AS kind FROM generate_series(1, 100000) i; "
    "ALTER TABLE events ADD PRIMARY KEY (id); ANALYZE events;"
)

QUERIES = {
    # Stops at the tenth row from version 15 on.
    "first": "SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM events) t WHERE n <= 10",
    "kinds": "SELECT kind, count(*) FROM events GROUP BY kind",
    # Since version 14.
    "bin": "SELECT date_bin('1 day', now(), timestamptz '2024-01-01')",
    "sleep": "SELECT CASE WHEN current_setting('server_version_num')::int < 140000 "
    "THEN (SELECT count(*) FROM pg_sleep(30)) END",
    "broken": "SELEC 1",
}


def write(place: Path, servers: dict[str, Server], more: str) -> Path:
    """A campaign with the queries of `QUERIES`."""
    (place / "setup.sql").write_text(SETUP)
    (place / "queries").mkdir()
    for name, text in QUERIES.items():
        (place / "queries" / f"{name}.sql").write_text(f"{text};\n")
    variants = "\n".join(
        f'[[variants]]\nserver = "{server.spec}"\nlabel = "{label}"' for label, server in servers.items()
    )
    file = place / "single.toml"
    file.write_text(
        f"""
name = "single"
data_dir = "data"
order = "interleaved"
other_load = 1
margin = 0.5
{more}
{variants}
[[workloads]]
name = "custom"
[workloads.options]
setup = ["setup.sql"]
queries = "queries"
time_limit = 2
settle = "none"
"""
    )
    return file


def done(name: str, seconds: float, sqlstate: str = "") -> StatementDone:
    error = SqlError(sqlstate=sqlstate, message="no\nsuch thing") if sqlstate else None
    return StatementDone(
        role="query",
        client=0,
        name=name,
        start=0.0,
        seconds=seconds,
        planning_seconds=None,
        rows=1,
        error=error,
        result=None,
    )


def test_a_pass_tells_how_long_queries_take_and_which_cannot_be_executed() -> None:
    queries = queries_of(
        {
            "a": [done("long", 3.0), done("short", 0.02), done("short", 0.01), done("gone", 0.0, "42883")],
            "b": [done("long", 9.0), done("short", 0.05), done("gone", 0.1), done("cut", 2.0, "57014")],
        }
    )
    assert [query.name for query in queries] == ["cut", "short", "gone", "long"]
    by_name = {query.name: query for query in queries}
    short = by_name["short"]
    assert (short.seconds, short.portions, short.in_portions) == (0.05, (1, 2), True)
    assert short.turns["a"].seconds == 0.01
    assert not by_name["long"].in_portions
    gone = by_name["gone"].turns["a"]
    assert (gone.end, gone.reason, gone.seconds) == ("rejected", "no such thing", None)
    assert by_name["gone"].turns["b"].end == ""
    assert by_name["cut"].turns["b"].end == "limited"


def verdict(n: int, low: float, ratio: float, high: float) -> Verdict:
    return Verdict("unclear", ratio, low, high, 0.02, 0.95, n, 0.1, None, "")


def test_the_next_pair_is_that_of_the_query_that_is_likely_to_be_known_first() -> None:
    queries = queries_of(
        {
            "a": [done("short", 0.01), done("long", 0.5), done("clear", 2.0), done("longest", 2.0)],
            "b": [done("short", 0.01), done("long", 0.5), done("clear", 0.1), done("longest", 2.0)],
        }
    )
    # One that takes twenty times as long on a side needs a few pairs only.
    order = sorted(queries, key=lambda query: query.seconds_left)
    assert [query.name for query in order] == ["short", "long", "clear", "longest"]
    short, long, *_ = order
    for pair in range(16):
        short.begin_pair(1, 20.0 * pair)
        short.pair_seconds += 0.25
    assert short.seconds_left == 0.25
    # It differs by less than the interval is wide, and by too much to be the same.
    short.look([verdict(16, 0.93, 0.965, 1.0)])
    assert 0.25 < short.seconds_left < long.seconds_left
    # What is neither beyond the margin nor within it is not known soon.
    short.look([verdict(16, 0.97, 0.9805, 0.991)])
    assert short.seconds_left > 4 * long.seconds_left
    short.look([verdict(16, 0.97, 1.01, 1.05), verdict(16, 0.9, 0.99, 1.09)])
    assert short.seconds_left > long.seconds_left
    short.look([verdict(16, 0.0, 0.99, math.inf)])
    assert short.seconds_left == 16 * 0.25


def test_what_cannot_be_known_in_time_comes_last() -> None:
    short, long = queries_of({label: [done("short", 0.1), done("long", 3.0)] for label in ("a", "b")})
    short.begin_pair(1, 100.0)
    short.pair_seconds = 2.0
    # One pair of it is half a minute of waiting for the other's next block.
    assert long.rank(101.0, 1000.0) < short.rank(101.0, 1000.0)
    assert short.rank(101.0, 190.0) < long.rank(101.0, 190.0)
    assert long.rank(111.0, 1000.0) > short.rank(111.0, 1000.0)


def test_pairs_lie_apart_while_other_queries_wait() -> None:
    queries = queries_of({label: [done(f"q{n}", 0.1) for n in range(30)] for label in ("a", "b")})
    now = 0.0
    for _ in range(300):
        query = min(queries, key=lambda query: query.rank(now, 1e6))
        query.begin_pair(1, now)
        query.pair_seconds += 0.4
        now += 0.5
    # Twenty take turns every ten seconds, those first that began first; none takes two pairs in a block.
    assert [query.pairs for query in queries] == [15] * 20 + [0] * 10
    assert all(len(query.blocks) == query.pairs for query in queries)


def test_pairs_that_begin_within_seconds_are_one_block() -> None:
    query = Query("q")
    for moment in (0.0, 4.0, 9.9, 10.0, 35.0, 36.0, 46.0):
        query.begin_pair(1, moment)
    assert query.blocks == [3, 4, 6, 7]


@pytest.mark.parametrize(
    ("text", "is_planned"),
    [
        ("SELECT 1", True),
        ("-- the first\n/* and\nonly */ (with x AS (SELECT 1) TABLE x)", True),
        ("selected", False),
        ("UPDATE t SET a = 1", False),
        ("CALL p()", False),
        ("SELECT 1; SELECT 2", False),
        ("", False),
    ],
)
def test_a_query_is_planned_before_it_counts_and_nothing_else_is(text: str, is_planned: bool) -> None:
    query = Sql.verbatim(text, name="q", record=True, on_error="record")
    single = query_step("queries", [[query]], 2.0, group="queries", measured=True).single
    assert single is not None
    planned = planned_first(single.step("q", 3))
    assert (planned is not None) == is_planned
    if planned is not None:
        (script,) = planned.roles[0].scripts
        assert isinstance(script, Script)
        specs = [spec for op in script.ops if isinstance(op, Sql) and isinstance(spec := op.op(), SqlSpec)]
        assert [spec.sql for spec in specs] == [[f"EXPLAIN {text}"], *[[text]] * 3]
        assert all(spec.record for spec in specs)


def test_each_query_ends_in_a_word(place: Path, pgstrata: Program, pg13: Server, pg17: Server) -> None:
    file = write(place, {"old": pg13, "new": pg17}, 'until = "verdict"\nmax_seconds = 90')
    run = pgstrata("run", file)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Queries, each by itself: custom against old" in run.stdout
    assert "times as fast" in run.stdout
    assert "old rejects it: " in run.stdout

    compared = pgstrata("compare", "old", "new", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    steps = {step["step"]: step for step in json.loads(compared.stdout)[0]["steps"]}
    words = {name.removeprefix("queries."): step["word"] for name, step in steps.items()}
    assert words == {
        "first": "faster",
        "kinds": "same",
        "bin": "unclear",
        "sleep": "faster",
        "broken": "unclear",
    }
    assert steps["queries.broken"]["reason"].startswith("both sides reject it: syntax error")
    first = steps["queries.first"]
    assert first["n"] <= 12 and first["ratio"] > 5 and first["low"] > 1
    assert first["base_seconds"] / first["other_seconds"] == pytest.approx(first["ratio"])
    assert "old rejects it: function date_bin" in steps["queries.bin"]["reason"]
    assert "old runs into its limit of 2 s" in steps["queries.sleep"]["reason"]

    records = {v: run["steps"][-1]["query_pairs"] for v, run in by_variant(place).items()}
    assert records["old"]["seconds"] < 100
    turns = {v: {query["name"]: query for query in record["queries"]} for v, record in records.items()}
    assert turns["old"]["sleep"]["end"] == "limited" and "slices" not in turns["old"]["sleep"]
    for name in ("first", "kinds"):
        pairs = [[part["pair"] for part in turns[v][name]["slices"]] for v in ("old", "new")]
        assert pairs[0] == pairs[1] == list(range(1, len(pairs[0]) + 1))

    single = pgstrata("compare", "old", "new", "--step", "queries.kinds")
    assert "queries.kinds" in single.stdout and "queries.first" not in single.stdout
    nothing = pgstrata("compare", "old", "new", "--step", "queries.nothing")
    assert nothing.returncode == 2
    assert "no step queries.nothing in common" in nothing.stderr
    assert pgstrata("check", "--base", "old", "--fail-slower", "50%").returncode == 3
    assert pgstrata("check", "--base", "new", "--fail-slower", "50%").returncode == 1
    page = (place / "results" / "single.report" / "index.html").read_text()
    assert "Queries, each by itself: custom against old" in page


def test_a_fixed_number_of_pairs(place: Path, pgstrata: Program, pg17: Server) -> None:
    run = pgstrata("run", write(place, {"a": pg17, "b": pg17}, "rounds = 3"), "--no-report")
    assert run.returncode == 0, run.stdout + run.stderr
    for record in by_variant(place).values():
        queries = {query["name"]: query for query in record["steps"][-1]["query_pairs"]["queries"]}
        assert sorted(queries) == ["bin", "broken", "first", "kinds", "sleep"]
        assert queries["broken"]["end"] == "rejected"
        for name in ("bin", "first", "kinds"):
            assert [part["pair"] for part in queries[name]["slices"]] == [1, 2, 3]
    # Tables of the page that show the time of a query show that of its verdict, not of the pass before.
    results = read_results(place / "results")
    (workload,) = results.workloads
    shown = read(results, workload).by_step["queries"]
    judged = {q.step: q for c in results.comparisons for step in c.steps for q in step.queries}
    for name in ("bin", "first", "kinds"):
        query = judged[f"queries.{name}"]
        times = [shown[variant][name].seconds for variant in ("a", "b")]
        assert [1 / seconds if seconds else None for seconds in times] == pytest.approx(
            [query.base_rate, query.other_rate]
        )


def test_a_factor_is_proven_beside_busy_programs(place: Path, pgstrata: Program, pg17: Server) -> None:
    (place / "setup.sql").write_text(SETUP)
    (place / "by_key.sql").write_text("SELECT kind FROM events WHERE id = 777;\n")
    (place / "constant.sql").write_text("SELECT 1;\n")
    with load(2 * (os.cpu_count() or 1)):
        run = pgstrata(
            "compare-queries", "by_key.sql", "constant.sql", "--setup", "setup.sql", "--server", "pg:17",
            *("--config", "default", "--config", "default+enable_indexscan=off+enable_bitmapscan=off"),
            *("--max-seconds", "30", "--why-seconds", "0", "--format", "json", "--no-report"),
        )  # fmt: skip
    steps = {step["step"]: step for step in json.loads(run.stdout)["comparisons"][0]["steps"]}
    slow = steps["queries.by_key"]
    assert slow["word"] == "slower", slow
    assert slow["reason"].startswith("by so much at least, by CPU time: others used the CPUs"), slow
    assert slow["low"] < slow["ratio"] <= slow["high"] < 0.9
    assert steps["queries.constant"]["word"] not in ("slower", "faster"), steps


@pytest.mark.parametrize("variants", [2, 3, 4])
def test_every_variant_comes_first_after_as_many_starts(variants: int) -> None:
    firsts = Counter(order_after_start(start, 1, variants)[0] for start in range(1, 4 * variants + 1))
    assert set(firsts.values()) == {4}


@pytest.mark.parametrize(
    ("pairs_of_start", "starts"),
    [({1: 20}, 1), ({1: 20, 2: 20}, 2), ({1: 100, 2: 1}, 1), ({1: 9, 3: 8, 4: 4}, 2)],
)
def test_a_few_pairs_after_a_start_are_no_second_one(pairs_of_start: dict[int, int], starts: int) -> None:
    assert Query("q", pairs_of_start=Counter(pairs_of_start)).starts == starts


def test_servers_start_anew_between_pairs_of_a_query(place: Path, pgstrata: Program, pg17: Server) -> None:
    # Its time hardly varies, so that another start soon tells more than another pair.
    (place / "sleep.sql").write_text("SELECT pg_sleep(0.05);\n")
    run = pgstrata(
        "compare-queries", "sleep.sql", "--server", "pg:17", "--other-load", "100%",
        *("--config", "default", "--config", "default+work_mem=5MB", "--margin", "0.002"),
        *("--max-seconds", "12", "--why-seconds", "0", "--no-report"),
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    of_each = [record["steps"][-1]["query_pairs"]["queries"][0] for record in by_variant(place).values()]
    assert len(of_each) == 2
    for query in of_each:
        assert query["starts"] >= 2
        assert START_PAIRS[0] <= len(query["slices"]) // query["starts"] <= START_PAIRS[1]

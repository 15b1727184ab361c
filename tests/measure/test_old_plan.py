"""The settings under which a real server chooses another plan, and the remedies for a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.judge.plan_detail import detail, distance
from pgstrata.judge.plan_times import node_times, with_queries_of
from pgstrata.measure.explainer import Explainer, set_local
from pgstrata.measure.old_plan import OldPlan, Setting, differing, find_old_plan, settings_of, statements
from pgstrata.measure.remedies import Candidate, candidates, created_indexes, missing_indexes
from pgstrata.measure.table_sizes import TableSizes
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.sql_with import materialized
from support.needs import needs
from support.steps import running

TABLES = """
CREATE TABLE item (id int PRIMARY KEY, kind int, a int, b int, note text);
INSERT INTO item SELECT n, n % 1000, n % 100, n % 100, repeat(md5(n::text), 2)
FROM generate_series(1, 60000) n;
CREATE INDEX item_kind ON item (kind);
CREATE TABLE part (id int PRIMARY KEY, item int, amount int);
INSERT INTO part SELECT n, (n * 7919) % 60000 + 1, n % 97 FROM generate_series(1, 60000) n;
CREATE INDEX part_item ON part (item);
ANALYZE;
"""

COMPILES = Path("/usr/lib/postgresql/15")
"""Debian's server, which is built with LLVM."""

JOIN = "SELECT sum(amount) FROM item JOIN part ON part.item = item.id WHERE item.id BETWEEN 100 AND 130"
LARGE = "SELECT a, sum(amount) FROM item JOIN part ON part.item = item.id GROUP BY a ORDER BY a"
KIND = "SELECT count(*), max(note) FROM item WHERE kind = 17"


@pytest.fixture(scope="module", params=["pg13", "pg17"])
@needs("server")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    server: Server = request.getfixturevalue(request.param)
    with running(server) as cluster:
        with cluster.connect() as connection:
            connection.execute(TABLES)
        yield cluster


@contextmanager
def explainer(cluster: Cluster, query: str) -> Iterator[Explainer]:
    with cluster.connect() as connection:
        yield Explainer(connection, query)


def searched_plan(
    cluster: Cluster, query: str, wanted: Sequence[str], own_settings: Sequence[str] = ()
) -> OldPlan:
    """What a search finds under `own` settings for the plan that the server makes under `wanted` ones."""
    with explainer(cluster, query) as ask:
        plan = ask.plan(wanted)
        now = settings_of(ask.connection)
        return find_old_plan(ask, detail(plan), plan, now, now, own_settings)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (JOIN, {"enable_nestloop": "off"}),
        (LARGE, {"enable_hashjoin": "off"}),
        (LARGE, {"enable_hashjoin": "off", "enable_mergejoin": "off"}),
        (LARGE, {"max_parallel_workers_per_gather": "0"}),
        (KIND, {"enable_bitmapscan": "off"}),
        (KIND, {"enable_bitmapscan": "off", "enable_indexscan": "off"}),
        (LARGE, {"parallel_setup_cost": "0", "min_parallel_table_scan_size": "0"}),
    ],
)
def test_settings_bring_another_plan(cluster: Cluster, query: str, wanted: dict[str, str]) -> None:
    before = statements(wanted)
    result = searched_plan(cluster, query, before)
    assert result.settings is not None
    with explainer(cluster, query) as ask:
        assert ask.detail(statements(result.settings)) == ask.detail(before)
        for name in result.settings:
            less = {key: value for key, value in result.settings.items() if key != name}
            assert ask.detail(statements(less)) != ask.detail(before), "a setting is needless"
    assert len(result.settings) <= len(wanted)


def test_a_setting_that_differs_between_servers_is_the_first_guess(cluster: Cluster) -> None:
    with explainer(cluster, JOIN) as ask, cluster.connect() as other:
        other.execute("SET enable_nestloop = off; SET random_page_cost = 1.5; SET work_mem = '8MB'")
        wanted = ask.plan()
        theirs = Explainer(other, JOIN)
        old, new = settings_of(ask.connection), settings_of(other)
        assert differing(old, new).keys() == {"enable_nestloop", "random_page_cost", "work_mem"}
        result = find_old_plan(theirs, detail(wanted), wanted, old, new)
        assert result.settings == {"enable_nestloop": "on"}
        assert result.asked < 10


def test_nothing_is_needed_for_the_same_plan(cluster: Cluster) -> None:
    result = searched_plan(cluster, JOIN, ())
    assert (result.settings, result.asked) == ({}, 1)


def test_no_setting_brings_an_index_that_is_missing(cluster: Cluster) -> None:
    with explainer(cluster, KIND) as ask:
        plan, now = ask.plan(), settings_of(ask.connection)
        result = find_old_plan(ask, detail(plan), plan, now, now, ["DROP INDEX item_kind"])
        assert result.settings is None and result.asked > 50
        assert ask.detail() == detail(plan), "what was asked with is rolled back"


def test_what_a_server_refuses_is_no_plan(cluster: Cluster) -> None:
    with explainer(cluster, "SELECT nothing FROM item") as ask:
        assert ask.detail() is None
    with explainer(cluster, KIND) as ask:
        assert ask.detail(["SET LOCAL no_such_setting = on"]) is None
        assert ask.detail() is not None
    assert set_local("work_mem", "64MB") == "SET LOCAL work_mem = '64MB'"
    assert set_local("random_page_cost", "1.1") == "SET LOCAL random_page_cost = 1.1"


def test_a_missing_index_is_told_by_its_definition(cluster: Cluster) -> None:
    """Under another name it is there."""
    with cluster.connect() as other:
        other.execute("CREATE DATABASE second")
        with explainer(cluster, KIND) as ask, cluster.connect("second") as new:
            plan, old = ask.plan(), ask.connection
            new.execute(TABLES)
            assert missing_indexes(old, new, plan, lambda: None) == []
            new.execute("ALTER INDEX item_kind RENAME TO another_name")
            assert missing_indexes(old, new, plan, lambda: None) == []
            new.execute("DROP INDEX another_name")
            (definition,) = missing_indexes(old, new, plan, lambda: None)
            assert definition == "CREATE INDEX item_kind ON public.item USING btree (kind)"
        other.execute("DROP DATABASE second")


@pytest.mark.server
@pytest.mark.skipif(not (COMPILES / "lib" / "llvmjit.so").exists(), reason="no server with LLVM is installed")
def test_compilation_is_found_and_switched_off() -> None:
    """A query that is compiled because a threshold is low."""
    with running(acquire(f"path:{COMPILES}")) as compiling, compiling.connect() as connection:
        connection.execute(TABLES)
        ask = Explainer(connection, LARGE)
        plan, old = ask.plan(), settings_of(connection)
        connection.execute("SET jit_above_cost = 10")
        new = settings_of(connection)
        assert ask.detail() == (*detail(plan), "JIT")
        result = find_old_plan(ask, detail(plan), plan, old, new)
        assert result.settings == {"jit_above_cost": old["jit_above_cost"].value}
        executed = ask.executed(30)
        remedies = candidates(
            ask, executed, new, new, old_plan=None, indexes=(), same_plan=True, without=(), check=lambda: None
        )
        assert [(remedy.kind, remedy.sql) for remedy in remedies] == [("jit", ("SET LOCAL jit = off",))]
        assert "JIT compilation" in [node.title for node in node_times(executed)]


def test_a_missing_index_is_there_for_a_while_only(cluster: Cluster) -> None:
    query = "SELECT count(*) FROM part WHERE amount = 5"
    wanted = "CREATE INDEX part_amount ON public.part USING btree (amount)"
    with cluster.connect() as connection:
        connection.execute("SET max_parallel_workers_per_gather = 0")
        ask = Explainer(connection, query)
        plain = ask.detail()
        with created_indexes(connection, [wanted, "CREATE INDEX ON nothing (a)"], lambda: None) as created:
            assert created.definitions == (wanted,)
            assert created.without == ("DROP INDEX part_amount",)
            assert "nothing" in created.notes[0]
            assert ask.detail() != plain and "part_amount" in str(ask.detail())
            assert ask.detail(created.without) == plain, "without it for one transaction"
            assert "part_amount" in str(ask.detail())
        assert ask.detail() == plain
        with pytest.raises(KeyError), created_indexes(connection, [wanted], lambda: None):
            raise KeyError
        assert ask.detail() == plain


# --- remedies ---------------------------------------------------------------------------------


def chosen(
    connection: psycopg.Connection[Any], query: str, old: Mapping[str, Setting] | None = None, **more: Any
) -> list[Candidate]:
    ask, now = Explainer(connection, query), settings_of(connection)
    options: dict[str, Any] = {"old_plan": None, "indexes": (), "same_plan": False, "without": ()} | more
    return candidates(ask, ask.executed(30), old or now, now, check=lambda: None, **options)


def test_statistics_that_were_never_made_are_renewed(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        connection.execute(
            "CREATE TABLE fresh WITH (autovacuum_enabled = off) AS SELECT n AS id, repeat('x', 100) AS pad, "
            "CASE WHEN mod(n, 20) = 0 THEN n ELSE 1 END AS kind FROM generate_series(1, 50000) n"
        )
        connection.execute("CREATE INDEX fresh_kind ON fresh (kind)")
        first = chosen(connection, "SELECT max(pad) FROM fresh WHERE kind = 1")[0]
        assert (first.kind, first.sql) == ("analyze", ("ANALYZE fresh",))
        connection.execute("DROP TABLE fresh")


def test_columns_that_are_wrong_together_get_statistics_together(cluster: Cluster) -> None:
    query = "SELECT sum(amount) FROM item JOIN part ON part.item = item.id WHERE item.a = 5 AND item.b = 5"
    with cluster.connect() as connection:
        by_kind = {remedy.kind: remedy for remedy in chosen(connection, query)}
    assert "analyze" not in by_kind, "new statistics of the same kind change nothing"
    sql = by_kind["statistics"].sql
    assert sql == ('CREATE STATISTICS "item_a_b" ON a, b FROM item', "ANALYZE item")


def test_memory_where_a_sort_has_spilled(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        query = "SELECT count(*) FROM (SELECT note FROM item ORDER BY note OFFSET 0) x"
        connection.execute("SET work_mem = '1MB'")
        (memory,) = chosen(connection, query, same_plan=True)
        assert memory.kind == "memory" and memory.is_for_one_query
        ask = Explainer(connection, query)
        assert "Disk" not in str(ask.executed(30, memory.before))
        connection.execute("SET work_mem = '256MB'")
        assert chosen(connection, query, same_plan=True) == []


def test_settings_that_bring_the_old_plan_are_a_remedy(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        connection.execute("SET enable_nestloop = off")
        remedies = chosen(connection, JOIN, old_plan={"enable_nestloop": "on"})
    assert [(remedy.kind, remedy.sql) for remedy in remedies] == [
        ("setting", ("SET LOCAL enable_nestloop = on",))
    ]


def test_fewer_join_orders_where_planning_takes_long(cluster: Cluster) -> None:
    query = "SELECT 1 FROM item a " + " ".join(f"JOIN item {n} USING (id)" for n in "bcdefgh") + " WHERE id=1"
    with cluster.connect() as connection:
        both = ("SET LOCAL from_collapse_limit = 1", "SET LOCAL join_collapse_limit = 1")
        simple, joins = Explainer(connection, KIND), Explainer(connection, query)
        phases = [each.phases(30) or (0, 0) for each in (simple, joins)]
        assert phases[1][0] > phases[0][0] > 0 and phases[1][0] > phases[1][1] > 0
        assert Explainer(connection, "SELECT nothing").phases(30) is None
        assert [remedy.sql for remedy in chosen(connection, query, same_plan=True)] == [both]
        old = settings_of(connection)
        connection.execute("SET join_collapse_limit = 12; SET work_mem = '5MB'")
        statements = [remedy.sql for remedy in chosen(connection, query, old, same_plan=True)]
        assert statements == [("SET LOCAL join_collapse_limit = 8",), ("SET LOCAL work_mem = 4096",)]
        assert chosen(connection, KIND, same_plan=True) == []


def test_the_memory_of_the_old_server_is_tried_where_the_plan_differs(cluster: Cluster) -> None:
    """What differs is the executor's, too: the plan of the old server has another setting first."""
    query = "SELECT note, count(*) FROM item GROUP BY note"
    with cluster.connect() as old, cluster.connect() as new:
        old.execute("SET work_mem = '64MB'")
        new.execute("SET work_mem = '64kB'")
        ask, theirs = Explainer(old, query), Explainer(new, query)
        wanted, before, now = ask.plan(), settings_of(old), settings_of(new)
        assert theirs.detail() != detail(wanted)
        settings = find_old_plan(theirs, detail(wanted), wanted, before, now).settings
        assert settings is not None and "work_mem" not in settings
        remedies = chosen(new, query, before, old_plan=settings)
        assert ("SET LOCAL work_mem = 65536",) in [remedy.sql for remedy in remedies] or "memory" in [
            remedy.kind for remedy in remedies
        ]


def test_a_with_query_that_is_inlined_is_fenced_again(cluster: Cluster) -> None:
    """As 11 did. A query that is written so has the plan that no setting brings."""
    plain = "WITH x AS (SELECT * FROM item WHERE kind < 500) SELECT count(*), max(note) FROM x WHERE a = 5"
    fenced = plain.replace(" AS (", " AS MATERIALIZED (")
    assert materialized(plain, ["x"]) == fenced
    with cluster.connect() as connection:
        ask, rewritten = Explainer(connection, plain), Explainer(connection, fenced)
        wanted, now = rewritten.plan(), settings_of(connection)
        assert (with_queries_of(wanted), with_queries_of(ask.plan())) == (["x"], [])
        assert find_old_plan(rewritten, detail(wanted), wanted, now, now).settings == {}
        first = chosen(connection, plain, old_plan={}, rewritten=rewritten)[-1]
        assert (first.kind, first.sql, first.text, first.before) == ("rewrite", (fenced,), fenced, ())
        assert first.plan == detail(wanted) and first.is_for_one_query
        off = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
        both = chosen(connection, plain, old_plan=off, rewritten=rewritten)[-1]
        assert (both.kind, both.sql, both.text) == ("rewrite", (*statements(off), fenced), fenced)


def test_sizes_are_restored_after_what_cannot_be_rolled_back(cluster: Cluster) -> None:
    sizes = (
        "SELECT relname, relpages, reltuples FROM pg_class WHERE relname IN ('grown', 'grown_id') ORDER BY 1"
    )
    with cluster.connect() as admin, cluster.connect() as connection:
        connection.execute("CREATE TABLE grown WITH (autovacuum_enabled = off) AS SELECT 1 AS id")
        connection.execute("CREATE INDEX grown_id ON grown (id)")
        connection.execute("ANALYZE grown")
        connection.execute("INSERT INTO grown SELECT n FROM generate_series(1, 50000) n")
        before = admin.execute(sizes).fetchall()
        kept = TableSizes(admin)
        connection.execute("BEGIN")
        connection.execute("ANALYZE grown")
        connection.execute("ROLLBACK")
        assert admin.execute(sizes).fetchall() != before, "pg_class is written in place"
        kept.restore()
        assert admin.execute(sizes).fetchall() == before
        connection.execute("DROP TABLE grown")


def test_distance_is_nothing_for_equal_plans_only(cluster: Cluster) -> None:
    with explainer(cluster, LARGE) as ask:
        own_detail, other = ask.detail() or (), ask.detail(["SET LOCAL enable_hashjoin = off"]) or ()
    assert distance(own_detail, own_detail) == 0 < distance(own_detail, other)
    assert distance(own_detail, [*own_detail[1:], own_detail[0]]) == 1

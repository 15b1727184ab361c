"""The plans kept with a step are those the server executes, on old and new ones, prepared or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from pgstrata.driver.samples import samples
from pgstrata.measure.query_plans import step_plans
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.workload.core.language import Expr, Headline, PgbenchScript, Role, Script, Sql, Step
from support.needs import needs
from support.steps import run_step, running, with_transactions

# Nearly all rows have kind 1; the others have 1000 kinds. A plan for kind 1 reads the table, one for any
# kind uses the index and is estimated to be cheaper, one for a kind that is not there is cheaper still.
TABLE = """
CREATE TABLE events (id int, kind int, pad text);
INSERT INTO events SELECT i, CASE WHEN i % 20 = 0 THEN i ELSE 1 END, repeat('x', 100)
FROM generate_series(1, 20000) i;
CREATE INDEX events_kind ON events (kind);
ANALYZE events;
"""


@pytest.fixture(scope="module", params=["9.6", "12", "17"])
@needs("server")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    server: Server = acquire(f"pg:{request.param}")
    with running(server) as cluster:
        with cluster.connect() as connection:
            connection.execute(TABLE)
        yield cluster


def step(mode: Any, kind: int = 1, *, script: bool = False, declared: bool = True) -> Step:
    if script:
        text = f"\\set kind {kind}\nSELECT count(pad) FROM events WHERE kind = :kind;\n"
        role = Role("query", 1, [PgbenchScript(text, "mine.sql")], mode=mode, prepare="lazy")
    else:
        sql = Sql("SELECT count(pad) FROM events WHERE kind = {k}", name="q", k=Expr(str(kind), "int4"))
        role = Role("query", 1, [Script(sql)], mode=mode, declare_types=declared)
    return Step("s", [role], Headline("query", "operations", "queries/s"), seconds=1, tables=["events"])


def plan_of(cluster: Cluster, chosen: Step) -> tuple[str, str, str]:
    """Kind, the node below the aggregate, and the statement."""
    (entry,), notes = step_plans(lambda: cluster.connect(), partial(samples, chosen.spec()))
    assert notes == []
    return entry.kind, entry.plan[0]["Plan"]["Plans"][0]["Node Type"], entry.statement


@pytest.mark.parametrize("script", [False, True], ids=["ops", "script"])
def test_a_generic_plan_is_shown_where_it_is_executed(cluster: Cluster, script: bool) -> None:
    kind, node, statement = plan_of(cluster, step("simple", script=script))
    assert (kind, node) == ("custom", "Seq Scan")
    assert statement.endswith("kind = 1")
    assert plan_of(cluster, step("extended", script=script))[:2] == ("custom", "Seq Scan")
    kind, node, statement = plan_of(cluster, step("prepared", script=script))
    assert kind == "generic"
    assert node in ("Index Scan", "Bitmap Heap Scan")
    assert statement.endswith("kind = $1")


@pytest.mark.parametrize("declared", [False, True])
def test_a_custom_plan_is_shown_where_the_server_keeps_to_it(cluster: Cluster, declared: bool) -> None:
    kind, node, statement = plan_of(cluster, step("prepared", 3, declared=declared))
    assert (kind, statement[-8:]) == ("custom", "kind = 3")
    assert node == "Index Scan"


def scans(cluster: Cluster) -> tuple[int, int]:
    with cluster.connect() as connection:
        row = connection.execute(
            "SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE relname = 'events'"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_the_driver_executes_what_is_shown(cluster: Cluster) -> None:
    """Of 25 executions the first five have plans for their value, the rest the generic one."""
    chosen = step("prepared")
    before = scans(cluster)
    run_step(cluster, "postgres", with_transactions(chosen, 25))
    deadline = time.monotonic() + 30
    # a backend reports its statistics when it ends, a moment after its connection was closed
    while sum(after := scans(cluster)) < sum(before) + 25 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (after[0] - before[0], after[1] - before[1]) == (5, 20)


def test_a_statement_without_parameters_and_one_that_cannot_be_prepared(cluster: Cluster) -> None:
    role = Role(
        "query",
        1,
        [
            Script(
                Sql("SELECT count(pad) FROM events", name="all"),
                Sql("SELECT count(pad) FROM nowhere WHERE kind = {k}", name="gone", k=Expr("1", "int4")),
                Sql("DELETE FROM events WHERE kind = {k}", name="delete", k=Expr("1", "int4")),
                Sql("INSERT INTO events VALUES ({k}, {k}, 'y')", name="insert", k=Expr("1", "int4")),
            )
        ],
        mode="prepared",
    )
    chosen = Step("s", [role], Headline("query", "operations", "queries/s"), seconds=1, tables=["events"])
    plans, notes = step_plans(lambda: cluster.connect(), partial(samples, chosen.spec()))
    assert {p.name: p.kind for p in plans} == {
        "all": "generic",
        "delete": "generic",
        "insert": "generic",
    }
    (note,) = notes
    assert note.startswith("no plan of gone") and "nowhere" in note
    with cluster.connect() as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (20000,)

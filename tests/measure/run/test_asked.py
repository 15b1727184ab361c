"""Around a run the server is asked for what it has; its number decides nothing."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from pgstrata.driver.samples import Sample
from pgstrata.measure.query_plans import step_plans
from pgstrata.measure.run.modules import create_modules, versions
from pgstrata.measure.run.settle import run_settle, vacuum_options
from pgstrata.server.capabilities import catalog_of
from pgstrata.server.find.acquire import acquire
from pgstrata.workload.core.language import Settle
from support.steps import running


@pytest.mark.server
@pytest.mark.parametrize(
    ("version", "number", "forces_cleanup"),
    [("9.6", 180000, False), ("10", 120000, False), ("17", 80000, True)],
)
def test_the_server_is_asked_for_what_it_has(
    version: str, number: int, forces_cleanup: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", property(lambda info: number))
    server = replace(acquire(f"pg:{version}"), version_num=number)
    with running(server) as cluster:
        # earthdistance needs cube, which only CASCADE creates.
        create_modules(cluster, server, "postgres", ["earthdistance"])
        with cluster.connect() as session:
            assert set(versions(session)) == {"cube", "earthdistance"}
            assert ("INDEX_CLEANUP" in vacuum_options(catalog_of(session))) == forces_cleanup
            session.execute("CREATE TABLE t AS SELECT 1 AS a")
            run_settle(cluster, Settle(["t"], 0.0), "postgres")
            rows = session.execute("SELECT reltuples FROM pg_class WHERE oid = 't'::regclass").fetchone()
            assert rows == (1,)
        plans, notes = step_plans(lambda: cluster.connect(), lambda: [Sample("role", "one", "SELECT 1")])
        assert len(plans) == 1 and not notes

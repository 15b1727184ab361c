"""A connection on which one query is executed turn by turn, with a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.driver.client import Driver
from pgstrata.driver.message import GivenSlices
from pgstrata.errors import DriverError
from pgstrata.measure.query_session import QuerySession
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.workload.core.language import Headline, Role, Script, Sql, Step
from support.cluster import cluster

__all__ = ["cluster"]

ITS_BACKEND = "SELECT pg_backend_pid(), pg_sleep(0.02)"
"""A transaction of three does not begin twice in a slice."""


def driver(cluster: Cluster, text: str, executions: int, rows: Path) -> Driver:
    op = Sql.verbatim(text, name="query", record=True, on_error="record")
    role = Role("query", 1, [Script(*[op] * executions)], counts="statements")
    step = Step("queries", [role], Headline("query", "operations", "queries/s"), seconds=1.0)
    connection = cluster.connection("postgres")
    return Driver(
        driver_spec(step, connection, 1, "blocking", results_dir=str(rows), turns=GivenSlices(), local=True)
    )


def test_all_turns_are_taken_on_one_connection(cluster: Cluster, tmp_path: Path) -> None:
    with driver(cluster, ITS_BACKEND, 3, tmp_path) as started:
        started.ready()
        session = QuerySession(started)
        assert session.is_new
        turns = [session.execute() for _ in range(3)]
        assert not session.is_new
        session.end()
    assert [len(turn.statements) for turn in turns] == [3, 3, 3]
    for turn in turns:
        part = turn.slice(1, 1.0)
        assert part is not None and part.seconds >= 0.06 and part.cpu_seconds is not None
    assert len({path.read_text() for path in tmp_path.glob("*.tsv")}) == 1


def test_a_connection_that_the_server_ends_is_an_error(cluster: Cluster, tmp_path: Path) -> None:
    ends = "SELECT pg_terminate_backend(pg_backend_pid())"
    with driver(cluster, ends, 1, tmp_path) as started:
        started.ready()
        session = QuerySession(started)
        with pytest.raises(DriverError, match="terminating connection"):
            session.execute()

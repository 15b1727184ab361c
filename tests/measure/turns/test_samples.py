"""Plans with other samples of ANALYZE, on a real server."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from pgstrata.measure.run.active import DATABASE
from pgstrata.measure.turns.participant import Participant
from pgstrata.measure.turns.samples import plans_by_sample
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.workload.core.language import Sql, Step
from pgstrata.workload.core.queries import query_step

# How many rows have a small value is known about only: 3,000 are sampled. The last table has no statistics.
TABLES = """
SELECT setseed(0.5);
CREATE TABLE drawn AS SELECT i AS id, 1000 * power(random(), 3) AS value, repeat('x', 50) AS more
FROM generate_series(1, 50000) i;
CREATE INDEX ON drawn (value);
ALTER TABLE drawn ALTER value SET STATISTICS 10;
CREATE TABLE plain AS SELECT i AS id FROM generate_series(1, 1000) i;
CREATE TABLE unknown AS SELECT i AS id FROM generate_series(1, 1000) i;
"""

LIMITS = [n / 20 for n in range(1000, 1400)]
"""Of values: of some of them the planner does not know whether the index is worth it."""

STATISTICS = b"SELECT * FROM pg_stats WHERE schemaname = 'public' ORDER BY 1, 2, 3"


def steps_of(**texts: str) -> dict[str, Step]:
    return {
        name: replace(
            query_step("queries", [[Sql.verbatim(text, name=name)]], 5.0, group="queries", measured=False),
            confined=False,
        )
        for name, text in texts.items()
    }


@pytest.mark.program
def test_plans_that_hang_on_the_sample_are_told_from_those_that_do_not(cluster: Cluster) -> None:
    with cluster.connect() as session:
        session.execute(f"CREATE DATABASE {DATABASE}".encode())
    with cluster.connect(DATABASE) as session:
        session.execute(TABLES.encode())
        session.execute("ANALYZE drawn, plain")
        before = session.execute(STATISTICS).fetchall()
    steps = steps_of(
        **{f"below{n}": f"SELECT sum(id) FROM drawn WHERE value < {n}" for n in LIMITS},
        plain="SELECT count(*) FROM plain",
        write="DELETE FROM plain",
        broken="SELECT 1; SELECT 2",
    )
    checked: list[bool] = []
    side = cast("Participant", SimpleNamespace(error=None, cluster=cluster))
    plans = plans_by_sample(side, steps, lambda: checked.append(True))
    assert plans["plain"] == 1 and "write" not in plans and "broken" not in plans
    several = [n for n in LIMITS if plans[f"below{n}"] > 1]
    assert 0 < len(several) < len(LIMITS) / 2, several
    assert len(checked) == 5
    with cluster.connect(DATABASE) as session:
        assert session.execute(STATISTICS).fetchall() == before
        assert session.execute("SELECT count(*) FROM plain").fetchone() == (1000,)
        assert session.execute("SELECT 1 FROM pg_stats WHERE tablename = 'unknown'").fetchall() == []


@pytest.mark.program
def test_a_query_that_cannot_be_planned_makes_nothing_known(cluster: Cluster) -> None:
    with cluster.connect() as session:
        session.execute(f"DROP DATABASE IF EXISTS {DATABASE}".encode())
    side = cast("Participant", SimpleNamespace(error=None, cluster=cluster))
    assert plans_by_sample(side, steps_of(a="SELECT 1"), lambda: None) == {}

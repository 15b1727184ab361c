"""Portions of a query: how long they are, and that each is executed when asked for, on a real server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.driver.client import Driver
from pgstrata.driver.events import SliceEnded, StatementDone
from pgstrata.driver.message import GivenSlices
from pgstrata.errors import DriverError
from pgstrata.measure.measurement import StepMeasurement
from pgstrata.measure.portions import Portions, as_portion, connected, portions_of
from pgstrata.measure.step import driver_spec
from pgstrata.measure.turns.interleaved import interleave
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server
from pgstrata.workload.core.language import Sql, Step
from pgstrata.workload.core.queries import explain_of, query_step

QUERIES = {
    "slow": "SELECT count(*) FROM generate_series(1, 20000)",
    "drawn": "SELECT random() < 2",
    "fails": "SELECT 1 / (CASE WHEN now() IS NULL THEN 1 ELSE 0 END)",
}


@given(seconds=st.floats(1e-7, 0.25), turn=st.floats(0.02, 1.0))
def test_portions_of_both_sides_balance_and_a_turn_is_bounded(seconds: float, turn: float) -> None:
    executions, portions = portions_of(seconds, turn)
    assert 1 <= executions <= 12
    assert portions == 1 or portions % 2 == 0, "each side comes first as often"
    assert portions <= 8
    assert executions == 1 or executions * seconds <= 0.016
    assert portions == 1 or executions * portions * seconds <= turn * 1.5


def portion(query: str, executions: int) -> Step:
    """A step whose transactions are portions of a query."""
    ops = [Sql.verbatim(text, name=name, record=True, on_error="record") for name, text in QUERIES.items()]
    step = query_step("queries", [ops], 30.0, group="test", measured=True)
    assert step.single is not None
    return as_portion(step.single.step(query, executions))


@dataclass
class Side:
    """One side of a pair. begun: by all sides, which has begun a portion."""

    cluster: Cluster
    name: str = ""
    begun: list[str] = field(default_factory=list)

    @contextmanager
    def portions(self, step: Step, cpus: Sequence[int]) -> Iterator[Portions]:
        """As of a StepMeasurement."""
        connection = self.cluster.connection("postgres")
        spec = driver_spec(step, connection, 1, "auto", turns=GivenSlices(), local=True)
        with connected(spec, cpus, pins_backends=True) as opened:
            execute = opened.execute

            def noted() -> list[StatementDone]:
                self.begun.append(self.name)
                return execute()

            opened.execute = noted  # type: ignore[method-assign]
            yield opened


@contextmanager
def portions(cluster: Cluster, query: str, executions: int) -> Iterator[Portions]:
    """Portions of a query on a server, on a connection of their own."""
    with Side(cluster).portions(portion(query, executions), ()) as opened:
        yield opened


@pytest.fixture
def cluster(place: Path, pg17: Server) -> Iterator[Cluster]:
    with Cluster(pg17, Resolved("plain"), place / "c") as cluster:
        cluster.create()
        cluster.start()
        yield cluster


def test_two_sides_take_turns_on_connections_that_stay(cluster: Cluster) -> None:
    with ExitStack() as stack:
        both = [stack.enter_context(portions(cluster, "slow", 3)) for _ in range(2)]
        done: list[list[Any]] = [[], []]
        for number in range(4):
            for side in (0, 1) if number % 2 else (1, 0):
                statements = both[side].execute()
                assert len(statements) == 3, "a portion is as many executions as were asked for"
                assert all(s.error is None and s.seconds > 0 and s.cpu is not None for s in statements)
                done[side] += statements
        with cluster.connect() as session:
            query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            row = session.execute(query).fetchone()
            assert row is not None and row[0] == 3, "two that stay, and this one"
        for opened in both:
            opened.end()
    for statements in done:
        starts = [statement.start for statement in statements]
        assert len(starts) == 12 and starts == sorted(starts)


def sides(cluster: Cluster, *queries: str) -> list[tuple[StepMeasurement, Step]]:
    """Sides that note in common who begins a portion."""
    begun: list[str] = []
    return [
        (cast("StepMeasurement", Side(cluster, "ab"[place], begun)), portion(query, 2))
        for place, query in enumerate(queries)
    ]


def test_neither_side_of_a_pair_comes_first_more_often(cluster: Cluster) -> None:
    checked: list[None] = []
    both = sides(cluster, "slow", "slow")
    pair = interleave(both, 4, (0,), lambda: checked.append(None))
    assert "".join(cast("Side", both[0][0]).begun) == "ab" + "abba" * 2, "a first that does not count"
    assert len(checked) == 10, "each portion may be interrupted"
    assert [len(done) for done in pair.done] == [8, 8]
    assert pair.failed is None and pair.load is not None and pair.load.other >= 0


def test_the_side_that_fails_is_named(cluster: Cluster) -> None:
    pair = interleave(sides(cluster, "slow", "fails"), 2, (), lambda: None)
    assert pair.failed is not None
    place, why = pair.failed
    assert place == 1 and isinstance(why, StatementDone) and why.error is not None


def test_what_fails_is_told_and_ends_the_portion(cluster: Cluster) -> None:
    with portions(cluster, "fails", 2) as opened:
        statements = opened.execute()
        assert statements[-1].error is not None and statements[-1].error.sqlstate == "22012"


def test_a_server_that_ends_is_an_error(cluster: Cluster) -> None:
    with portions(cluster, "slow", 1) as opened:
        opened.execute()
        with cluster.connect() as session:
            session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        with pytest.raises(DriverError):
            for _ in range(3):
                opened.execute()


class _Idle:
    """A driver that never gets a CPU in its slices."""

    given = 0

    def give_slice(self, seconds: float) -> None:
        assert seconds > 0
        self.given += 1

    def events(self) -> Iterator[SliceEnded]:
        while True:
            yield SliceEnded(number=self.given)


def test_a_driver_that_gets_no_cpu_is_not_waited_for_without_an_end() -> None:
    driver = _Idle()
    with pytest.raises(DriverError, match="no transaction has begun"):
        Portions(cast("Driver", driver)).execute()
    assert driver.given == 1000


def test_only_the_plan_of_a_single_known_query_is_asked_for() -> None:
    def explained(*ops: Sql) -> str | None:
        step = query_step("q", [ops], 1.0, group="test", measured=True)
        return explain_of(replace(step, single=None))

    assert explained(Sql.verbatim("SELECT 1", name="a")) == "EXPLAIN SELECT 1"
    assert explained(Sql.verbatim("SELECT 1; SELECT 2", name="a")) is None
    assert explained(Sql.verbatim("DELETE FROM t", name="a")) is None

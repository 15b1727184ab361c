"""One query in turn on several arms: servers, each with statements of its own before the query."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pgstrata import numbers
from pgstrata.campaign.plan.order import QUERY_SECONDS
from pgstrata.driver.events import StatementDone
from pgstrata.driver.spec import SqlSpec
from pgstrata.errors import DriverError, UsageError, server_said
from pgstrata.measure.explainer import ASK_SECONDS
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.measurement import other_load_of, turn_of
from pgstrata.measure.portions import as_portion, portions_of
from pgstrata.measure.table_sizes import TableSizes
from pgstrata.measure.turns.interleaved import interleave
from pgstrata.measure.turns.participant import Participant
from pgstrata.measure.turns.phases import mean_cpu
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.stats.executions import FIRST
from pgstrata.store.record import ExecutionCpu, Slice
from pgstrata.turns.model import order_of_pair
from pgstrata.workload.core.language import PgbenchScript, Script, SingleQueries, Sql, Step

WARM_SECONDS = 10.0
"""A query that takes less is executed once in each turn before it counts: ANALYZE in a turn has read what the
query reads, which must not help one arm only."""

PORTIONS_BELOW = 0.25
"""Seconds of an execution below which arms take turns in portions."""

MOST_EXECUTIONS = 50
"""Of one turn that is in one piece."""

MOST_PAIRS = 200
"""Of one comparison."""

LEAST_PAIRS = 8
"""Before the first look where a pair takes less than a second: intervals of fewer pairs are wide."""

MESSAGE = 200
"""Characters of what a server says."""


@dataclass
class Arm:
    """One of those that take turns.

    before: statements in the transaction of the query; seconds: of an execution, as far as it is known; text:
    of the statement that stands for the query, empty for its own; cpu: what an execution took of the CPUs, of
    each turn.
    """

    side: Participant
    before: Sequence[str]
    seconds: float | None
    text: str = ""
    slices: list[Slice] = field(default_factory=list)
    cpu: list[ExecutionCpu | None] = field(default_factory=list)


class ArmTurns:
    """Executes queries of a step on arms, in transactions that end with the connection.

    confined: queries are executed by the role that is no superuser. leave: called with a participant whose
    server cannot go on. end: when all has to be over, by the monotonic clock. settings: by query statements
    of its session before it. sizes: restored after each turn with statements before the query, by the label
    of the variant.
    """

    def __init__(
        self,
        single: SingleQueries,
        interrupts: Interrupts,
        leave: Callable[[Participant, Callable[[Participant], object]], None],
        end: float,
        *,
        confined: bool,
        settings: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self._single, self._confined, self._settings = single, confined, settings
        self._interrupts, self._leave = interrupts, leave
        self.end = end
        self.sizes: dict[str, TableSizes] = {}

    @property
    def limit_seconds(self) -> float:
        """After which the server cancels a query."""
        return self._single.limit_seconds

    def text(self, query: str) -> str:
        """Returns the statement of a query. Raises UsageError where it is made anew for each execution."""
        for script in self._single.step(query, 1).roles[0].scripts:
            for op in script.ops if isinstance(script, Script) else ():
                spec = op.op()
                if isinstance(spec, SqlSpec) and all(isinstance(part, str) for part in spec.sql):
                    return "".join(map(str, spec.sql))
        raise UsageError(f"the text of {query} is not known beforehand")

    def connect(
        self, side: Participant, stack: ExitStack, *, query: str = "", superuser: bool = False
    ) -> Any:
        """Returns a connection to the server that executes the queries, as the session of one of them,
        closed with the stack. Raises ServerError."""
        cluster = side.cluster.standbys.serving(reads_only=True)
        assert isinstance(cluster, Cluster)
        confined = self._confined and not superuser
        connection = stack.enter_context(cluster.connect(side.run.database, confined=confined))
        for statement in self._settings.get(query, ()):
            connection.execute(statement.encode(), prepare=False)
        return connection

    def check(self, side: Participant) -> None:
        """Lets a participant leave whose server has ended."""
        self._leave(side, lambda participant: participant.cluster.standbys.check())

    def in_turn(self, query: str, arms: Sequence[Arm], deadline: float, is_known: Callable[[], bool]) -> str:
        """Executes a query in turn until it is known. Returns why it ended before; empty where it did not.

        Goes on after the turns that the arms have already. Raises Interrupted.
        """
        first = max((part.pair for arm in arms for part in arm.slices), default=0) + 1
        if first > FIRST and is_known():
            return ""
        for pair in range(first, first + MOST_PAIRS):
            once = sum((arm.seconds or 0.0) * (2 if _is_warmed(arm) else 1) for arm in arms)
            if pair <= FIRST and time.monotonic() + (FIRST - pair + 1) * once > max(deadline, self.end):
                return f"{FIRST} pairs would take {numbers.duration(FIRST * once)}"
            order = [arms[place] for place in order_of_pair(pair, len(arms))]
            if why := self._pair(query, order, pair):
                return why
            least = FIRST if once > 1.0 else LEAST_PAIRS
            if pair >= least and (pair < LEAST_PAIRS or pair % 2 == 0) and is_known():
                return ""
            if time.monotonic() >= deadline:
                return f"its time was over after {numbers.counted(pair, 'pair')}"
        return f"not known after {numbers.counted(MOST_PAIRS, 'pair')}"

    def _pair(self, query: str, order: Sequence[Arm], pair: int) -> str:
        """Takes a turn of a query on each arm. Returns why there is none; empty if they were taken."""
        if all(_sets_only(arm) and arm.seconds is not None and arm.seconds < PORTIONS_BELOW for arm in order):
            return self._in_portions(query, order, pair)
        for arm in order:
            self._interrupts.check()
            if why := self._turn(query, arm, pair):
                return why
        return ""

    def _in_portions(self, query: str, order: Sequence[Arm], pair: int) -> str:
        """Takes turns in portions: nothing that an arm does before the query is seen by another."""
        executions, portions = portions_of(max(arm.seconds or 0.0 for arm in order), QUERY_SECONDS)
        sides = [
            (arm.side.measurement, as_portion(self._step(query, executions, arm)))
            for arm in order
            if arm.side.error is None and arm.side.measurement is not None
        ]
        if len(sides) < len(order):
            return "a server left the comparison"
        done = interleave(sides, portions, (), self._interrupts.check)
        if done.failed is not None:
            place, failure = done.failed
            if isinstance(failure, DriverError):
                self.check(order[place].side)
            error = failure if isinstance(failure, DriverError) else failure.error
            return f"{order[place].side.label}: {server_said(error.message if error else '', MESSAGE)}"
        for arm, statements in zip(order, done.done, strict=True):
            if why := _add(arm, pair, statements, other_load_of(done.load, arm.side.load_limit)):
                return why
        return ""

    def _turn(self, query: str, arm: Arm, pair: int) -> str:
        """Takes a turn of a query. Returns why there is none; empty if it was taken."""
        side = arm.side
        if side.error is not None or side.measurement is None:
            return f"{side.label} left the comparison"
        warm = int(_is_warmed(arm))
        seconds = arm.seconds or self.limit_seconds
        count = max(1, min(MOST_EXECUTIONS, round(QUERY_SECONDS / max(seconds, 1e-6))))
        try:
            executed = side.measurement.execute(self._step(query, count + warm, arm))
        except DriverError as error:
            self.check(side)
            return f"{side.label}: {server_said(error.message, MESSAGE)}"
        finally:
            if arm.before and (sizes := self.sizes.get(side.label)) is not None:
                sizes.restore()
        done = executed.statements
        if failed := next((execution.error for execution in done if execution.error is not None), None):
            return f"{side.label}: {server_said(failed.message, MESSAGE)}"
        return _add(arm, pair, done[warm:], executed.other_load(side.load_limit))

    def _step(self, query: str, executions: int, arm: Arm) -> Step:
        step = self._single.step(query, executions)
        (role,) = step.roles
        first = [f"SET statement_timeout = {round(1000 * ASK_SECONDS)}", "BEGIN", *arm.before]
        start = [Sql.verbatim(text, name="before") for text in (*first, "SET TRANSACTION READ ONLY")]
        if arm.text:
            role = replace(role, scripts=[_with_text(script, arm.text) for script in role.scripts])
        return replace(step, roles=[replace(role, start=[*start, *role.start])], confined=self._confined)


def _add(arm: Arm, pair: int, statements: Sequence[StatementDone], other_load: float | None) -> str:
    """Adds a turn to an arm. Returns why there is none; empty if it was added."""
    if (turn := turn_of(statements, pair, other_load)) is None:
        return f"{arm.side.label}: no execution came to its end"
    arm.seconds = 1 / turn.rate
    arm.slices.append(turn)
    arm.cpu.append(mean_cpu(statements))
    return ""


def _sets_only(arm: Arm) -> bool:
    """Returns whether an arm changes nothing before the query but settings of its own transaction: other
    arms of the same server would see, for example, what ANALYZE writes."""
    return all(statement.upper().startswith("SET LOCAL ") for statement in arm.before)


def _with_text(script: Script | PgbenchScript, text: str) -> Script:
    """Returns the executions of a query, with another statement."""
    assert isinstance(script, Script)
    return Script(*(op.with_text(text) for op in script.ops if isinstance(op, Sql)), name=script.name)


def _is_warmed(arm: Arm) -> bool:
    return arm.seconds is not None and arm.seconds < WARM_SECONDS


__all__ = ["MESSAGE", "Arm", "ArmTurns"]

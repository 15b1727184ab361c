"""One query while it takes turns: its pairs so far, and how soon it may be known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from pgstrata.campaign.plan.order import QUERY_SECONDS
from pgstrata.driver.events import StatementDone
from pgstrata.errors import server_said
from pgstrata.measure.portions import portions_of
from pgstrata.stats.executions import ENOUGH
from pgstrata.stats.verdict import Verdict
from pgstrata.store.record import QueryTurns
from pgstrata.turns.model import order_of_pair
from pgstrata.workload.core.recorded import CANCELLED

WARM_SECONDS = 0.25
"""A query that takes less is executed in portions. The first does not count: its connection is new, and reads
its catalogs again."""

BLOCK_SECONDS = 10.0
"""Pairs of one query that begin within this time are one block, and may share a state of the machine."""

CLEARLY = 1.5
"""Times as long on one side: what differs by so much is known before `ENOUGH` pairs."""

PAIRS_IF_CLEARLY = 6
"""At which it is then, about."""

PART_OF_DIFFERENCE = 0.8
"""A difference is known when the interval reaches so far to each side, as a part of it: less than all, since
it is one of many."""

MORE_AT_LEAST = 1.1
"""Times as many pairs as there are that are guessed where it could be known already: guesses are too good of
what is close to a bound, and others wait."""

IN_BLOCK = 8.0
"""Times as long as it is a query seems to take whose last block has not ended: pairs that lie apart tell
more, but not so much more that a long query must be next."""

LONGEST_MESSAGE = 200
"""Characters of what a server says of a query it rejects."""


@dataclass
class Query:
    """One query while it is executed. turns: by the label of each variant that had it in the pass."""

    name: str
    turns: dict[str, QueryTurns] = field(default_factory=dict)
    pairs_of_start: Counter[int] = field(default_factory=Counter)
    """By the number of the servers' start."""
    is_known: bool = False
    pair_seconds: float = 0.0
    """Of all pairs so far, by the clock."""
    scatter: float = 0.0
    """Standard deviation of the log ratio of a pair, of the variant where it is largest."""
    blocks: list[int] = field(default_factory=list)
    """The last pair of each block."""
    block_begun: float = -math.inf
    """When the last block began, by the monotonic clock."""
    is_serial: bool | None = None
    """Whether its plans have no parallel workers; None until it is asked."""
    known_at: float | None = None
    """Pairs at which it is known, guessed by the last look; None before it."""

    @property
    def pairs(self) -> int:
        """So far."""
        return self.pairs_of_start.total()

    @property
    def starts(self) -> int:
        """How many starts with equally many pairs would tell as much as its own, rounded down: a single pair
        after a start is hardly a second one (Kish 1965, 11.7)."""
        return self.pairs**2 // sum(count**2 for count in self.pairs_of_start.values())

    @property
    def seconds(self) -> float:
        """Of an execution, on the variant that takes longest."""
        return max((turns.seconds or 0.0 for turns in self.turns.values()), default=0.0)

    @property
    def portions(self) -> tuple[int, int]:
        """Executions of a portion, and portions of a turn that count."""
        return portions_of(self.seconds, QUERY_SECONDS)

    @property
    def in_portions(self) -> bool:
        """Whether it is executed in portions, of which the first does not count."""
        return self.seconds < WARM_SECONDS

    @property
    def seconds_of_pair(self) -> float:
        """By the clock; before the first pair what its executions take."""
        if self.pairs:
            return self.pair_seconds / self.pairs
        executions, portions = self.portions if self.in_portions else (1, 0)
        return len(self.turns) * self.seconds * executions * (1 + portions)

    @property
    def seconds_left(self) -> float:
        """Until it is known, guessed."""
        known_at = self.known_at
        if known_at is None:
            taken = [turns.seconds for turns in self.turns.values() if turns.seconds]
            known_at = _known_at_few(max(taken) / min(taken)) if taken else ENOUGH
        return max(1.0, known_at - self.pairs) * self.seconds_of_pair

    def rank(self, now: float, deadline: float) -> tuple[bool, float]:
        """Returns the key by which the next query is the least one: those that cannot be known before the
        deadline come last. now, deadline: by the monotonic clock."""
        left = self.seconds_left
        return now + left > deadline, left * (IN_BLOCK if self._is_in_block(now) else 1.0)

    def _is_in_block(self, now: float) -> bool:
        return now - self.block_begun < BLOCK_SECONDS

    def begin_pair(self, start: int, now: float) -> None:
        """Counts a pair. start: the number of the servers' start; now: by the monotonic clock."""
        self.pairs_of_start[start] += 1
        if self._is_in_block(now):
            self.blocks[-1] = self.pairs
        else:
            self.block_begun = now
            self.blocks.append(self.pairs)

    def look(self, verdicts: Sequence[Verdict]) -> None:
        """Guesses anew at how many pairs it is known. verdicts: on all variants, after the pairs so far."""
        self.known_at = max((_known_at(verdict, self.pairs) for verdict in verdicts), default=None)


def _known_at(verdict: Verdict, pairs: int) -> float:
    """Returns at how many pairs a verdict is known, guessed: an interval narrows with the root of them."""
    if not verdict.ratio > 0:
        return 2.0 * pairs
    if pairs < ENOUGH:
        return _known_at_few(verdict.ratio)
    if not (verdict.is_bounded and verdict.low > 0 and math.isfinite(verdict.high)):
        return 2.0 * pairs
    half, apart = math.log(verdict.high / verdict.low) / 2, abs(math.log(verdict.ratio))
    margin = -math.log1p(-verdict.margin)
    needed = PART_OF_DIFFERENCE * apart if apart > margin else margin - apart
    return pairs * max(MORE_AT_LEAST, (half / needed) ** 2) if needed > 0 else math.inf


def _known_at_few(ratio: float) -> float:
    """Returns the same where there are few pairs or none. ratio: of the sides so far."""
    return PAIRS_IF_CLEARLY if abs(math.log(ratio)) >= math.log(CLEARLY) else ENOUGH


def order_after_start(start: int, pair: int, variants: int) -> list[int]:
    """Returns the numbers of the variants in their order in a pair of a query, counted from the start of the
    servers; both numbers from 1.

    Who comes first after a start gets other memory than who comes second
    (benchmarks/results/queries.md): after every second start that is another one.
    """
    return order_of_pair(pair + 2 * (start - 1), variants)


def queries_of(passes: Mapping[str, Sequence[StatementDone]]) -> list[Query]:
    """Returns the queries of a pass on each variant, those that take the least time first. passes: what the
    driver recorded, by the label of the variant."""
    queries: dict[str, Query] = {}
    for label, statements in passes.items():
        for statement in statements:
            query = queries.setdefault(statement.name, Query(statement.name))
            turns = query.turns.get(label, QueryTurns(name=statement.name))
            query.turns[label] = with_execution(turns, statement)
    return sorted(queries.values(), key=lambda query: query.seconds)


def with_execution(turns: QueryTurns, statement: StatementDone) -> QueryTurns:
    """Returns the turns with one more execution: how long it took, or why it did not come to its end."""
    if statement.error is None:
        least = min(statement.seconds, turns.seconds or statement.seconds)
        return replaced(turns, seconds=least)
    if statement.error.sqlstate == CANCELLED:
        return replaced(turns, end="limited")
    return replaced(turns, end="rejected", reason=server_said(statement.error.message, LONGEST_MESSAGE))


def replaced(turns: QueryTurns, **changes: object) -> QueryTurns:
    """Returns the turns with other values of some fields."""
    return structs.replace(turns, **changes)


__all__ = [
    "LONGEST_MESSAGE",
    "Query",
    "order_after_start",
    "queries_of",
    "replaced",
    "with_execution",
]

"""What is not known of an upgrade, and how many more rounds would settle it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pgstrata import numbers
from pgstrata.judge.statements import WEIGHTY, StatementVerdict
from pgstrata.stats.criterion import FIRST
from pgstrata.store.record import Slice
from pgstrata.traffic.replay.judged import Judged
from pgstrata.turns.rounds import AROUND_ROUND_SECONDS

MOST_ROUNDS = 500
"""More are not worth naming: the statement differs too much from round to round."""

SAFE = 1.2
"""Times the rounds that the formula gives: intervals that may be looked at again are wider."""

NEAR = 0.25
"""Of the margin: an estimate nearer to it than this needs an interval no narrower than this."""

LEAST_MINUTES = 5

MOST_SLOWER = 5
"""Bounds beyond this many times say nothing but that there were too few rounds."""


@dataclass(frozen=True)
class Settling:
    """rounds: more that would settle what is open, None where none would; minutes: that they take; why: of
    the statements that no number of rounds settles."""

    rounds: int | None
    minutes: int
    why: str = ""

    @property
    def sentence(self) -> str:
        """The same for people."""
        if self.rounds is None:
            return self.why
        return (
            f"about {numbers.counted(self.rounds, 'more round')}, {numbers.counted(self.minutes, 'minute')}"
        )


def undecided(judged: Judged) -> list[StatementVerdict]:
    """Returns the statements that matter of which it is not known whether they are slower: what is the same
    or faster, but not which of the two, is known well enough."""
    return [
        statement_verdict
        for statement_verdict in judged.of("unclear")
        if statement_verdict.share >= WEIGHTY
        and (
            statement_verdict.verdict.aside
            or statement_verdict.verdict.low <= 1 - statement_verdict.verdict.margin
        )
    ]


def settling(judged: Judged, round_seconds: float) -> Settling | None:
    """Returns what would settle the statements that are open; None where none is.

    round_seconds: of one round of all versions together.
    """
    if judged.disturbance:
        rounds = max(FIRST, judged.rounds)
        return Settling(rounds, _minutes(rounds, round_seconds))
    open_ = [
        statement_verdict for statement_verdict in undecided(judged) if not statement_verdict.verdict.aside
    ]
    if not open_:
        return None
    needed = [_more(statement_verdict) for statement_verdict in open_]
    possible = [rounds for rounds in needed if rounds <= MOST_ROUNDS]
    if not possible:
        return Settling(
            None,
            0,
            "their times differ too much from round to round: a longer log, a quieter machine or a larger "
            "--margin may settle it",
        )
    most = math.ceil(max(possible))
    return Settling(most, _minutes(most, round_seconds))


def _more(statement_verdict: StatementVerdict) -> float:
    """Returns how many rounds are missing until the interval is so narrow that it leaves out either no
    difference or one beyond the margin. Its width falls with the root of their number."""
    verdict = statement_verdict.verdict
    if not verdict.is_bounded or statement_verdict.rounds < 2:
        return max(FIRST, 2 * statement_verdict.rounds)
    half = (math.log(verdict.high) - math.log(verdict.low)) / 2
    bound = -math.log1p(-verdict.margin)
    estimate = abs(math.log(verdict.ratio))
    target = max(bound - estimate if estimate < bound else estimate, NEAR * bound)
    return max(
        2.0, math.ceil(SAFE * statement_verdict.rounds * (half / target) ** 2) - statement_verdict.rounds
    )


def _minutes(rounds: float, round_seconds: float) -> int:
    return max(LEAST_MINUTES, math.ceil(rounds * round_seconds / 60))


def at_most(statements: Sequence[StatementVerdict]) -> str:
    """Returns what is known all the same: how slow they are at the most; empty where that says nothing."""
    lows = [statement.verdict.low for statement in statements]
    if (
        not lows
        or not 1 / MOST_SLOWER < min(lows) < 1
        or any(statement.verdict.aside for statement in statements)
    ):
        return ""
    return f"; probably none takes {numbers.longer(1 / min(lows))} or more"


def seconds_of_round(slices: Sequence[Slice], versions: int) -> tuple[float, float]:
    """Returns the seconds of one round of all versions together by the clock, and those that are measured.

    slices: the rounds of one version in one repeat. What stands between rounds is a copy of the data and the
    start of a server, which takes long on a busy machine.
    """
    measured = versions * sum(slice_.seconds for slice_ in slices) / max(1, len(slices))
    starts = sorted(datetime.fromisoformat(slice_.started) for slice_ in slices if slice_.started is not None)
    if len(starts) < 2:
        return measured + versions * AROUND_ROUND_SECONDS, measured
    return max(measured, (starts[-1] - starts[0]).total_seconds() / (len(starts) - 1)), measured


__all__ = ["Settling", "at_most", "seconds_of_round", "settling", "undecided"]

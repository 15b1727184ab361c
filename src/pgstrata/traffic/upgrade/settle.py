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
    def said(self) -> str:
        """The same for people."""
        if self.rounds is None:
            return self.why
        return (
            f"about {numbers.counted(self.rounds, 'more round')}, {numbers.counted(self.minutes, 'minute')}"
        )


def undecided(own: Judged) -> list[StatementVerdict]:
    """Returns the statements that matter of which it is not known whether they are slower: what is the same
    or faster, but not which of the two, is known well enough."""
    return [
        one
        for one in own.of("unclear")
        if one.share >= WEIGHTY and (one.verdict.aside or one.verdict.low <= 1 - one.verdict.margin)
    ]


def settling(own: Judged, round_seconds: float) -> Settling | None:
    """Returns what would settle the statements that are open; None where none is.

    round_seconds: of one round of all versions together.
    """
    if own.disturbance:
        rounds = max(FIRST, own.rounds)
        return Settling(rounds, _minutes(rounds, round_seconds))
    open_ = [one for one in undecided(own) if not one.verdict.aside]
    if not open_:
        return None
    needed = [_more(one) for one in open_]
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


def _more(one: StatementVerdict) -> float:
    """Rounds that are missing until the interval is so narrow that it leaves out either no difference or one
    beyond the margin. Its width falls with the root of their number."""
    verdict = one.verdict
    if not verdict.is_bounded or one.rounds < 2:
        return max(FIRST, 2 * one.rounds)
    half = (math.log(verdict.high) - math.log(verdict.low)) / 2
    bound = -math.log1p(-verdict.margin)
    estimate = abs(math.log(verdict.ratio))
    target = max(bound - estimate if estimate < bound else estimate, NEAR * bound)
    return max(2.0, math.ceil(SAFE * one.rounds * (half / target) ** 2) - one.rounds)


def _minutes(rounds: float, round_seconds: float) -> int:
    return max(LEAST_MINUTES, math.ceil(rounds * round_seconds / 60))


def at_most(statements: Sequence[StatementVerdict]) -> str:
    """Returns what is known all the same: how slow they are at the most; empty where that says nothing."""
    lows = [one.verdict.low for one in statements]
    if not lows or not 1 / MOST_SLOWER < min(lows) < 1 or any(one.verdict.aside for one in statements):
        return ""
    return f"; probably none takes {numbers.longer(1 / min(lows))} or more"


def seconds_of_round(slices: Sequence[Slice], versions: int) -> tuple[float, float]:
    """Returns the seconds of one round of all versions together by the clock, and those that are measured.

    slices: the rounds of one version in one repeat. What stands between rounds is a copy of the data and the
    start of a server, which takes long on a busy machine.
    """
    measured = versions * sum(one.seconds for one in slices) / max(1, len(slices))
    starts = sorted(datetime.fromisoformat(one.started) for one in slices if one.started is not None)
    if len(starts) < 2:
        return measured + versions * AROUND_ROUND_SECONDS, measured
    return max(measured, (starts[-1] - starts[0]).total_seconds() / (len(starts) - 1)), measured


__all__ = ["Settling", "at_most", "seconds_of_round", "settling", "undecided"]

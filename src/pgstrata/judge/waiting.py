"""What connections waited for longer on one side than on the other: why a rate is lower, where it is clear.

A state of a connection is a wait event, `running` (it did not wait) or waiting for its client. Shares are of
the time in which a connection did not wait for its client: with many variants on a machine most of it is the
turn of another one. An event is named where, over all steps that are looked at,

- its share grew by at least `LEAST_GROWTH`, and by `ERRORS` standard errors;
- it grew `AHEAD` times as much as any other state, `running` included;
- it grew in each of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from pgstrata.store.record import StepRecord

LEAST_GROWTH = 0.1
"""Of a connection's time."""

AHEAD = 2.0
"""The same event on both sides grows a little with any other: waits follow each other."""

ERRORS = 3.0
"""Standard errors beyond which growth is no chance, however many events there are."""

RUNNING = "running"
_CLIENT = "client:"


@dataclass(frozen=True)
class _Shares:
    """Shares of the time by state, and the samples that they are worth: one a poll, as connections of one
    moment wait alike."""

    by_state: Mapping[str, float]
    samples: float

    def error(self, state: str) -> float:
        """Returns the standard error of a share, that of a state never seen included (Agresti and Coull
        1998)."""
        samples = self.samples + 4.0
        share = (self.by_state.get(state, 0.0) * self.samples + 2.0) / samples
        return math.sqrt(share * (1 - share) / samples)


def grown_wait(steps: Sequence[tuple[Sequence[StepRecord], Sequence[StepRecord]]]) -> str:
    """Returns the wait event whose share of the time grew most from base to other in these steps, as `LWLock
    BufferMapping`; empty where it is not clear, or wait events were not sampled.

    steps: the records of the base's repeats and of the other's, of each step.
    """
    sides = [(_shares(base), _shares(other)) for base, other in steps]
    pairs = [(base, other) for base, other in sides if base is not None and other is not None]
    if not pairs or len(pairs) < len(steps):
        return ""
    states = {state for pair in pairs for side in pair for state in side.by_state}
    grown = {
        state: [other.by_state.get(state, 0.0) - base.by_state.get(state, 0.0) for base, other in pairs]
        for state in states
    }
    (growth, state), (next_growth, _), *_ = sorted(
        [*((mean(values), name) for name, values in grown.items()), (0.0, ""), (0.0, "")], reverse=True
    )
    error = math.sqrt(sum(side.error(state) ** 2 for pair in pairs for side in pair)) / len(pairs)
    is_clear = growth >= max(LEAST_GROWTH, ERRORS * error, AHEAD * next_growth)
    if state == RUNNING or not is_clear or min(grown[state]) <= 0:
        return ""
    return _spelt(state, [record for _, other in steps for record in other])


def _shares(repeats: Sequence[StepRecord]) -> _Shares | None:
    """Returns the shares of the headline's role over the repeats of a step; None where they were not
    sampled."""
    totals: dict[str, float] = {}
    for record in repeats:
        if record.waits is None or record.waits_cost is None:
            return None
        for name, share in record.waits.get(record.role, {}).items():
            if not name.casefold().startswith(_CLIENT):
                state = name.casefold()  # 17 respelt many
                totals[state] = totals.get(state, 0.0) + share * record.waits_cost.polls
    samples = sum(totals.values())
    return _Shares({state: count / samples for state, count in totals.items()}, samples) if samples else None


def _spelt(state: str, records: Sequence[StepRecord]) -> str:
    """Returns the name of an event as the server that waits spells it, without a colon."""
    names = (name for record in records for name in (record.waits or {}).get(record.role, {}))
    return next(name for name in names if name.casefold() == state).replace(": ", " ")


__all__ = ["grown_wait"]

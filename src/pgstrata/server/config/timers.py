"""Settings that a server counts by its clock, made longer where it is frozen now and then.

Of several variants in frozen turns each works for its share of the time only. A timer that is longer than a
turn would ring after less work than it does alone, and is made so many times as long as there are variants:
then it rings at about the same amount of work. What is shorter than a turn rings within turns as ever, and
once more at the begin of one at most; it stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.settings import read_number, seconds, with_unit

PERIODS = {
    "archive_timeout": "0",
    "autovacuum_naptime": "1min",
    "bgwriter_delay": "200ms",
    "checkpoint_timeout": "5min",
    "checkpoint_warning": "30s",
    "deadlock_timeout": "1s",
    "wal_writer_delay": "200ms",
}
"""With their defaults, which all versions that have them share; 0 is off."""

TIMEOUTS = (
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "statement_timeout",
    "transaction_timeout",
)
"""Off by default. However short, they end nothing that was only frozen."""


@dataclass(frozen=True)
class TurnLengths:
    """What frozen turns are to a server's clock: of so many variants, about so long, and at most so long."""

    variants: int
    seconds: float
    longest: float


def longer_timers(settings: Mapping[str, str], known: KnownSettings, turns: TurnLengths) -> dict[str, str]:
    """Returns the timers as they are to be with such turns, as long as the server allows.

    settings: of a config that has been checked; known: of the server.
    """
    timers = {}
    for name in (*PERIODS, *TIMEOUTS):
        row = known.get(name)
        if row is None or not row.unit:
            continue
        value = settings.get(name, PERIODS.get(name, "0"))
        number, length = read_number(row, value, 0), seconds(row, value)
        longer = number * turns.variants
        if name in TIMEOUTS:
            if length <= 0:
                continue
            longer += (turns.variants - 1) * turns.longest * number / length
        elif length <= turns.seconds:
            continue
        timers[name] = with_unit(row, longer if row.high is None else min(longer, row.high))
    return timers


__all__ = ["TurnLengths", "longer_timers"]

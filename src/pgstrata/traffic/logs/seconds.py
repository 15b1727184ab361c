"""Logs whose times have no fraction of a second: entries of one second are spread over it.

Left at the beginning of their second, the statements of a busy server would be replayed in bursts. The order
of the lines says what ended first, and the durations how long a session was busy before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pgstrata.traffic.logs.line import LogEntry

SECOND = 1_000_000
"""Microseconds."""

MOST_HELD = 128 << 20
"""Letters of the messages of one second that are held; of more, the first part is spread by itself."""

_DURATION = re.compile(r"duration: ([0-9]{1,9}(?:\.[0-9]{1,3})?) ms")


def spread(entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
    """Yields the entries with times spread within their seconds."""
    held: list[LogEntry] = []
    letters = 0
    ends: dict[str, int] = {}
    for entry in entries:
        if held and (entry.time != held[0].time or letters > MOST_HELD):
            yield from _spread(held, ends)
            held, letters = [], 0
            if len(ends) > 100_000:
                ends.clear()
        held.append(entry)
        letters += len(entry.message)
    yield from _spread(held, ends)


def _spread(held: list[LogEntry], ends: dict[str, int]) -> list[LogEntry]:
    """Spreads the entries of one second evenly in the order of their lines, then moves each as far as the
    durations of its session ask for. ends: the last time of each session."""
    if not held:
        return held
    begin = held[0].time
    last = begin + SECOND - 1
    times = [begin + SECOND * (2 * n + 1) // (2 * len(held)) for n in range(len(held))]
    took = [_microseconds(entry.message) for entry in held]
    for number, entry in enumerate(held):
        # Not before the session's last statement has ended and this one has run.
        before = ends.get(entry.session, 0)
        times[number] = min(last, max(times[number], before + took[number]))
        ends[entry.session] = times[number]
    following: dict[str, int] = {}
    for number in range(len(held) - 1, -1, -1):
        # Not after the session's next statement has begun, so that nothing is pushed out of the second.
        session = held[number].session
        times[number] = max(begin, min(times[number], following.get(session, last)))
        following[session] = times[number] - took[number]
    for entry, time in zip(held, times, strict=True):
        entry.time = ends[entry.session] = time
    return held


def _microseconds(message: str) -> int:
    match = _DURATION.match(message)
    return round(float(match[1]) * 1000) if match else 0


__all__ = ["MOST_HELD", "SECOND", "spread"]

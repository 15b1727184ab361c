"""Windows: slices so short that all drivers stay connected, each working in windows of its own."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pgstrata import numbers
from pgstrata.driver.spec import WindowsSpec
from pgstrata.stats.criterion import LEAST_BLOCKS
from pgstrata.store.record import ComparisonRecord, TurnKind
from pgstrata.turns.model import Least, Length, Neighbours, Pairs, pairs_by_rate
from pgstrata.turns.slices import Slices

AROUND_BLOCK_SECONDS = 0.5
"""New drivers of all variants, their connections, and reading the statistics before and after."""

START_AGAIN_SECONDS = 0.25
"""Stopping a server that has only read, and starting it again."""

SHORT_SECONDS = 0.25
"""Slices below this are windows: a new connection for each would take longer than what it measures."""

GAP = 0.05
"""Between two windows, as a share of one: what was under way in the first comes to its end."""

CONNECTED_SECONDS = 0.1
"""Unmeasured begin of each batch after the first: new connections read their catalogs again. The windows
after it are as fast as later ones (benchmarks/results/got-slower.md)."""

FIRST_WARMUP_SECONDS = 1.0
"""Least warm-up of the first batch of a step in windows."""

TRIED_SECONDS = 0.25
"""In which statements show how long they take; one that takes longer ends all the same."""

BLOCK_SECONDS = 1.0
"""Measured of each variant with one set of connections on one set of CPUs. What these are by chance is part
of its speed, and is drawn anew with them."""

SHORT_BLOCK_SECONDS = 0.2
"""A step of a fixed, short time has batches of this length at least."""

MOST_BLOCKS = 40
"""Batches of a step of a fixed time: more of them would not make its error better known."""

LONG_SHARE = 0.25
"""A statement that takes a larger share of a slice than this would work on into the slice of another variant:
then a slice ends with its last transaction, and the next one begins after it."""

STATEMENTS_OF_SLICE = 5
"""So many of the longest statements fit into a slice that has grown with them."""

GROWN_SECONDS = 0.5
"""Slices grow up to this; a statement that takes longer is a slice of its own."""

READ_AGAIN_RATE = 400 << 20
"""Bytes per second in which a server that has been started anew reads its data into its buffers again, at
least."""


class Windows:
    """Slices of some milliseconds in batches, each batch with new connections."""

    name: TurnKind = "windows"
    part: Final = "slice"
    pair: Final = "pair"
    keeps_connections: Final = True
    from_snapshot: Final = False

    def cost(self, length: Length) -> float:
        """Returns the cost in seconds of all windows with the gaps between them, and the warm-up and the
        begin of each batch."""
        fixed = length.most_seconds is None
        seconds = length.seconds if length.most_seconds is None else length.most_seconds
        blocks = len(block_lengths(seconds, fixed=fixed))
        data = length.data_bytes if length.begins_anew else None
        warmups = (warmup_of_block(n + 1, length.warmup, data_bytes=data) for n in range(blocks))
        around = blocks * AROUND_BLOCK_SECONDS / length.variants
        around += blocks * START_AGAIN_SECONDS if length.begins_anew else 0.0
        return (seconds + sum(warmups)) * (1 + GAP) + around

    def least(self, part_seconds: float) -> Least:
        """Returns the batches that are needed to tell chance from a difference; they may be a little
        shorter."""
        del part_seconds
        text = f"{LEAST_BLOCKS} batches of about {numbers.duration(BLOCK_SECONDS)}"
        return Least((LEAST_BLOCKS - 1) * BLOCK_SECONDS, text)

    def pairs(self, neighbours: Neighbours, blocks: tuple[int, ...]) -> Pairs:
        """Returns the pairs with the rates of windows: both windows of a pair take equally long."""
        return pairs_by_rate(neighbours, blocks)

    def describe(self, parts: int, comparison: ComparisonRecord) -> str:
        """Returns the words for slices, as pages call windows."""
        return Slices().describe(parts, comparison)


def block_lengths(seconds: float, *, fixed: bool = False) -> list[float]:
    """Returns the lengths, in seconds of each variant, of the batches of a step in windows: an even number of
    equal ones.

    Every batch has new connections on CPUs that are drawn anew, and often servers that have been started
    anew, in both orders as often. fixed: the step ends by time; it has as many batches as a verdict needs,
    where it is long enough, and not many more."""
    count = seconds / BLOCK_SECONDS
    if fixed:
        count = min(max(count, LEAST_BLOCKS), MOST_BLOCKS, seconds / SHORT_BLOCK_SECONDS)
    even = 2 * max(1, round(count / 2))
    return [seconds / even] * even


def first_look(slice_seconds: float) -> int | None:
    """Returns the pairs of slices before the first look at a verdict, where it is known when the last one
    will be; else None."""
    if slice_seconds >= SHORT_SECONDS:
        return None
    return round(LEAST_BLOCKS * BLOCK_SECONDS / slice_seconds)


def grown_slice(slice_seconds: float, statement_seconds: float) -> float | None:
    """Returns how long slices are that end with their last transaction; None where statements are so short
    that windows of `slice_seconds` do."""
    if statement_seconds <= LONG_SHARE * slice_seconds:
        return None
    return max(slice_seconds, min(STATEMENTS_OF_SLICE * statement_seconds, GROWN_SECONDS))


def warmup_of_block(number: int, warmup: float, *, data_bytes: int | None = None) -> float:
    """Returns the seconds of warm-up of the batch of this number, from 1: the first has the
    whole `warmup` of the step.

    data_bytes: size of the data, where servers start anew before each batch and have to read it again: then
    all batches are alike.
    """
    if data_bytes is not None:
        return CONNECTED_SECONDS + data_bytes / READ_AGAIN_RATE
    return warmup if number == 1 else CONNECTED_SECONDS


ORDERS = 256
"""Random blocks of two pairs until they repeat."""


@dataclass(frozen=True)
class WindowSchedule:
    """The schedule of slices without new connections, as docs/reference/driver.md has it (`windows`).

    Every second pair is the one before it backwards; the order of the first is drawn from `seed`. A regular
    order would make an enemy of everything on the machine that comes in a beat near to its own: another
    comparison of the same kind hit one variant for seconds in a row.
    """

    slice_seconds: float
    participants: int
    warmup: float
    seed: int

    @property
    def gap_seconds(self) -> float:
        return self.slice_seconds * GAP

    @cached_property
    def _orders(self) -> list[list[int]]:
        dice = random.Random(self.seed)
        drawn = (dice.sample(range(self.participants), self.participants) for _ in range(ORDERS))
        return [order for first in drawn for order in (first, first[::-1])]

    @cached_property
    def _positions(self) -> list[list[int]]:
        return [
            [order.index(participant) for order in self._orders] for participant in range(self.participants)
        ]

    def positions(self, participant: int) -> list[int]:
        """Returns this participant's place in each of the pairs, until they repeat."""
        return self._positions[participant]

    def spec(self, participant: int) -> WindowsSpec:
        """Returns `windows` of the driver's spec."""
        return WindowsSpec(
            slice_seconds=self.slice_seconds,
            gap_seconds=self.gap_seconds,
            participants=self.participants,
            positions=self.positions(participant),
        )

    def moment(self, participant: int, active: float) -> float:
        """Returns the seconds from the common zero until `active` ones are measured of this participant."""
        return window_moment(self.spec(participant), self.warmup, active)


def window_moment(windows: WindowsSpec, warmup: float, active: float) -> float:
    """Returns the seconds from the common zero until `active` seconds have been measured in the `windows` of
    a driver's spec; where a window ends, the begin of the next one.

    In nanoseconds, as the driver counts: in binary fractions 1.1 s would be twelve slices of 0.1 s.
    """
    slice_, gap = _nanoseconds(windows.slice_seconds), _nanoseconds(windows.gap_seconds)
    number, inside = divmod(_nanoseconds(active), slice_)
    window = -(-_nanoseconds(warmup) // slice_) + number
    at = window * windows.participants + windows.positions[window % len(windows.positions)]
    return float(at * (slice_ + gap) + inside) / 1e9


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


__all__ = [
    "BLOCK_SECONDS",
    "FIRST_WARMUP_SECONDS",
    "GAP",
    "SHORT_SECONDS",
    "TRIED_SECONDS",
    "WindowSchedule",
    "Windows",
    "block_lengths",
    "first_look",
    "grown_slice",
    "warmup_of_block",
    "window_moment",
]

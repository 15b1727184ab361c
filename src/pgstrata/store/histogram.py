"""Latency histograms as the driver encodes them, and the field's response-time buckets.

Histograms are HDR (G. Tene, HdrHistogram.org): 3 significant digits from 1 µs on, values in microseconds, V2
compressed encoding in base64. That is a header of 8 bytes and a zlib stream: a header of 40 bytes, then the
counters in the order of their values as ZigZag numbers of 7 bits a byte, a negative number for so many empty
counters. Counting is done on whole arrays, because one report reads half a million histograms.
"""

from __future__ import annotations

import binascii
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from pgstrata.errors import StoreError
from pgstrata.files.bounded import inflate

LOWEST_US, HIGHEST_US, DIGITS = 1, 3_600_000_000, 3

MOST_BYTES = 1 << 20
"""Of a histogram, unpacked: the largest of this precision has 55,296 counters of at most nine bytes."""

Values = npt.NDArray[np.int64]

# label, upper bound in microseconds: the Insert Benchmark's own buckets
BUCKETS: tuple[tuple[str, int | None], ...] = (
    ("≤ 256 µs", 256),
    ("≤ 1 ms", 1_000),
    ("≤ 4 ms", 4_000),
    ("≤ 16 ms", 16_000),
    ("≤ 64 ms", 64_000),
    ("≤ 256 ms", 256_000),
    ("≤ 1 s", 1_000_000),
    ("≤ 4 s", 4_000_000),
    ("≤ 16 s", 16_000_000),
    ("> 16 s", None),
)


_HALF = 1024
"""Counters of a doubling: the power of two not below 10**DIGITS."""

_MOST_DOUBLINGS = 52
"""A histogram reaches at most up to 2**63 µs."""


def _width(highest: int) -> int:
    """Returns the number of counters of a histogram that reaches up to this value in µs."""
    return (max(0, highest.bit_length() - _HALF.bit_length()) + 2) * _HALF


@cache
def _slots() -> tuple[Values, Values]:
    """Returns the smallest and the largest value in µs that each counter stands for.

    Up to 2 * _HALF each stands for 1 µs, and in each doubling after that for twice as many values.
    """
    index = np.arange((_MOST_DOUBLINGS + 2) * _HALF, dtype=np.int64)
    doublings = np.maximum(index // _HALF - 1, 0)
    low = (index - doublings * _HALF) << doublings
    return low, low + (np.int64(1) << doublings) - 1


@cache
def _bucket_ends() -> Values:
    """Returns for each bound of the field's buckets the number of the first counter beyond it."""
    return np.searchsorted(_slots()[0], [bound for _, bound in BUCKETS if bound is not None], side="right")


@dataclass(frozen=True)
class Histogram:
    """How many responses took how long. Times are known to 3 significant digits."""

    counts: Values

    @property
    def responses(self) -> int:
        return int(self.counts.sum())

    @property
    def max_seconds(self) -> float | None:
        """The largest response time in seconds (upper end of its slot); None without responses."""
        used = np.flatnonzero(self.counts)
        return float(_slots()[1][used[-1]]) / 1e6 if used.size else None

    @property
    def mean_seconds(self) -> float | None:
        """Mean response time in seconds, each response taken at the middle of its slot."""
        # Few slots are used, and for as many as there are BLAS would start threads that wait for each other.
        used = np.flatnonzero(self.counts)
        if not used.size:
            return None
        low, high = _slots()
        counts = self.counts[used]
        return float((counts * ((low[used] + high[used]) / 2.0)).sum()) / int(counts.sum()) / 1e6

    @property
    def edges_seconds(self) -> npt.NDArray[np.float64]:
        """The ends of all slots in seconds, rising: slot i lies from edge i to edge i + 1."""
        low, high = (values[: len(self.counts)] for values in _slots())
        return np.append(low, high[-1] + 1).astype(np.float64) / 1e6

    def percentile(self, percent: float) -> float | None:
        """Returns the time in seconds that `percent` of the responses (0 … 100) did not exceed.

        Nearest rank: the smallest recorded value with at least that share of the responses at or
        below it, as HdrHistogram defines it, given as the upper end of its slot. None without responses.
        """
        return self.percentiles((percent,))[0]

    def percentiles(self, percents: Sequence[float]) -> list[float | None]:
        """Returns each of these percentiles, as `percentile` has them. Raises ValueError for a number outside
        0 … 100."""
        if not all(0 <= percent <= 100 for percent in percents):
            raise ValueError(f"a percentile lies between 0 and 100, not {percents}")
        total = self.responses
        if not total:
            return [None] * len(percents)
        # 99.9 % of 5000 is rank 4995, also where the floating-point product lands a hair above it
        ranks = [max(1, min(total, math.ceil(percent * total / 100 * (1 - 1e-12)))) for percent in percents]
        slots = np.searchsorted(np.cumsum(self.counts), ranks)
        return [float(time) / 1e6 for time in _slots()[1][slots]]

    def buckets(self) -> list[Bucket]:
        """Returns the responses in the field's ten buckets, all of them, also the empty ones.

        A response belongs to the first bucket whose bound is not below the smallest value of its slot:
        exact up to 2 ms, to 0.1 % of the bound above.
        """
        starts = np.append(0, np.minimum(_bucket_ends(), len(self.counts)))
        responses = np.add.reduceat(np.append(self.counts, 0), starts)
        total = self.responses
        return [
            Bucket(
                order=i + 1,
                label=label,
                up_to_seconds=None if bound is None else bound / 1e6,
                responses=int(n),
                share=int(n) / total if total else 0.0,
            )
            for i, ((label, bound), n) in enumerate(zip(BUCKETS, responses, strict=True))
        ]

    def encode(self) -> str:
        """Returns the V2 compressed encoding in base64, as the driver writes it."""
        used = np.flatnonzero(self.counts)
        empty = np.diff(used, prepend=-1) - 1
        counters = bytearray()
        for before, count in zip(empty.tolist(), self.counts[used].tolist(), strict=True):
            if before:
                counters += _number(2 * before - 1)
            counters += _number(2 * count)
        highest = int(_slots()[1][len(self.counts) - 1])
        header = _HEADER.pack(_INNER, len(counters), 0, DIGITS, LOWEST_US, highest, 1.0)
        packed = zlib.compress(header + counters)
        return binascii.b2a_base64(_BEGIN.pack(_OUTER, len(packed)) + packed, newline=False).decode("ascii")


@dataclass(frozen=True)
class Bucket:
    """Responses between the previous bound and `up_to_seconds` (None: beyond 16 s); `share` is 0 … 1."""

    order: int
    label: str
    up_to_seconds: float | None
    responses: int
    share: float


def decode(text: str) -> Histogram:
    """Returns the histogram behind its base64 text. Raises StoreError when the text is no histogram."""
    return total([text])


def histogram_of(microseconds: Iterable[int]) -> Histogram:
    """Returns a histogram of these values in µs; what lies outside 1 µs … 1 h counts as the nearest end."""
    width = _width(HIGHEST_US)
    values = np.clip(np.fromiter(microseconds, dtype=np.int64), LOWEST_US, HIGHEST_US)
    slots = np.searchsorted(_slots()[0], values, side="right") - 1
    return Histogram(np.bincount(slots, minlength=width).astype(np.int64))


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Returns a histogram of all responses together: of roles, seconds, repeats or machines. Exact.

    They may reach up to different values, as the driver's grow with what they record: counters of
    equal number stand for equal values.
    """
    counts = np.zeros(0, dtype=np.int64)
    for histogram in histograms:
        if (more := len(histogram.counts) - len(counts)) > 0:
            counts = np.append(counts, np.zeros(more, dtype=np.int64))
        counts[: len(histogram.counts)] += histogram.counts
    return Histogram(counts) if len(counts) else histogram_of([])


# --- the encoding -----------------------------------------------------------------------------

# What the base64 begins with: cookie, and the number of bytes after it.
_BEGIN = struct.Struct(">II")
# What the unpacked begins with: cookie, bytes of the counters, number of the first of them, digits, lowest
# and highest value, ratio of values.
_HEADER = struct.Struct(">IIiiqqd")
_OUTER, _INNER = 0x1C849314, 0x1C849313
_LONGEST = 8
"""Bytes of a number: counters below 2**55."""
_AT_ONCE = 1 << 16
"""Bytes of counters that are read at once, with the rest of the last histogram: a few hundred histograms."""


def total(texts: Sequence[str]) -> Histogram:
    """Returns the sum of these histograms in base64: `merge` of the results of `decode`.

    Raises StoreError where one is damaged or of another precision.
    """
    try:
        return merge(map(_sum, _groups(texts)))
    except (ValueError, struct.error) as cause:
        raise StoreError(f"a latency histogram is damaged: {cause}") from cause


def _groups(texts: Sequence[str]) -> Iterator[list[tuple[bytes, int]]]:
    """Yields unpacked histograms, so many that their counters have about _AT_ONCE bytes."""
    group, size = [], 0
    for text in texts:
        packed, width = _unpack(text)
        group.append((packed, width))
        size += len(packed) + 1
        if size >= _AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


def _sum(parts: list[tuple[bytes, int]]) -> Histogram:
    """Returns the sum of histograms, each its encoded counters and how many it may have.

    Raises ValueError where they are damaged.
    """
    counts = np.zeros(max(width for _, width in parts), dtype=np.int64)
    parts = [(packed, width) for packed, width in parts if packed]
    if not parts:
        return Histogram(counts)
    data = np.frombuffer(b"".join(packed for packed, _ in parts), dtype=np.uint8)
    last = np.flatnonzero(data < 0x80)
    lengths = np.diff(last, prepend=-1)
    ends = np.cumsum([len(packed) for packed, _ in parts])
    after = np.searchsorted(last, ends)
    if data[ends - 1].max() >= 0x80 or lengths.max() > _LONGEST:
        raise ValueError("a counter is cut off or too large")
    numbers = np.zeros(len(last), dtype=np.int64)
    for place in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > place)
        bits = data[last[longer] - lengths[longer] + 1 + place] & 0x7F
        numbers[longer] |= bits.astype(np.int64) << 7 * place
    numbers = (numbers >> 1) ^ -(numbers & 1)
    if numbers.min() < -len(counts):
        raise ValueError("it has more counters than its range")
    reached = np.cumsum(np.where(numbers < 0, -numbers, 1))
    before = np.append(0, reached[after[:-1] - 1])
    if (reached[after - 1] - before > [width for _, width in parts]).any():
        raise ValueError("it has more counters than its range")
    slots = reached - np.repeat(before, np.diff(after, prepend=0)) - 1
    used = numbers > 0
    np.add.at(counts, slots[used], numbers[used])
    return Histogram(counts)


def _unpack(text: str) -> tuple[bytes, int]:
    """Returns the encoded counters of a histogram, and how many it may have.

    Raises ValueError or struct.error where it is damaged.
    """
    raw = binascii.a2b_base64(text)
    if _BEGIN.unpack_from(raw) != (_OUTER, len(raw) - _BEGIN.size):
        raise ValueError("its beginning or its length is not that of a histogram")
    inner = inflate(raw[_BEGIN.size :], MOST_BYTES)
    cookie, length, offset, digits, lowest, highest, ratio = _HEADER.unpack_from(inner)
    if (cookie, length, offset, ratio) != (_INNER, len(inner) - _HEADER.size, 0, 1.0):
        raise ValueError("its header is not that of a histogram")
    if (digits, lowest) != (DIGITS, LOWEST_US) or highest < LOWEST_US:
        raise ValueError(
            f"its precision is {digits} digits from {lowest} µs on, not {DIGITS} from {LOWEST_US}"
        )
    return inner[_HEADER.size :], _width(highest)


def _number(value: int) -> bytes:
    """Returns the bytes of a number, the lowest 7 bits first."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)

"""Latency histograms as the driver encodes them, and the field's response-time buckets.

Histograms are HDR (G. Tene, HdrHistogram.org): 3 significant digits from 1 µs to at most 1 h, values
in microseconds, V2 compressed encoding in base64. Counting is done on whole arrays, because one
report reads thousands of histograms with up to 23 552 counters each.
"""

from __future__ import annotations

import binascii
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from hdrh.codec import HdrHistogramEncoder
from hdrh.histogram import HdrHistogram
from pyhdrh import decode as read_counters

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


@lru_cache(maxsize=64)
def _slots(lowest: int, highest: int, digits: int) -> tuple[Values, Values]:
    """The smallest and the largest value in µs that each counter of such a histogram stands for."""
    geometry = HdrHistogram(lowest, highest, digits)
    index = np.arange(geometry.counts_len, dtype=np.int64)
    half = geometry.sub_bucket_half_count
    bucket = (index >> geometry.sub_bucket_half_count_magnitude) - 1
    sub_bucket = (index & (half - 1)) + half
    sub_bucket = np.where(bucket < 0, sub_bucket - half, sub_bucket)
    shift = np.maximum(bucket, 0) + geometry.unit_magnitude
    low = sub_bucket << shift
    return low, low + (np.int64(1) << shift) - 1


@lru_cache(maxsize=64)
def _bucket_ends(lowest: int, highest: int, digits: int) -> list[int]:
    """For each bound of the field's buckets the number of the first counter beyond it."""
    low, _ = _slots(lowest, highest, digits)
    return [int(np.searchsorted(low, bound, side="right")) for _, bound in BUCKETS if bound is not None]


@dataclass(frozen=True)
class Histogram:
    """How many responses took how long. Times are known to 3 significant digits."""

    counts: Values
    geometry: tuple[int, int, int] = (LOWEST_US, HIGHEST_US, DIGITS)

    @property
    def responses(self) -> int:
        return int(self.counts.sum())

    @property
    def max_seconds(self) -> float | None:
        """The largest response time in seconds (upper end of its slot); None without responses."""
        used = np.flatnonzero(self.counts)
        return float(_slots(*self.geometry)[1][used[-1]]) / 1e6 if used.size else None

    @property
    def mean_seconds(self) -> float | None:
        """Mean response time in seconds, each response taken at the middle of its slot."""
        # Few slots are used, and for as many as there are BLAS would start threads that wait for each other.
        used = np.flatnonzero(self.counts)
        if not used.size:
            return None
        low, high = _slots(*self.geometry)
        counts = self.counts[used]
        return float((counts * ((low[used] + high[used]) / 2.0)).sum()) / int(counts.sum()) / 1e6

    @property
    def edges_seconds(self) -> npt.NDArray[np.float64]:
        """The ends of all slots in seconds, rising: slot i lies from edge i to edge i + 1."""
        low, high = _slots(*self.geometry)
        return np.append(low, high[-1] + 1).astype(np.float64) / 1e6

    def percentile(self, percent: float) -> float | None:
        """The time in seconds that `percent` of the responses (0 … 100) did not exceed.

        Nearest rank: the smallest recorded value with at least that share of the responses at or
        below it, as HdrHistogram defines it, given as the upper end of its slot. None without responses.
        """
        return self.percentiles((percent,))[0]

    def percentiles(self, percents: Sequence[float]) -> list[float | None]:
        """Each of these, as `percentile` has them."""
        if not all(0 <= percent <= 100 for percent in percents):
            raise ValueError(f"a percentile lies between 0 and 100, not {percents}")
        total = self.responses
        if not total:
            return [None] * len(percents)
        # 99.9 % of 5000 is rank 4995, also where the floating-point product lands a hair above it
        ranks = [max(1, min(total, math.ceil(percent * total / 100 * (1 - 1e-12)))) for percent in percents]
        slots = np.searchsorted(np.cumsum(self.counts), ranks)
        return [float(time) / 1e6 for time in _slots(*self.geometry)[1][slots]]

    def buckets(self) -> list[Bucket]:
        """The responses in the field's ten buckets, all of them, also the empty ones.

        A response belongs to the first bucket whose bound is not below the smallest value of its slot:
        exact up to 2 ms, to 0.1 % of the bound above.
        """
        starts = [0, *_bucket_ends(*self.geometry)]
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
        """The V2 compressed encoding in base64, as the driver writes it."""
        histogram = HdrHistogram(*self.geometry)
        np.frombuffer(histogram.counts, dtype=np.int64)[:] = self.counts
        used = np.flatnonzero(self.counts)
        if used.size:
            histogram.set_internal_tacking_values(int(used[0]), int(used[-1]), self.responses)
        encoded: bytes = histogram.encode()
        return encoded.decode("ascii")


@dataclass(frozen=True)
class Bucket:
    """Responses between the previous bound and `up_to_seconds` (None: beyond 16 s); `share` is 0 … 1."""

    order: int
    label: str
    up_to_seconds: float | None
    responses: int
    share: float


def decode(text: str) -> Histogram:
    """The histogram behind its base64 text. Raises StoreError when it is none."""
    try:
        _check_geometry(text)
        payload: Any = HdrHistogramEncoder.decode(text)
        header = payload.payload
        geometry = (
            int(header.lowest_trackable_value),
            int(header.highest_trackable_value),
            int(header.significant_figures),
        )
        low, _ = _slots(*geometry)
        payload.init_counts(len(low))
    except Exception as cause:
        # the codec raises a dozen unrelated types on damaged input, down to IndexError
        raise StoreError(f"a latency histogram is damaged: {cause or type(cause).__name__}") from cause
    return Histogram(np.frombuffer(payload.counts, dtype=np.int64), geometry)


def _check_geometry(text: str) -> None:
    """Raises ValueError, struct.error for what unpacks to more than a histogram may have.

    The codec itself unpacks everything, and makes as many counters as the header asks for.
    """
    inner = inflate(binascii.a2b_base64(text)[_BEGIN.size :], MOST_BYTES)
    _, digits, lowest, highest, _ = _HEADER.unpack_from(inner, _BEGIN.size)
    if not (0 <= digits <= DIGITS and 0 < lowest <= highest):
        raise ValueError(f"{digits} digits from {lowest} to {highest} µs are more than a histogram may have")


def record(microseconds: Iterable[int]) -> Histogram:
    """A histogram of these values in µs; what lies outside 1 µs … 1 h counts as the nearest end."""
    low, _ = _slots(LOWEST_US, HIGHEST_US, DIGITS)
    values = np.clip(np.fromiter(microseconds, dtype=np.int64), LOWEST_US, HIGHEST_US)
    slots = np.searchsorted(low, values, side="right") - 1
    return Histogram(np.bincount(slots, minlength=len(low)).astype(np.int64))


def merge(histograms: Sequence[Histogram]) -> Histogram:
    """All responses together: of roles, seconds, repeats or machines. Exact.

    They may reach up to different values, as the driver's grow with what they record: counters of
    equal number stand for equal values. Raises StoreError when the precision is not the same.
    """
    if not histograms:
        return record([])
    if len({(lowest, digits) for lowest, _, digits in (h.geometry for h in histograms)}) > 1:
        raise StoreError("histograms of different precision cannot be merged")
    longest = max(histograms, key=lambda h: len(h.counts))
    counts = np.zeros_like(longest.counts)
    for histogram in histograms:
        counts[: len(histogram.counts)] += histogram.counts
    return Histogram(counts, longest.geometry)


# --- many of them -----------------------------------------------------------------------------

# What both layers of the V2 encoding begin with: cookie, and the length of what follows the layer's header.
_BEGIN = struct.Struct(">II")
_OUTER, _INNER = 0x1C849314, 0x1C849313
# Then, of the inner one: offset of the counters, digits, lowest and highest value, ratio of values.
_HEADER = struct.Struct(">iiqqd")
_BEFORE = _BEGIN.size + _HEADER.size
_WORD = 8
_ROOM = 1024  # bytes that nearly every histogram of a second fits in
_MOST_PACKED = 1 << 16  # zlib unpacks a byte to at most 1,032


def total(texts: Sequence[str]) -> Histogram:
    """All of these, in base64, added up: what `merge` makes of what `decode` makes of each.

    A report of two thousand runs adds up half a million. An array of all counters for each takes far longer
    than the few that are used: here all are read into the same array, of which the used part is added.
    Raises StoreError where one is damaged, or where they differ in precision.
    """
    try:
        found = _total(texts)
    except (binascii.Error, zlib.error, struct.error, ValueError, IndexError, OverflowError):
        found = None
    # the long way takes every form of the encoding, and says what is wrong with one
    return merge([decode(text) for text in texts]) if found is None else found


def _total(texts: Sequence[str]) -> Histogram | None:
    """None, or an error of the codec's, where one is not encoded as the driver does or not as the others."""
    widths: dict[bytes, int] = {}
    geometry = (LOWEST_US, LOWEST_US, DIGITS)
    counts = one = np.zeros(0, dtype=np.int64)
    address = 0
    for text in texts:
        raw = binascii.a2b_base64(text)
        if _BEGIN.unpack_from(raw) != (_OUTER, len(raw) - _BEGIN.size):
            return None
        if len(raw) > _MOST_PACKED:
            return None
        payload = zlib.decompress(raw[_BEGIN.size :], bufsize=_ROOM)
        cookie, length = _BEGIN.unpack_from(payload)
        if cookie != _INNER or length != len(payload) - _BEFORE:
            return None
        header = payload[_BEGIN.size : _BEFORE]
        width = widths.get(header)
        if width is None:
            offset, digits, lowest, highest, ratio = _HEADER.unpack(header)
            if (offset, ratio, lowest, digits) != (0, 1.0, LOWEST_US, DIGITS):
                return None
            widths[header] = width = len(_slots(lowest, highest, digits)[0])
            if width > len(counts):
                geometry = (lowest, highest, digits)
                counts = np.concatenate((counts, np.zeros(width - len(counts), dtype=np.int64)))
                one = np.zeros(width, dtype=np.int64)
                address = one.ctypes.data
        if length:
            used = read_counters(payload, _BEFORE, address, width, _WORD)
            begin, end = used["min_nonzero_index"], used["max_nonzero_index"] + 1
            part = one[begin:end]
            counts[begin:end] += part
            part[:] = 0
    return Histogram(counts, geometry) if widths else None

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import StoreError
from pgstrata.store.histogram import BUCKETS, HIGHEST_US, Histogram, decode, histogram_of, merge, total

MICROS = st.lists(
    st.one_of(
        st.integers(1, 3000),
        st.integers(1, HIGHEST_US),
        st.sampled_from([bound + d for _, bound in BUCKETS if bound for d in (-1, 0, 1)]),
    ),
    max_size=200,
)


@given(MICROS)
def test_encoding_is_read_by_the_reference_implementation_and_back(values: list[int]) -> None:
    mine = histogram_of(values)
    theirs = HdrHistogram.decode(mine.encode())
    assert theirs.get_total_count() == len(values)
    assert list(theirs.counts) == mine.counts.tolist()
    assert decode(mine.encode()).counts.tolist() == mine.counts.tolist()


@given(MICROS.filter(bool))
def test_figures_are_those_of_the_reference_implementation(values: list[int]) -> None:
    theirs = HdrHistogram(1, HIGHEST_US, 3)
    for value in values:
        theirs.record_value(value)
    mine = decode(theirs.encode().decode())
    assert mine.responses == len(values)
    assert mine.max_seconds == theirs.get_max_value() / 1e6
    assert mine.percentile(50) == pytest.approx(theirs.get_value_at_percentile(50) / 1e6)
    assert mine.percentile(100) == mine.max_seconds
    assert mine.mean_seconds == pytest.approx(sum(values) / len(values) / 1e6, rel=1e-3)


@given(MICROS.filter(bool), st.sampled_from([0, 0.1, 25, 50, 90, 99, 99.9, 100]))
def test_percentiles_are_nearest_rank_within_three_digits(values: list[int], percent: float) -> None:
    ordered = sorted(values)
    rank = max(1, -(-round(percent * len(values) * 1000) // 100_000))
    assert histogram_of(values).percentile(percent) == pytest.approx(ordered[rank - 1] / 1e6, rel=1e-3)


@given(st.lists(MICROS, max_size=5))
def test_merging_loses_nothing(parts: list[list[int]]) -> None:
    together = merge([histogram_of(part) for part in parts])
    assert together.counts.tolist() == histogram_of([v for part in parts for v in part]).counts.tolist()


@given(MICROS)
def test_buckets_hold_every_response_once_in_its_place(values: list[int]) -> None:
    buckets = histogram_of(values).buckets()
    assert [bucket.label for bucket in buckets] == [label for label, _ in BUCKETS]
    assert sum(bucket.responses for bucket in buckets) == len(values)
    assert sum(bucket.share for bucket in buckets) == pytest.approx(1.0 if values else 0.0)
    below = 0
    for bucket in buckets[:-1]:
        assert bucket.up_to_seconds is not None
        bound = bucket.up_to_seconds * 1e6
        below += bucket.responses
        # a slot is at most 0.1 % wide: only what lies that close above a bound may count below it
        assert sum(v <= bound for v in values) <= below <= sum(v <= bound * 1.001 for v in values)


@given(
    st.lists(st.lists(st.integers(1, 10**9), min_size=1), min_size=1, max_size=4),
    st.lists(MICROS, max_size=2),
)
def test_histograms_that_grew_as_needed_merge_with_full_ones(
    small: list[list[int]], full: list[list[int]]
) -> None:
    """The driver's histograms reach only as far as what they hold."""
    parts = [histogram_of(values) for values in full]
    for values in small:
        theirs = HdrHistogram(1, max(2, *values), 3)
        for value in values:
            theirs.record_value(value)
        mine = decode(theirs.encode().decode())
        assert mine.max_seconds == pytest.approx(max(values) / 1e6, rel=1e-3)
        assert [b.responses for b in mine.buckets()] == [b.responses for b in histogram_of(values).buckets()]
        parts.append(mine)
    together = histogram_of([v for part in (*small, *full) for v in part])
    merged = merge(parts)
    length = len(merged.counts)
    assert merged.counts.tolist() == together.counts[:length].tolist()
    assert not together.counts[length:].any()
    assert [b.responses for b in merged.buckets()] == [b.responses for b in together.buckets()]


def test_what_is_out_of_range_counts_at_the_nearest_end() -> None:
    histogram = histogram_of([0, -5, 10**12])
    assert histogram.responses == 3
    assert histogram.percentile(1) == 1e-6
    assert histogram.max_seconds == pytest.approx(3600, rel=1e-3)


def test_nothing_recorded() -> None:
    nothing = histogram_of([])
    assert decode(nothing.encode()).responses == 0
    assert nothing.max_seconds is None
    assert nothing.mean_seconds is None
    assert nothing.percentile(50) is None
    assert [bucket.responses for bucket in nothing.buckets()] == [0] * len(BUCKETS)
    assert merge([]).responses == 0


@pytest.mark.parametrize(("highest", "digits"), [(10_000, 2), (HIGHEST_US, 2), (HIGHEST_US, 4)])
def test_a_histogram_of_another_precision_is_an_error(highest: int, digits: int) -> None:
    other = HdrHistogram(1, highest, digits)
    other.record_value(5)
    with pytest.raises(StoreError, match="precision"):
        total([histogram_of([1]).encode(), other.encode().decode()])


@given(st.one_of(st.text(max_size=60), st.binary(max_size=80).map(lambda b: base64.b64encode(b).decode())))
def test_rubbish_is_an_error_and_not_a_crash(text: str) -> None:
    with pytest.raises(StoreError, match="damaged"):
        decode(text)


def test_a_cut_histogram_is_an_error() -> None:
    text = histogram_of(range(1, 5000)).encode()
    for end in (1, 8, 40, len(text) // 2 // 4 * 4, len(text) - 4):
        with pytest.raises(StoreError, match="damaged"):
            decode(text[:end])


@given(st.lists(st.tuples(MICROS, st.sampled_from([HIGHEST_US, HIGHEST_US, 10_000_000])), max_size=8))
def test_many_added_up_are_what_they_are_one_by_one(parts: list[tuple[list[int], int]]) -> None:
    texts = []
    for values, highest in parts:
        histogram = HdrHistogram(1, highest, 3)
        for value in values:
            histogram.record_value(min(value, highest))
        texts.append(histogram.encode().decode())
    every = merge([decode(text) for text in texts])
    assert total(texts).counts.tolist() == every.counts.tolist()


def test_more_than_are_read_at_once_are_added_up() -> None:
    wide, narrow = histogram_of(range(1, 9000)), Histogram(histogram_of([3]).counts[:2048])
    assert total([narrow.encode(), *[wide.encode()] * 30, narrow.encode()]).responses == 30 * 8999 + 2


def test_one_damaged_of_many_is_an_error() -> None:
    sound = histogram_of([5, 7000]).encode()
    assert total([sound, HdrHistogram(1, HIGHEST_US, 3).encode().decode()]).responses == 2
    for damaged in ("", "x", sound[:-8], sound[:20] + "AAAA" + sound[24:]):
        with pytest.raises(StoreError, match="damaged"):
            total([sound, damaged])


def with_counters(counters: bytes, highest: int = 2047) -> str:
    """Returns the text of a histogram with these encoded counters."""
    inner = struct.pack(">IIiiqqd", 0x1C849313, len(counters), 0, 3, 1, highest, 1.0) + counters
    packed = zlib.compress(inner)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(packed)) + packed).decode()


@pytest.mark.parametrize(
    ("counters", "responses"),
    [
        (b"", 0),
        (b"\x02\x00\x02", 2),
        (b"\xff\x1f", 0),
        (b"\xfd\x1f\x02", 1),
        (b"\xfe" + b"\xff" * 6 + b"\x7f", 2**55 - 1),
    ],
)
def test_counters_up_to_the_last_are_read(counters: bytes, responses: int) -> None:
    assert decode(with_counters(counters)).responses == responses


@pytest.mark.parametrize(
    "counters",
    [b"\x80", b"\x02\xff", b"\xff\x1f\x02", b"\x02" * 2049, b"\xff" * 7 + b"\x7f", b"\xff" * 8 + b"\x01"],
)
def test_counters_that_are_cut_off_or_lie_beyond_the_range_are_an_error(counters: bytes) -> None:
    sound = histogram_of([5]).encode()
    for texts in ([with_counters(counters)], [sound, with_counters(counters), sound]):
        with pytest.raises(StoreError, match="counter"):
            total(texts)


@given(st.dictionaries(st.integers(0, 2047), st.integers(0, 54).map(lambda bits: 2**bits)))
def test_counters_of_every_size_are_those_of_the_reference_implementation(counters: dict[int, int]) -> None:
    counts = np.zeros(2048, dtype=np.int64)
    for slot, count in counters.items():
        counts[slot] = count
    text = Histogram(counts).encode()
    assert list(HdrHistogram.decode(text).counts) == decode(text).counts.tolist() == counts.tolist()

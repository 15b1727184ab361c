"""Verdicts on response times of a step at which variants took turns: the tail beside the rate.

Each part of the step, between two starts of connections or servers, is a block with the response times of
both sides (`stats.quantiles`). Blocks in which other programs disturbed a side are left out on both.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgstrata.judge.pairs import disturbed_pairs
from pgstrata.stats import sequential, verdict
from pgstrata.stats.estimate import Estimate
from pgstrata.stats.quantiles import Interval, QuantileEstimate, Responses, compare_quantiles
from pgstrata.stats.verdict import CONFIDENCE, Verdict, judge
from pgstrata.store.histogram import Histogram, total
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import TookTurns

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
"""Response times that can be judged. max: the longest of each block."""

DISTURBED = 0.1
"""A block is left out where other programs disturbed more than this share of its pairs: a tail is made of
few responses, so that it shows a disturbance that a rate hides."""

FEWEST_LEFT = 0.5
"""Share of the blocks that must be left."""


@dataclass(frozen=True)
class TimesSide:
    """A variant at a step. turns: how it took turns; parts: of each part of the step the histograms of its
    headline role, in base64."""

    turns: TookTurns
    parts: Sequence[Sequence[str]]


@dataclass(frozen=True)
class TimesVerdict:
    """The verdict on one response time. name: `p99`; base, other: in seconds, None where nothing is known."""

    name: str
    verdict: Verdict
    base: float | None
    other: float | None


def side_of(measured: MeasuredStep) -> TimesSide:
    """Returns a stored step with the histograms of its parts. Raises StoreError where these are damaged."""
    record = measured.record
    table = measured.run.table("series", ["step", "role", "second", "histogram"])
    rows = [
        row
        for row in table.iter_rows(named=True)
        if row["step"] == record.name and row["role"] == record.role
    ]
    texts = [row["histogram"] for row in sorted(rows, key=lambda row: row["second"])]
    parts: list[list[str]] = []
    at = 0
    for seconds in record.part_seconds:
        parts.append(texts[at : at + seconds])
        at += seconds
    return TimesSide(record, parts)


def judge_time(
    name: str,
    comparisons: Sequence[tuple[TimesSide, TimesSide]],
    *,
    watched: bool,
    margin: float,
    confidence: float = CONFIDENCE,
) -> TimesVerdict | None:
    """Returns the verdict on a response time; ratio: base time ÷ other time, so below 1 the other is slower.

    comparisons: base and other, of each repeat. watched: measuring stopped when verdicts were known. None
    where the parts of the step are not known.
    """
    blocks = [blocks for both in comparisons if (blocks := _blocks(*both)) is not None]
    if not blocks:
        return None
    out, count = sum(each.left_out for each in blocks), sum(each.count for each in blocks)
    span = comparisons[0][0].turns.span if len(comparisons) == 1 else None

    def interval_of(e: Estimate) -> Interval:
        if not watched:
            return verdict.interval(e, confidence)
        return sequential.interval(e, confidence) if span is None else sequential.interval_within(e, span)

    def p_value_of(e: Estimate) -> float:
        if not watched:
            return verdict.p_value(e)
        if span is not None:
            return sequential.p_value_within(e, span)
        return min(1.0, math.exp(-sequential.log_e_value(e)))

    base, other = (_responses([part for each in blocks for part in each.sides[number]]) for number in (0, 1))
    compared = compare_quantiles(base, other, QUANTILES[name], interval_of, p_value_of)
    if compared is None:
        return None
    found = _verdict(compared, margin, confidence)
    if out > (1 - FEWEST_LEFT) * count:
        found = verdict.set_aside(found, f"other programs disturbed {out:,} of {count:,} batches")
    return TimesVerdict(name, found, compared.base, compared.other)


def _verdict(compared: QuantileEstimate, margin: float, confidence: float) -> Verdict:
    found = judge(
        compared.estimate, compared.interval, compared.p_value, margin=margin, confidence=confidence
    )
    return replace(found, word="unclear", reason=compared.why_not) if compared.why_not else found


@dataclass(frozen=True)
class _Blocks:
    """sides: of base and other the histograms of each block that counts."""

    sides: tuple[list[Histogram], list[Histogram]]
    left_out: int
    count: int


def _blocks(base: TimesSide, other: TimesSide) -> _Blocks | None:
    """The blocks that both sides have; None where parts and turns do not belong together."""
    count = min(len(base.parts), len(other.parts))
    disturbed = disturbed_pairs(base.turns, other.turns)
    pairs = sorted({part.pair for part in base.turns.slices})
    if not count or not pairs:
        return None
    if base.turns.blocks and len(base.turns.blocks) == len(base.parts):
        ends = base.turns.blocks
        of = Counter(bisect.bisect_left(ends, pair) for pair in pairs)
        bad = Counter(bisect.bisect_left(ends, pair) for pair in disturbed)
        out = {number for number in bad if bad[number] > DISTURBED * of[number]}
    elif len(pairs) == len(base.parts):
        out = {number for number, pair in enumerate(pairs) if pair in disturbed}
    else:
        return None
    kept = [n for n in range(count) if n not in out and base.parts[n] and other.parts[n]]
    # Where nothing is left the figures of all are shown, beside the reason.
    shown = kept or [n for n in range(count) if base.parts[n] and other.parts[n]]
    if not shown:
        return None
    sides = ([total(base.parts[n]) for n in shown], [total(other.parts[n]) for n in shown])
    return _Blocks(sides, count - len(kept), count)


def _responses(histograms: Sequence[Histogram]) -> Responses:
    longest = max(histograms, key=lambda histogram: len(histogram.counts))
    counts = np.zeros((len(histograms), len(longest.counts)))
    for row, histogram in zip(counts, histograms, strict=True):
        row[: len(histogram.counts)] = histogram.counts
    return Responses(longest.edges_seconds, counts)


__all__ = ["QUANTILES", "TimesSide", "TimesVerdict", "judge_time", "side_of"]

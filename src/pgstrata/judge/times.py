"""Verdicts on response times of a step at which variants took turns: the tail beside the rate.

Each part of the step, between two starts of connections or servers, is a block with the response times of
both sides (`stats.quantiles`). Blocks in which other programs disturbed a side are left out on both.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from pgstrata.judge.pairs import disturbed_pairs
from pgstrata.stats import sequential, verdict
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.estimate import Estimate
from pgstrata.stats.quantiles import QuantileEstimate, Responses, compare_quantiles
from pgstrata.stats.verdict import Bounds, Verdict, judge
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
    """A variant at a step. turns: how it took turns; parts: the response times of its headline role in each
    part of the step, None where a part has none."""

    turns: TookTurns
    parts: Sequence[Histogram | None]


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
    rows = table.where(step=record.name, role=record.role)
    texts = [row["histogram"] for row in sorted(rows, key=lambda row: row["second"])]
    ends = list(accumulate(record.part_seconds))
    return TimesSide(
        record, [part_of(texts[b:e]) for b, e in zip([0, *ends[:-1]], ends, strict=True)] if ends else []
    )


def part_of(texts: Sequence[str]) -> Histogram | None:
    """Returns the response times of a part, from the histograms of its seconds in base64."""
    return total(texts) if texts else None


def judge_times(
    names: Sequence[str],
    comparisons: Sequence[tuple[TimesSide, TimesSide]],
    *,
    watched: bool,
    criterion: Criterion,
) -> list[TimesVerdict]:
    """Returns the verdicts on response times; ratio: base time ÷ other time, so below 1 the other is slower.

    names: of `QUANTILES`. comparisons: base and other, of each repeat. watched: measuring stopped when
    verdicts were known. The list is empty where the parts of the step are not known.
    """
    blocks = [blocks for both in comparisons if (blocks := _blocks(*both)) is not None]
    if not blocks:
        return []
    out, count = sum(each.left_out for each in blocks), sum(each.count for each in blocks)
    span = comparisons[0][0].turns.span if len(comparisons) == 1 else None

    def bounds_of(e: Estimate) -> Bounds:
        return (
            sequential.bounds(e, span, criterion.confidence)
            if watched
            else verdict.bounds(e, criterion.confidence)
        )

    base, other = (_responses([part for each in blocks for part in each.sides[number]]) for number in (0, 1))
    verdicts = []
    for name in names:
        compared = compare_quantiles(base, other, QUANTILES[name], bounds_of)
        if compared is None:
            continue
        judged = _verdict(compared, criterion)
        if out > (1 - FEWEST_LEFT) * count:
            judged = verdict.set_aside(judged, f"other programs disturbed {out:,} of {count:,} batches")
        verdicts.append(TimesVerdict(name, judged, compared.base, compared.other))
    return verdicts


def _verdict(compared: QuantileEstimate, criterion: Criterion) -> Verdict:
    judged = judge(compared.estimate, compared.interval, compared.p_value, criterion)
    return replace(judged, word="unclear", reason=compared.why_not) if compared.why_not else judged


@dataclass(frozen=True)
class _Blocks:
    """sides: of base and other the histograms of each block that counts."""

    sides: tuple[list[Histogram], list[Histogram]]
    left_out: int
    count: int


def _blocks(base: TimesSide, other: TimesSide) -> _Blocks | None:
    """Returns the blocks that both sides have; None if parts and turns do not belong together."""
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
    both = {
        n: (ours, theirs)
        for n in range(count)
        if (ours := base.parts[n]) is not None and (theirs := other.parts[n]) is not None
    }
    kept = [sides for n, sides in both.items() if n not in out]
    # Where nothing is left the figures of all are shown, beside the reason.
    shown = kept or list(both.values())
    if not shown:
        return None
    return _Blocks(([ours for ours, _ in shown], [theirs for _, theirs in shown]), count - len(kept), count)


def _responses(histograms: Sequence[Histogram]) -> Responses:
    longest = max(histograms, key=lambda histogram: len(histogram.counts))
    counts = np.zeros((len(histograms), len(longest.counts)))
    for row, histogram in zip(counts, histograms, strict=True):
        row[: len(histogram.counts)] = histogram.counts
    return Responses(longest.edges_seconds, counts)


__all__ = ["QUANTILES", "TimesSide", "TimesVerdict", "judge_times", "part_of", "side_of"]

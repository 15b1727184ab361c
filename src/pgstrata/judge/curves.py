"""Steps that differ in their number of clients only: the verdict on the curve, its cause, and its knees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from msgspec import Struct

from pgstrata.judge.disturbance import disturbed
from pgstrata.judge.pairs import Pairs, pairs_of, together, verdict_of
from pgstrata.judge.waiting import grown_wait
from pgstrata.stats.criterion import LEAST_POINTS, Criterion
from pgstrata.stats.curve import Knee, curve_sentence, curve_words, knee
from pgstrata.stats.estimate import estimate
from pgstrata.stats.verdict import Verdict, Word, interval, set_aside
from pgstrata.step_names import CLIENTS
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import StepRecord

Named = TypeVar("Named")


class KneeRecord(Struct, frozen=True, kw_only=True):
    """A knee as JSON has it."""

    clients: float | None
    low: float
    high: float
    low_open: bool
    high_open: bool
    text: str


class PointRecord(Struct, frozen=True, kw_only=True):
    """A point of a curve as JSON has it."""

    clients: int
    word: Word


class CurveVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on a curve, and the knees of both sides, as JSON has them."""

    workload: str
    steps: str
    sentence: str
    cause: str
    points: tuple[PointRecord, ...]
    base_knee: KneeRecord | None
    other_knee: KneeRecord | None


@dataclass(frozen=True)
class CurveSide:
    """What a side measured at one number of clients: its rate, in the step's unit, and its repeats."""

    rate: float | None
    repeats: Sequence[MeasuredStep]


@dataclass(frozen=True)
class CurvePoint:
    """A step of a curve: the verdict on it, and both sides."""

    verdict: Verdict
    base: CurveSide
    other: CurveSide


def curves_of(steps: Iterable[tuple[str, Named]]) -> dict[str, dict[int, Named]]:
    """Returns the steps, each with its name, that were measured at three numbers of clients or more: by their
    common name and the number of clients, which grows."""
    by_name: dict[str, dict[int, Named]] = {}
    for name, step in steps:
        if match := CLIENTS.search(name):
            by_name.setdefault(name[: match.start()], {})[int(match[1])] = step
    return {
        name: dict(sorted(points.items())) for name, points in by_name.items() if len(points) >= LEAST_POINTS
    }


def judge_curves(workload: str, steps: Iterable[tuple[str, CurvePoint]]) -> list[CurveVerdict]:
    """Returns the verdict on each curve that steps of a workload, each with its name, make up."""
    return [_judged(workload, name, points) for name, points in curves_of(steps).items()]


def _judged(workload: str, name: str, points: Mapping[int, CurvePoint]) -> CurveVerdict:
    words = curve_words({clients: point.verdict for clients, point in points.items()})
    slower = [points[clients] for clients, word in words.items() if word == "slower"]
    cause = grown_wait([(_records(point.base), _records(point.other)) for point in slower])
    return CurveVerdict(
        workload=workload,
        steps=name,
        sentence=curve_sentence(words, cause),
        cause=cause,
        points=tuple(PointRecord(clients=clients, word=word) for clients, word in words.items()),
        base_knee=_record(side_knee({clients: point.base for clients, point in points.items()})),
        other_knee=_record(side_knee({clients: point.other for clients, point in points.items()})),
    )


def words_in_turns(
    base: Mapping[int, StepRecord],
    other: Mapping[int, StepRecord],
    *,
    watched: bool,
    criterion: Criterion,
) -> dict[int, Word]:
    """Returns the words of the verdicts on the points of a curve, by number of clients, from the slices of
    one comparison. watched: each point ended as soon as its verdict was known."""
    verdicts: dict[int, Verdict] = {}
    for clients in base.keys() & other.keys():
        ours, theirs = base[clients], other[clients]
        verdict = verdict_of(pairs_of(ours, theirs), criterion, watched=watched, span=ours.span)
        reason = disturbed([(ours, theirs)])
        verdicts[clients] = set_aside(verdict, reason) if reason else verdict
    return curve_words(verdicts)


def side_knee(sides: Mapping[int, CurveSide]) -> Knee | None:
    """Returns the knee of one side; None where it has a rate at fewer than three numbers of clients."""
    curve = {
        clients: (side.rate, log_rate_error([m.record for m in side.repeats])[0])
        for clients, side in sides.items()
        if side.rate
    }
    return knee(curve) if len(curve) >= LEAST_POINTS else None


def _record(place: Knee | None) -> KneeRecord | None:
    if place is None:
        return None
    return KneeRecord(
        clients=None if place.grows else place.clients,
        low=place.low,
        high=place.high,
        low_open=place.low_open,
        high_open=place.high_open,
        text=place.text,
    )


def _records(side: CurveSide) -> list[StepRecord]:
    return [measured.record for measured in side.repeats]


def log_rate_error(repeats: Sequence[StepRecord]) -> tuple[float, float]:
    """Returns the standard error of the log rate of a variant in a step, and half of its 95 % interval, both
    infinite where they are not known: from its slices, else from its repeats."""
    sliced = [pairs_of(record, record) for record in repeats if record.slices]
    rates = together(sliced) if sliced else Pairs([record.rate for record in repeats if record.rate], [])
    if not rates.base:
        return math.inf, math.inf
    # Against a constant of their size: ratios beyond 1000 count as stalls.
    middle = [median(rates.base)] * len(rates.base)
    location = estimate(middle, rates.base, rates.blocks, starts=rates.starts)
    low, high = interval(location)
    return location.error, (high - low) / 2


__all__ = [
    "CurvePoint",
    "CurveSide",
    "CurveVerdict",
    "KneeRecord",
    "PointRecord",
    "curves_of",
    "judge_curves",
    "log_rate_error",
    "side_knee",
    "words_in_turns",
]

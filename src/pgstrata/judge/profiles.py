"""Which functions take more or less CPU time of an operation, by the profiles of two variants.

The CPU time of an operation is the kernel's, of the backends of a role; samples divide it among functions.
Pairs are weighed as if the mean of both sides was the same in all of them: a machine that is slower for a
while is no difference. In each pair (`judge.profile_pairs`) every function has a difference, and all of them
together are that of the pair. The error of their mean is that of blocks of slices (`stats.estimate`), and
never less than chance in so few samples.

Cost that only moved is told by `judge.functions` from all samples together, once for all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np
from msgspec import Struct

from pgstrata.judge.functions import Cost, Shares, account_for
from pgstrata.judge.phases import ENTRIES, REST
from pgstrata.judge.profile_pairs import (
    OTHERS,
    UNKNOWN_FILE,
    PairedProfiles,
    Samples,
    Side,
    paired_profiles,
    profiled_roles,
)
from pgstrata.judge.stacks import callers_in
from pgstrata.stats import sequential
from pgstrata.stats.criterion import LEAST_BLOCKS, Criterion
from pgstrata.stats.estimate import MANY, START_ERROR, Estimate, estimate_of_blocks
from pgstrata.stats.multiplicity import adjust
from pgstrata.stats.verdict import Bounds, bounds

Word = Literal["more", "less", "unclear"]

LEAST_SHARE = 0.005
"""Of the CPU time of an operation, on the mean of both sides, from which a function is judged by itself."""

LACKING = 8.0
"""A side lacks a function where none of its samples is in it, and so many would be if it were as on the other
side: by chance that is so once in 3,000 functions."""

KNOWN_FILES = 0.5
"""Share of the samples whose source file has to be known."""

CHANCE = 2.0
"""Standard errors up to which samples of a function differ by chance: no reason to net it with another."""

_NANOSECONDS = 1e9


class CpuChangeRecord(Struct, frozen=True, kw_only=True):
    """A function, part of the server or source file in JSON."""

    name: str
    remark: str
    base_seconds: float
    other_seconds: float
    difference_seconds: float
    low_seconds: float | None
    high_seconds: float | None
    p_value: float | None
    adjusted_p: float | None
    word: Word


class ProfileVerdictRecord(Struct, frozen=True, kw_only=True):
    """The profiles of two sides in JSON."""

    role: str
    pairs: int
    samples: tuple[int, int]
    whole: CpuChangeRecord
    functions: tuple[CpuChangeRecord, ...]
    phases: tuple[CpuChangeRecord, ...]
    files: tuple[CpuChangeRecord, ...]
    reason: str


@dataclass(frozen=True)
class CpuChange:
    """CPU seconds of an operation in a function, part of the server or source file, on both sides.

    low, high: of the difference, infinite where nothing tells it; p_value: of no difference; adjusted_p: over
    all of a kind, None until adjusted; remark: what moved into it or out of it.
    """

    name: str
    base: float
    other: float
    low: float = -math.inf
    high: float = math.inf
    p_value: float = 1.0
    adjusted_p: float | None = None
    word: Word = "unclear"
    remark: str = ""

    @property
    def difference(self) -> float:
        """By how much the other side takes longer."""
        return self.other - self.base

    @property
    def is_bounded(self) -> bool:
        """Whether its difference has an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def title(self) -> str:
        """Its name with what is in its change."""
        return f"{self.name} ({self.remark})" if self.remark else self.name

    def record(self) -> CpuChangeRecord:
        """Returns it as JSON can hold it."""
        is_known = self.is_bounded
        return CpuChangeRecord(
            name=self.name,
            remark=self.remark,
            base_seconds=self.base,
            other_seconds=self.other,
            difference_seconds=self.difference,
            low_seconds=self.low if is_known else None,
            high_seconds=self.high if is_known else None,
            p_value=self.p_value if is_known else None,
            adjusted_p=self.adjusted_p,
            word=self.word,
        )


Changes = tuple[CpuChange, ...]


@dataclass(frozen=True)
class ProfileVerdict:
    """The CPU time of an operation of one role on both sides, divided in three ways, each of which makes up
    the whole.

    functions: the largest change first, the small ones together last; files: none where symbols do not tell
    them. pairs: behind the intervals; samples: in them. reason: why nothing is proven, else empty.
    """

    role: str
    pairs: int
    samples: tuple[int, int]
    whole: CpuChange
    functions: Changes
    phases: Changes
    files: Changes
    confidence: float
    reason: str = ""

    @property
    def proven(self) -> Changes:
        """The functions that are proven to take more or less."""
        return tuple(change for change in self.functions if change.word != "unclear")

    def record(self) -> ProfileVerdictRecord:
        """Returns it as JSON can hold it."""
        functions, phases, files = (
            tuple(change.record() for change in changes)
            for changes in (self.functions, self.phases, self.files)
        )
        return ProfileVerdictRecord(
            role=self.role,
            pairs=self.pairs,
            samples=self.samples,
            whole=self.whole.record(),
            functions=functions,
            phases=phases,
            files=files,
            reason=self.reason,
        )


def judge_profiles(
    base: Side, other: Side, criterion: Criterion, disturbance: str = ""
) -> list[ProfileVerdict]:
    """Returns the verdicts on the roles of a step that were profiled on both sides; there are no words before
    `adjusted_profiles`. disturbance: what keeps the step from a verdict.

    Raises StoreError for a damaged table.
    """
    verdicts = []
    for role in profiled_roles(base):
        paired = paired_profiles(base, other, role)
        if paired.pairs:
            verdicts.append(judge_pairs(role, paired, criterion, disturbance))
    return verdicts


def judge_pairs(
    role: str, paired: PairedProfiles, criterion: Criterion, disturbance: str = ""
) -> ProfileVerdict:
    """Returns the verdict on one pair or more, without words."""
    judge = _Judge(paired, criterion.confidence)
    base, other, remarks = _shares(paired, judge)
    functions = judge.changes(
        [
            (_divided(ours.functions, base), _divided(theirs.functions, other))
            for ours, theirs in paired.pairs
        ],
        least=LEAST_SHARE,
        remarks=remarks,
    )
    phases = judge.changes([(ours.phases, theirs.phases) for ours, theirs in paired.pairs])
    places = {part: place for place, part in enumerate((*ENTRIES, REST))}
    unknown = [judge.samples_in("files", UNKNOWN_FILE, side) / judge.totals[side] for side in (0, 1)]
    files: Changes = ()
    if max(unknown) <= 1 - KNOWN_FILES:
        files = judge.changes([(ours.files, theirs.files) for ours, theirs in paired.pairs])
    return ProfileVerdict(
        role,
        len(paired.pairs),
        (round(judge.totals[0]), round(judge.totals[1])),
        judge.whole(),
        functions,
        tuple(sorted(phases, key=lambda change: places.get(change.name, len(places)))),
        files,
        criterion.confidence,
        disturbance or _reason(paired),
    )


def _reason(paired: PairedProfiles) -> str:
    """Returns why nothing can be proven, whatever was sampled; empty where something can."""
    n = len(paired.pairs)
    if n == 1:
        return paired.missing or "one pair has no interval: take turns (run --until verdict) or repeat"
    if paired.are_batches and n < LEAST_BLOCKS:
        return f"{n} of at least {LEAST_BLOCKS} batches were profiled: measure longer"
    return ""


class _Judge:
    """Judges the pairs of one role. mean_costs: CPU seconds of an operation, of base and other; totals:
    samples, likewise."""

    def __init__(self, paired: PairedProfiles, confidence: float) -> None:
        self._paired, self._confidence = paired, confidence
        # What the machine does to both sides of a pair cancels where all pairs cost the same.
        costs = [(ours.cost + theirs.cost) / 2 for ours, theirs in paired.pairs]
        scales = [fmean(costs) / cost for cost in costs]
        self._sides = [
            [
                replace(pair[side], cost=pair[side].cost * scale)
                for pair, scale in zip(paired.pairs, scales, strict=True)
            ]
            for side in (0, 1)
        ]
        self.mean_costs = [fmean(part.cost for part in parts) for parts in self._sides]
        self.totals = [math.fsum(part.total for part in parts) for parts in self._sides]

    def whole(self) -> CpuChange:
        """Returns the change of all CPU time."""
        costs = [[part.cost for part in parts] for parts in self._sides]
        return self._change("all", costs, 0.0)

    def names(self, side: int) -> list[str]:
        """Returns the functions that samples of a side are in."""
        return list(dict.fromkeys(name for part in self._sides[side] for name in part.functions))

    def samples_in(self, kind: Literal["functions", "files"], name: str, side: int) -> float:
        """Returns the samples of a side in a function or source file."""
        return math.fsum(getattr(part, kind).get(name, 0.0) for part in self._sides[side])

    def mean_costs_of(self, names: Sequence[str], side: int) -> dict[str, float]:
        """Returns the CPU seconds of an operation in functions, of one side."""
        parts = self._sides[side]
        return {
            name: fmean(part.cost * part.functions.get(name, 0.0) / part.total for part in parts)
            for name in names
        }

    def changes(
        self,
        samples: Sequence[tuple[Samples, Samples]],
        least: float = 0.0,
        remarks: Mapping[str, str] | None = None,
    ) -> Changes:
        """Returns the changes of all names that samples of pairs have, the largest first; those below `least`
        of the CPU time of an operation are one, the last."""
        names = dict.fromkeys(name for pair in samples for side in pair for name in side)
        least_cost = least * (self.mean_costs[0] + self.mean_costs[1])
        changes, small = [], []
        for name in names:
            costs = self._costs([name], samples)
            if name == OTHERS or sum(map(fmean, costs)) < least_cost:
                small.append(name)
            else:
                change = self._change(name, costs, self.chance([name], samples))
                changes.append(replace(change, remark=(remarks or {}).get(name, "")))
        changes.sort(key=lambda change: (-abs(change.difference), change.name))
        if small:
            changes.append(self._change(OTHERS, self._costs(small, samples), self.chance(small, samples)))
        return tuple(changes)

    def _costs(self, names: Sequence[str], samples: Sequence[tuple[Samples, Samples]]) -> list[list[float]]:
        """Returns the CPU seconds of an operation in all these names, of base and other by pair."""
        return [
            [
                part.cost * math.fsum(pair[side].get(name, 0.0) for name in names) / part.total
                for part, pair in zip(parts, samples, strict=True)
            ]
            for side, parts in enumerate(self._sides)
        ]

    def chance(self, names: Sequence[str], samples: Sequence[tuple[Samples, Samples]]) -> float:
        """Returns the standard error, in seconds, that the difference of these names has by chance in the
        samples alone. As if one more sample had been there: what was never seen has no error of 0."""
        variance = 0.0
        for side, (cost, total) in enumerate(zip(self.mean_costs, self.totals, strict=True)):
            count = math.fsum(pair[side].get(name, 0.0) for pair in samples for name in names)
            variance += (cost / total) ** 2 * (count + 1.0)
        return math.sqrt(variance)

    def _change(self, name: str, costs: Sequence[Sequence[float]], chance: float) -> CpuChange:
        """Returns the change of costs in pairs, of base and other. chance: standard error of their difference
        in the samples alone, in seconds."""
        unit, starts = self.mean_costs[0], self._paired.starts
        values = (np.array(costs[1]) - np.array(costs[0])) / unit
        e = estimate_of_blocks(values, self._paired.orders)
        e = replace(e, start_error=START_ERROR / math.sqrt(starts) if starts else 0.0)
        (low, high), p_value = self._bounds(e)
        if e.freedom > 0:
            # Pairs may agree by chance where each has few samples.
            sampled = replace(e, standard_error=chance / unit, freedom=math.inf)
            (lowest, highest), p_of_samples = self._bounds(sampled)
            low, high, p_value = min(low, lowest), max(high, highest), max(p_value, p_of_samples)
        return CpuChange(name, fmean(costs[0]), fmean(costs[1]), low * unit, high * unit, p_value)

    def _bounds(self, e: Estimate) -> Bounds:
        """Returns the interval and the p-value of a change, as shares of the base's CPU time."""
        span = self._paired.span
        if not self._paired.watched:
            return bounds(e, self._confidence)
        if math.isinf(e.freedom) and span is None:
            # A confidence sequence knows no error that is certain: that of as many pairs as may be looked at.
            e = replace(e, freedom=MANY)
        return sequential.bounds(e, span, self._confidence)


def _shares(paired: PairedProfiles, judge: _Judge) -> tuple[Shares, Shares, dict[str, str]]:
    """Returns in the changes of which functions the cost of each function of both sides is, where cost has
    moved, and remarks on them."""
    samples = [
        {name: judge.samples_in("functions", name, side) for name in judge.names(side)} for side in (0, 1)
    ]
    ratio = judge.totals[1] / judge.totals[0]
    lacking = [
        {name for name, count in samples[1].items() if name not in samples[0] and count / ratio >= LACKING},
        {name for name, count in samples[0].items() if name not in samples[1] and count * ratio >= LACKING},
    ]
    names = [[name for name in {**samples[0], **samples[1]} if name not in lacking[side]] for side in (0, 1)]
    base, other = (
        Cost(
            {name: cost * _NANOSECONDS for name, cost in judge.mean_costs_of(names[side], side).items()},
            callers_in(paired.stacks[side]),
        )
        for side in (0, 1)
    )
    pairs = [(ours.functions, theirs.functions) for ours, theirs in paired.pairs]
    chance = {
        name: CHANCE * judge.chance([name], pairs) * _NANOSECONDS for name in {**samples[0], **samples[1]}
    }
    accounted = account_for(base, other, chance)
    remarks = {
        change.function: change.remark
        for change in accounted.changes
        # That there is no sample of it says little where few were to be expected.
        if change.remark != change.state or change.function in lacking[0] | lacking[1]
    }
    return accounted.base, accounted.other, remarks


def _divided(samples: Samples, shares: Shares) -> dict[str, float]:
    """Returns samples by the functions in whose changes they are."""
    divided: dict[str, float] = {}
    for function, count in samples.items():
        for name, share in shares.get(function, {function: 1.0}).items():
            divided[name] = divided.get(name, 0.0) + count * share
    return divided


def adjusted_profiles(verdicts: Sequence[ProfileVerdict]) -> list[ProfileVerdict]:
    """Returns the verdicts with words: `more` and `less` where that is proven, with p-values adjusted for the
    number of all functions in them, of all parts of the server, and of all files."""
    wholes = _with_words([[v.whole] for v in verdicts], verdicts)
    functions = _with_words([v.functions for v in verdicts], verdicts)
    phases = _with_words([v.phases for v in verdicts], verdicts)
    files = _with_words([v.files for v in verdicts], verdicts)
    return [
        replace(v, whole=wholes[n][0], functions=functions[n], phases=phases[n], files=files[n])
        for n, v in enumerate(verdicts)
    ]


def _with_words(changes: Sequence[Sequence[CpuChange]], verdicts: Sequence[ProfileVerdict]) -> list[Changes]:
    p_values = iter(adjust([c.p_value for of_one in changes for c in of_one if c.is_bounded]))
    words: list[Changes] = []
    for of_one, v in zip(changes, verdicts, strict=True):
        judged = []
        for change in of_one:
            p = next(p_values) if change.is_bounded else None
            is_proven = p is not None and p <= 1.0 - v.confidence and not v.reason
            word: Word = "unclear" if not is_proven else "more" if change.difference > 0 else "less"
            judged.append(replace(change, adjusted_p=p, word=word))
        words.append(tuple(judged))
    return words


__all__ = [
    "LACKING",
    "LEAST_SHARE",
    "Changes",
    "CpuChange",
    "CpuChangeRecord",
    "ProfileVerdict",
    "ProfileVerdictRecord",
    "Word",
    "adjusted_profiles",
    "judge_pairs",
    "judge_profiles",
]

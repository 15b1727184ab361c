"""Counted instructions of two sides: more, fewer, same or unclear, and the functions that account for it.

A count is no rate: its words are its own, and its margin is ten times smaller than that of time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any, Literal, TypedDict, cast

from pgstrata.count.doubts import LeftOut, left_out, left_out_doubt, spread_hides, spread_note
from pgstrata.finite import finite
from pgstrata.judge.differences import other_work
from pgstrata.judge.plan_shape import plan_changes
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.estimate import Estimate
from pgstrata.stats.multiplicity import adjust_verdicts
from pgstrata.stats.verdict import Verdict, interval, judge, p_value, set_aside
from pgstrata.store import Run
from pgstrata.store.choose import Side
from pgstrata.store.counted import counted_runs, plain_workload
from pgstrata.store.record import CountedRole, CountedStep

Json = dict[str, Any]
CountWord = Literal["more", "fewer", "same", "unclear"]

MARGIN = 0.002
"""Differences of instructions up to this share are none, unless asked otherwise."""

USUAL_OF_COUNTS = Criterion(MARGIN)

RESOLUTION = 5e-5
"""Least standard deviation of the log of a count from start to start that is believed: a few starts may
agree by chance, and a process that ends in a system call one instruction earlier is no difference of the
code."""

_WORDS: Mapping[str, CountWord] = {"slower": "more", "faster": "fewer", "same": "same", "unclear": "unclear"}


def estimate_counts(base: Sequence[float], other: Sequence[float]) -> Estimate:
    """Estimates the log of (base ÷ other) instructions per operation, from fresh starts of both, which are no
    pairs.

    Two-sample mean of logs with one variance for both (Student 1908): the noise comes from the same machine
    and step on both sides. Oriented as rates are: below 0 where the other one needs more.
    """
    n, m = len(base), len(other)
    if not n or not m:
        return Estimate(0.0, math.inf, 0.0, 0, "mean")
    x, y = ([math.log(max(value, 1e-9)) for value in side] for side in (base, other))
    log = mean(x) - mean(y)
    freedom = n + m - 2
    if not freedom:
        return Estimate(log, math.inf, 0.0, 1, "mean")
    squares = sum((v - mean(side)) ** 2 for side in (x, y) for v in side)
    deviation = max(math.sqrt(squares / freedom), RESOLUTION)
    return Estimate(log, deviation * math.sqrt(1 / n + 1 / m), freedom, min(n, m), "mean")


def precise(estimate: Estimate, margin: float) -> bool:
    """Returns whether the interval reaches at most half the margin to either side: more starts would not add
    knowledge."""
    low, high = interval(estimate)
    return (high - low) / 2 <= margin / 2


class CountVerdictRecord(TypedDict):
    """The verdict on one role of a step as JSON."""

    workload: str
    step: str
    role: str
    headline: bool
    base: float | None
    other: float | None
    word: CountWord
    ratio: float | None
    low: float | None
    high: float | None
    margin: float
    confidence: float
    starts: tuple[int, int]
    p_value: float | None
    adjusted_p: float | None
    reason: str
    aside: bool
    left_out: LeftOut | None


class CountComparisonRecord(TypedDict):
    """A comparison of counted instructions as JSON."""

    base: str
    other: str
    counted: str
    steps: list[CountVerdictRecord]
    notes: list[str]


CountRecords = list[CountComparisonRecord]


@dataclass(frozen=True)
class CountVerdict:
    """The verdict on one role of a step. base, other: instructions per operation, means over starts; None
    where a side was not counted. ratio: other ÷ base, above 1 is more. starts: of each side. left_out: what
    is executed for an operation beside them; None where it is not known."""

    workload: str
    step: str
    role: str
    headline: bool
    base: float | None
    other: float | None
    word: CountWord
    ratio: float
    low: float
    high: float
    margin: float
    confidence: float
    starts: tuple[int, int]
    p_value: float
    adjusted_p: float | None
    reason: str
    aside: bool = False
    left_out: LeftOut | None = None

    @property
    def name(self) -> str:
        """The step, and the role where it is not the headline's."""
        return self.step if self.headline else f"{self.step}, {self.role}"

    def record(self) -> CountVerdictRecord:
        """Returns the verdict in the form JSON can hold."""
        record: Json = finite(asdict(self))
        return cast(CountVerdictRecord, record)


@dataclass(frozen=True)
class CountComparison:
    """Other against base. notes: what a reader must know beside the table."""

    base: str
    other: str
    steps: tuple[CountVerdict, ...]
    notes: tuple[str, ...]

    def record(self) -> CountComparisonRecord:
        """Returns the comparison in the form JSON can hold."""
        return {
            "base": self.base,
            "other": self.other,
            "counted": "instructions per operation",
            "steps": [step.record() for step in self.steps],
            "notes": list(self.notes),
        }


_Steps = dict[tuple[str, str], tuple[Run, CountedStep]]


def margin_of_counts(runs: Iterable[Run]) -> float:
    """Returns the margin that runs were counted with, that of the newest; the usual one for other runs."""
    margins = [(run.record.started, run.record.counted.margin) for run in runs if run.record.counted]
    return max(((started, margin) for started, margin in margins if 0 < margin < 1), default=("", MARGIN))[1]


def compare_counts(
    base: Side,
    others: Sequence[Side],
    *,
    criterion: Criterion = USUAL_OF_COUNTS,
    steps: Iterable[str] = (),
) -> list[CountComparison]:
    """Judges each other side on every counted step that it or the base has; the verdicts are adjusted for the
    number of all of them.

    steps: only these.
    """
    wanted = set(steps)
    here = _by_step(base.runs)
    verdicts: dict[tuple[int, str, str, str], Verdict] = {}
    sides = [_by_step(other.runs) for other in others]
    for number, there in enumerate(sides):
        for key, (run, step) in here.items():
            if wanted and step.name not in wanted:
                continue
            theirs = there.get(key)
            for role in step.roles:
                counts = theirs[1].roles.get(role) if theirs else None
                verdict = _verdict(step.roles[role], counts, criterion)
                if reason := _aside(run, theirs[0] if theirs else None, others[number]):
                    verdict = set_aside(verdict, reason)
                elif counts is not None and counts.operations != step.roles[role].operations:
                    verdict = set_aside(verdict, "another number of operations was counted")
                verdicts[number, *key, role] = verdict
    adjusted = adjust_verdicts(verdicts)
    return [
        CountComparison(
            base.name,
            other.name,
            tuple(
                _made(here[key[1], key[2]], sides[number].get((key[1], key[2])), key, verdict)
                for key, verdict in adjusted.items()
                if key[0] == number
            ),
            (*_notes(base, other), *_plans(here, sides[number], wanted)),
        )
        for number, other in enumerate(others)
    ]


def _by_step(runs: Sequence[Run]) -> _Steps:
    steps: _Steps = {}
    for run in counted_runs(runs):
        assert run.record.counted is not None
        for step in run.record.counted.steps:
            steps[plain_workload(run), step.name] = (run, step)
    return steps


def _verdict(base: CountedRole, other: CountedRole | None, criterion: Criterion) -> Verdict:
    estimate = estimate_counts(base.instructions, other.instructions if other else ())
    return judge(estimate, interval(estimate, criterion.confidence), p_value(estimate), criterion)


def _aside(run: Run, other_run: Run | None, other: Side) -> str:
    for side in (run, other_run):
        if side is not None and not side.done:
            message = side.record.error.message if side.record.error else "it ended early"
            return f"{side.variant} failed: {message}"
    if other_run is None:
        failed = next((r for r in counted_runs(other.runs) if not r.done and r.record.error), None)
        if failed is not None and failed.record.error is not None:
            return f"{failed.variant} failed: {failed.record.error.message}"
        return f"{other.name} did not count it"
    ours, theirs = run.record.counted, other_run.record.counted
    if ours is not None and theirs is not None and ours.engine != theirs.engine:
        return f"one was counted by {ours.engine}, the other by {theirs.engine}"
    if other_work(run, other_run) or run.record.seed != other_run.record.seed:
        return "other work was counted: options or seed differ"
    return ""


def _made(
    base: tuple[Run, CountedStep],
    other: tuple[Run, CountedStep] | None,
    key: tuple[int, str, str, str],
    v: Verdict,
) -> CountVerdict:
    role = key[3]
    step = base[1]
    theirs = other[1].roles.get(role) if other else None
    ours = step.roles[role]
    reason = v.reason
    for rate, count in (("slower", "more"), ("faster", "fewer")):
        reason = re.sub(f"^{rate} by itself", f"{count} by itself", reason)
    known = theirs is not None
    word = _WORDS[v.word]
    beside, is_doubted = None, False
    if other is not None and theirs is not None:
        beside = left_out(ours, theirs, v.confidence)
        if not v.aside:
            doubt, remarks = _doubt(word, v, (base[0], ours), (other[0], theirs), beside)
            if is_doubted := bool(doubt):
                word, reason = "unclear", doubt
            elif remarks:
                reason += f"; {remarks}"
    return CountVerdict(
        workload=key[1],
        step=step.name,
        role=role,
        headline=role == step.role,
        base=mean(ours.instructions) if ours.instructions else None,
        other=mean(theirs.instructions) if theirs and theirs.instructions else None,
        word=word,
        ratio=1 / v.ratio if known else math.nan,
        low=1 / v.high if known else math.nan,
        high=(1 / v.low if v.low > 0 else math.inf) if known else math.nan,
        margin=v.margin,
        confidence=v.confidence,
        starts=(len(ours.instructions), len(theirs.instructions) if theirs else 0),
        p_value=v.p_value,
        adjusted_p=v.adjusted_p,
        reason=reason,
        aside=v.aside or is_doubted,
        left_out=beside,
    )


def _doubt(
    word: CountWord,
    v: Verdict,
    base: tuple[Run, CountedRole],
    other: tuple[Run, CountedRole],
    beside: LeftOut | None,
) -> tuple[str, str]:
    """Returns why the word does not hold, empty where it does, and what has to be said beside it."""
    notes = [
        note for run, role in (base, other) if (note := spread_note(run.variant, role.instructions, v.margin))
    ]
    remarks = "; ".join(notes)
    if notes and (word in ("same", "unclear") or spread_hides(base[1].instructions, other[1].instructions)):
        return f"{remarks}: they did not do the same work", ""
    return left_out_doubt(word, 1 / v.ratio, beside, v.margin), remarks


def _plans(base: _Steps, other: _Steps, wanted: set[str]) -> list[str]:
    """Returns a sentence for each step that executes another plan: its instructions are then not those of the
    same work."""
    return [
        f"{workload}/{step.name}: {change}"
        for (workload, name), (_, step) in base.items()
        if (workload, name) in other and (not wanted or name in wanted)
        for change in plan_changes(step.plans, other[workload, name][1].plans)
    ]


def _notes(base: Side, other: Side) -> list[str]:
    notes: list[str] = []
    for side in (base, other):
        for run in counted_runs(side.runs):
            counted = run.record.counted
            assert counted is not None
            notes += [
                f"not counted: {plain_workload(run)}/{step}: {why}" for step, why in counted.left_out.items()
            ]
            notes += [f"{plain_workload(run)}/{note}" for note in counted.notes]
            if counted.engine == "valgrind" and counted.symbols != "all":
                what = (
                    "only names of exported functions"
                    if counted.symbols == "exported"
                    else "no names: totals only"
                )
                notes.append(f"the binary of {run.variant} has {what}")
    tools = {
        r.record.counted.tool for side in (base, other) for r in counted_runs(side.runs) if r.record.counted
    }
    if len(tools) > 1:
        notes.append(f"the sides were counted by different tools: {', '.join(sorted(tools))}")
    if len(kinds := _kinds_of_machine(base, other)) > 1:
        notes.append(f"counted on machines of different kinds, which may differ by it: {'; '.join(kinds)}")
    return list(dict.fromkeys(notes))


def _kinds_of_machine(base: Side, other: Side) -> list[str]:
    """Returns the kinds of machine that counted: CPU model, and C library where all runs know it."""
    runs = [run for side in (base, other) for run in counted_runs(side.runs) if run.record.host.cpu_model]
    libraries = [run.record.counted.libc for run in runs if run.record.counted is not None]
    named = all(libraries)
    return sorted(
        {
            f"{run.record.host.cpu_model}, {libc}" if named else str(run.record.host.cpu_model)
            for run, libc in zip(runs, libraries, strict=True)
        }
    )

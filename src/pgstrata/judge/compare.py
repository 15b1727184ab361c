"""Two sets of runs, step by step: what of them makes pairs, and the verdict on it.

Which evidence is taken, best first:

- **machines**: several, each with pairs of its own of the kinds below (`judge.machines`);
- **slices** of an interleaved comparison: pairs taken next to each other in time;
- **repeats**: the runs of one repeat on both sides are a pair;
- **times**: response times of such slices, where the campaign asks for them (`judge.times`);
- **queries** of a step, executed alone in pairs (`judge.single_queries`): each has a verdict of its own;
- **runs** that are no pairs, one on each side as a rule: an interval only where it is known how much runs
  differ from one to the next on this host (`judge.spread`), else unclear.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NotRequired, TypedDict, cast

from msgspec import structs, to_builtins

from pgstrata.judge.common_queries import over_common
from pgstrata.judge.curves import CurvePoint, CurveSide, CurveVerdict, judge_curves
from pgstrata.judge.differences import Difference, doubts
from pgstrata.judge.disturbance import disturbed
from pgstrata.judge.estimates import EstimatesRecord
from pgstrata.judge.machines import Across, AcrossRecord, OnMachine, across, most_measured
from pgstrata.judge.operation_parts import OperationParts, OperationPartsRecord, operation_parts
from pgstrata.judge.pairs import Pairs, pairs_of, together, verdict_of
from pgstrata.judge.profiles import (
    ProfileVerdict,
    ProfileVerdictRecord,
    adjusted_profiles,
    judge_profiles,
)
from pgstrata.judge.query_causes import CauseRecord, QueryCause, judge_cause
from pgstrata.judge.query_parts import PartsRecord, QueryParts, query_parts
from pgstrata.judge.recall import recall_of, unequal
from pgstrata.judge.single_queries import UNIT, Phases, PhaseTimes, QueryVerdict, judge_queries
from pgstrata.judge.spread import spread_of
from pgstrata.judge.times import QUANTILES, TimesVerdict, judge_times, side_of
from pgstrata.stats.bootstrap import estimate_series
from pgstrata.stats.criterion import LEAST_BLOCKS, MARGIN, USUAL, Criterion
from pgstrata.stats.estimate import Estimate, estimate
from pgstrata.stats.metrics import counts_rows
from pgstrata.stats.multiplicity import adjust_verdicts
from pgstrata.stats.rates import over_repeats, per_second
from pgstrata.stats.runs import compare_runs
from pgstrata.stats.verdict import Verdict, VerdictRecord, set_aside
from pgstrata.store import Run
from pgstrata.store.choose import Side
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import ComparisonRecord, QueryCauseRecord, StepRecord
from pgstrata.turns.table import kind_of

Json = dict[str, Any]
Evidence = Literal["machines", "slices", "repeats", "runs", "queries", "times"]
OF_SLICES: Evidence = "slices"


class StepVerdictRecord(VerdictRecord):
    """The verdict on a step as JSON."""

    workload: str
    step: str
    unit: str
    base_rate: float | None
    other_rate: float | None
    evidence: Evidence
    across: NotRequired[AcrossRecord]
    machine: NotRequired[str]
    disturbance: NotRequired[str]
    base_seconds: NotRequired[float | None]
    other_seconds: NotRequired[float | None]
    base_end: NotRequired[str]
    other_end: NotRequired[str]
    cause: NotRequired[CauseRecord]
    planning: NotRequired[PhaseTimes]
    execution: NotRequired[PhaseTimes]
    parts: NotRequired[PartsRecord]
    operation_parts: NotRequired[OperationPartsRecord]
    profiles: NotRequired[list[ProfileVerdictRecord]]


class ComparisonJson(TypedDict):
    """A comparison as JSON: other against base."""

    base: str
    other: str
    steps: list[StepVerdictRecord]
    differences: list[str]
    only_base: list[str]
    only_other: list[str]
    curves: list[CurveVerdict]
    estimates: NotRequired[list[EstimatesRecord]]


ComparisonJsons = list[ComparisonJson]


@dataclass(frozen=True)
class StepVerdict:
    """The verdict on one step. `base_rate`: over the base's runs (their geometric mean), in `unit`;
    `other_rate`: that × the ratio of the verdict, None where there is none. `across`: the machines behind it,
    where there are several; rates are those of one of them then, `machine`, by its own ratio. `disturbance`:
    what kept the step from a verdict, empty where nothing did. `queries`: the verdicts on its queries, each
    named `STEP.QUERY`, where these were executed in pairs."""

    workload: str
    step: str
    unit: str
    base_rate: float | None
    other_rate: float | None
    evidence: Evidence
    verdict: Verdict
    across: Across | None = None
    machine: str = ""
    disturbance: str = ""
    queries: tuple[StepVerdict, ...] = ()
    times: tuple[StepVerdict, ...] = ()
    """The verdicts on its response times, each named `STEP.p99`; their rates are 1 ÷ seconds."""
    ends: tuple[str, str] = ("", "")
    """Of a query: `rejected` or `limited` for base and other where that side executes it no more."""
    cause: QueryCause | None = None
    """Of a query that was proven to differ while it was measured: why, and what helps."""
    phases: Phases | None = None
    """Of a query: planning and execution by themselves, where they were told apart."""
    parts: QueryParts | None = None
    """Of a query that differs: where its time went, as far as that is known."""
    operation_parts: OperationParts | None = None
    """Of a step that differs: where the time of an operation went, on `machine` where there are several."""
    profiles: tuple[ProfileVerdict, ...] = ()
    """Of a step that was profiled on both sides, by role; on the machine that measured it most often."""

    @property
    def ratio(self) -> float | None:
        """Other ÷ base; None where nothing was measured that could be held against each other."""
        return self.verdict.ratio if self.verdict.n else None

    @property
    def is_compared(self) -> bool:
        """Whether anything was held against each other: pairs, or a limit that one side runs into."""
        return self.verdict.n > 0 or self.verdict.decided

    @property
    def is_rejected(self) -> bool:
        """Whether it is a query that both sides reject."""
        return self.ends == ("rejected", "rejected")

    def ratio_on(self, machine: str) -> float | None:
        """Returns the ratio on a single machine, if the verdict is across several; None for a machine that is
        not among them."""
        if self.across is None:
            return self.ratio
        return next((verdict.ratio for verdict in self.across.machines if verdict.machine == machine), None)

    def record(self) -> StepVerdictRecord:
        """Returns the verdict in the form JSON can hold."""
        record: Json = {
            "workload": self.workload,
            "step": self.step,
            "unit": self.unit,
            "base_rate": self.base_rate,
            "other_rate": self.other_rate,
            "evidence": self.evidence,
            **self.verdict.record(),
            **({"across": self.across.record(), "machine": self.machine} if self.across is not None else {}),
            **({"disturbance": self.disturbance} if self.disturbance else {}),
            **(
                {
                    "base_seconds": _inverse(self.base_rate),
                    "other_seconds": _inverse(self.other_rate),
                }
                if self.evidence in ("queries", "times")
                else {}
            ),
            **({"base_end": self.ends[0], "other_end": self.ends[1]} if self.evidence == "queries" else {}),
            **({"cause": self.cause.record()} if self.cause is not None else {}),
            **(self.phases.record() if self.phases is not None else {}),
            **({"parts": to_builtins(self.parts.record())} if self.parts is not None else {}),
            **(
                {"operation_parts": to_builtins(self.operation_parts.record())}
                if self.operation_parts is not None
                else {}
            ),
            **({"profiles": [to_builtins(p.record()) for p in self.profiles]} if self.profiles else {}),
        }
        return cast(StepVerdictRecord, record)


@dataclass(frozen=True)
class Comparison:
    """Other against base: verdicts in the order of the steps.

    `doubts`: differences that make rates hard to compare. `only_base`, `only_other`: steps
    (`workload/step`) that the other side lacks; `common`: names of those that both have. `curves`: verdicts
    on steps that differ in their number of clients only.
    """

    base: str
    other: str
    steps: tuple[StepVerdict, ...]
    doubts: tuple[Difference, ...]
    only_base: tuple[str, ...]
    only_other: tuple[str, ...]
    common: tuple[str, ...] = ()
    curves: tuple[CurveVerdict, ...] = ()

    @property
    def judged(self) -> tuple[StepVerdict, ...]:
        """The verdicts on steps and on their response times, and on each query in the place of a step whose
        queries have their own."""
        return tuple(each for step in self.steps for each in (step.queries or (step, *step.times)))

    @property
    def title(self) -> str:
        """What is held against what."""
        return f"{self.other} against {self.base}"

    def record(self) -> ComparisonJson:
        """Returns the comparison in the form JSON can hold."""
        return {
            "base": self.base,
            "other": self.other,
            "steps": [step.record() for step in self.judged],
            "differences": [str(difference) for difference in self.doubts],
            "only_base": list(self.only_base),
            "only_other": list(self.only_other),
            "curves": [to_builtins(curve) for curve in self.curves],
        }


_Steps = dict[tuple[str, str], dict[int, MeasuredStep]]


def margin_of(runs: Iterable[Run]) -> float:
    """Returns the margin that runs were compared with while they were measured, that of the newest; the usual
    margin for runs that were measured by themselves."""
    margins = [(run.record.started, run.record.comparison.margin) for run in runs if run.record.comparison]
    return max(((started, margin) for started, margin in margins if 0 < margin < 1), default=("", MARGIN))[1]


def compare_all(
    base: Side,
    others: Sequence[Side],
    *,
    criterion: Criterion = USUAL,
    steps: Iterable[str] = (),
    known: Callable[[], Iterable[Run]] = tuple,
) -> list[Comparison]:
    """Judges each other side against the base, on every measured step that both have.

    Adjusted for the number of all of them together (Benjamini–Hochberg). steps: only these, or these queries
    (`STEP.QUERY`) of steps whose queries have verdicts of their own. Failed runs
    count where no finished one of their repeat does: what they measured is kept, and the verdict is unclear.
    known: gives further runs, which may say how much runs differ; called where there are single ones.
    Raises StoreError where a run's series is damaged.
    """
    wanted = set(steps)
    (base_runs, *other_runs), shared = over_common([base.runs, *(other.runs for other in others)])
    numbers = _numbers_of_repeats([base_runs, *other_runs])
    here = _by_step(base_runs, numbers)
    sides = [_by_step(runs, numbers) for runs in other_runs]
    history = _Once(known)
    measured: dict[tuple[int, str, str], tuple[_Side, _Side]] = {}
    verdicts: dict[tuple[int, str, str], Verdict] = {}
    evidence: dict[tuple[int, str, str], tuple[Evidence, Across | None, str]] = {}
    of_queries: dict[tuple[int, str, str], dict[str, QueryVerdict]] = {}
    of_times: dict[tuple[int, str, str], dict[str, TimesVerdict]] = {}
    profiles: list[tuple[tuple[int, str, str], ProfileVerdict]] = []
    for number, there in enumerate(sides):
        for workload, step in here:
            if (workload, step) not in there:
                continue
            ours, theirs = _on_common_machines(here[workload, step], there[workload, step])
            queries = [
                query
                for query in judge_queries(ours, theirs, criterion)
                if not wanted or wanted & {step, f"{step}.{query.name}"}
            ]
            if wanted and step not in wanted and not queries:
                continue
            key = (number, workload, step)
            for query in queries:
                name = f"{step}.{query.name}"
                verdicts[number, workload, name] = _set_aside(query.verdict, ours, theirs, "")
                of_queries.setdefault(key, {})[name] = query
            ours, theirs, reason = undisturbed(ours, theirs)
            measured[key] = ours, theirs
            of, verdict, by = _verdict(step, ours, theirs, history, criterion)
            if of == OF_SLICES:
                verdict = _with_number_to_use(verdict, ours, theirs)
            evidence[key] = of, by, "" if queries else reason
            if part := shared.get((workload, step)):
                verdict = replace(verdict, reason=f"{verdict.reason}; {part}")
            verdicts[key] = _set_aside(verdict, ours, theirs, reason)
            for time in [] if of == "machines" else _times(ours, theirs, criterion):
                name = f"{step}.{time.name}"
                verdicts[number, workload, name] = _set_aside(time.verdict, ours, theirs, reason)
                of_times.setdefault(key, {})[name] = time
            profiles += [(key, profile) for profile in _profiles(ours, theirs, criterion, verdicts[key])]
    adjusted = adjust_verdicts(verdicts)
    of_profiles: dict[tuple[int, str, str], list[ProfileVerdict]] = {}
    for (key, _), profile in zip(profiles, adjusted_profiles([p for _, p in profiles]), strict=True):
        of_profiles.setdefault(key, []).append(profile)
    comparisons = [
        Comparison(
            base.name,
            other.name,
            tuple(
                replace(
                    _step(key[1:], measured[key], *evidence[key], adjusted[key]),
                    queries=tuple(
                        _query(
                            key[1], name, query, adjusted[number, key[1], name], here[key[1:]], there[key[1:]]
                        )
                        for name, query in of_queries.get(key, {}).items()
                    ),
                    times=tuple(
                        _time(key[1], name, time, adjusted[number, key[1], name])
                        for name, time in of_times.get(key, {}).items()
                    ),
                    profiles=tuple(of_profiles.get(key, ())),
                )
                for key in evidence
                if key[0] == number
            ),
            tuple(_doubts(base.runs, other.runs)),
            tuple("/".join(key) for key in here if key not in there and _is_wanted(key[1], wanted)),
            tuple("/".join(key) for key in there if key not in here and _is_wanted(key[1], wanted)),
            tuple(dict.fromkeys(step for workload, step in here if (workload, step) in there)),
        )
        for number, (other, there) in enumerate(zip(others, sides, strict=True))
    ]
    return [
        replace(comparison, curves=tuple(_curves(comparison.steps, number, measured)))
        for number, comparison in enumerate(comparisons)
    ]


def _is_wanted(step: str, wanted: set[str]) -> bool:
    return not wanted or step in wanted


def _curves(
    steps: Sequence[StepVerdict], number: int, measured: Mapping[tuple[int, str, str], tuple[_Side, _Side]]
) -> Iterator[CurveVerdict]:
    """Judges the curves of a comparison. number: of the comparison; measured: both sides of its steps."""
    for workload in dict.fromkeys(step.workload for step in steps):
        points = [
            (step.step, _point(step, *measured[number, workload, step.step]))
            for step in steps
            if step.workload == workload
        ]
        yield from judge_curves(workload, points)


def _point(step: StepVerdict, ours: _Side, theirs: _Side) -> CurvePoint:
    base, other = (
        [m for m in side.values() if step.machine in ("", m.run.machine)] for side in (ours, theirs)
    )
    return CurvePoint(step.verdict, CurveSide(step.base_rate, base), CurveSide(step.other_rate, other))


def _step(
    key: tuple[str, str],
    sides: tuple[_Side, _Side],
    evidence: Evidence,
    by: Across | None,
    disturbance: str,
    verdict: Verdict,
) -> StepVerdict:
    ours, theirs = sides
    unit, machine = _first(ours).record.rate_unit, ""
    if by is not None:
        names = {machine_verdict.machine for machine_verdict in by.machines}
        machine = most_measured([m.run.machine for m in ours.values() if m.run.machine in names])
        ours = {n: m for n, m in ours.items() if m.run.machine == machine}
    base = _rate(ours)
    step_verdict = StepVerdict(*key, unit, base, None, evidence, verdict, by, machine, disturbance)
    ratio = step_verdict.ratio_on(machine)
    if base is None or ratio is None:
        return step_verdict
    parts = None
    if verdict.word in ("slower", "faster"):
        theirs = {n: m for n, m in theirs.items() if machine in ("", m.run.machine)}
        parts = operation_parts(_counting(ours), _counting(theirs), ratio)
    return replace(step_verdict, other_rate=base * ratio, operation_parts=parts)


def _query(
    workload: str, name: str, query: QueryVerdict, verdict: Verdict, base: _Side, other: _Side
) -> StepVerdict:
    """Returns the verdict on a query as a verdict on a step. verdict: that of the query, adjusted for the
    number of all; base, other: the step of both."""
    rates = query.base_rate, query.other_rate
    phases = query.phases.without_words if query.phases is not None and verdict.aside else query.phases
    cause = parts = None
    if verdict.word in ("slower", "faster"):
        looked_into = _looked_into(query.name, base, other)
        if looked_into is not None:
            cause = _cause(query, verdict, *looked_into)
        if query.means is not None:
            record = looked_into[0] if looked_into is not None else None
            details = (record.files, record.planning_seconds) if record is not None else ()
            parts = query_parts(query.means, *details)
    return StepVerdict(
        workload,
        name,
        UNIT,
        *rates,
        "queries",
        verdict,
        ends=query.ends,
        cause=cause,
        phases=phases,
        parts=parts,
    )


def _looked_into(
    name: str, base: _Side, other: _Side
) -> tuple[QueryCauseRecord, MeasuredStep, MeasuredStep] | None:
    """Returns what the last comparison that has looked for it recorded of why a query differs, with the step
    of both sides; None where none has."""
    for repeat in sorted(base.keys() & other.keys(), reverse=True):
        ours, theirs = base[repeat], other[repeat]
        record = next((cause for cause in theirs.record.query_causes if cause.name == name), None)
        if record is not None and _together(ours.run, theirs.run) is not None:
            return record, ours, theirs
    return None


def _cause(
    query: QueryVerdict, verdict: Verdict, record: QueryCauseRecord, base: MeasuredStep, other: MeasuredStep
) -> QueryCause:
    labels = base.run.variant, other.run.variant
    limit, seconds = other.record.load_limit, _inverse(query.base_rate)
    planning = query.phases.planning if query.phases is not None else None
    return judge_cause(record, labels, verdict, limit, verdict.criterion, seconds, planning)


def _times(
    base: Mapping[int, MeasuredStep], other: Mapping[int, MeasuredStep], criterion: Criterion
) -> list[TimesVerdict]:
    """Returns the verdicts on the response times that the campaign asks for."""
    common = [
        (base[repeat], other[repeat], comparison)
        for repeat in sorted(base.keys() & other.keys())
        if (comparison := _together(base[repeat].run, other[repeat].run)) is not None
    ]
    if not common or not any(comparison.judge for _, _, comparison in common):
        return []
    asked = common[-1][2]
    criterion = replace(criterion, margin=asked.times_margin)
    sides = [(side_of(ours), side_of(theirs)) for ours, theirs, _ in common]
    watched = any(comparison.until == "verdict" for _, _, comparison in common)
    names = [name for name in asked.judge if name in QUANTILES]
    return judge_times(names, sides, watched=watched, criterion=criterion)


def _profiles(base: _Side, other: _Side, criterion: Criterion, verdict: Verdict) -> list[ProfileVerdict]:
    """Returns the verdicts on the profiles of a step, of one machine. verdict: that on its rate."""
    machine = most_measured([m.run.machine for m in base.values()])
    ours, theirs = (
        {repeat: m for repeat, m in side.items() if m.run.machine == machine} for side in (base, other)
    )
    return judge_profiles(ours, theirs, criterion, verdict.reason if verdict.aside else "")


def _time(workload: str, name: str, time: TimesVerdict, verdict: Verdict) -> StepVerdict:
    """Returns the verdict on a response time as a verdict on a step. verdict: that on the response time,
    adjusted for the number of all."""
    return StepVerdict(workload, name, UNIT, _inverse(time.base), _inverse(time.other), "times", verdict)


def _inverse(rate: float | None) -> float | None:
    return 1 / rate if rate else None


_Numbers = Mapping[tuple[str, int, str], int]
"""By workload, repeat and machine."""


def _numbers_of_repeats(sides: Sequence[Sequence[Run]]) -> _Numbers:
    """Returns the numbers of repeats that have another one than their own: results of two hosts that were
    copied together have runs of the same repeat, and one must not stand for the other."""
    done = [[run for run in runs if run.done] for runs in sides]
    machines: dict[tuple[str, int], set[str]] = {}
    several: set[tuple[str, int]] = set()
    for runs in done:
        here: dict[tuple[str, int], set[str]] = {}
        for run in runs:
            here.setdefault((run.workload, run.repeat), set()).add(run.machine)
        several |= {place for place, names in here.items() if len(names) > 1}
        for place, names in here.items():
            machines.setdefault(place, set()).update(names)
    free = itertools.count(1 + max((run.repeat for runs in sides for run in runs), default=0))
    return {
        (*place, machine): next(free) for place in sorted(several) for machine in sorted(machines[place])[1:]
    }


def _by_step(runs: Sequence[Run], numbers: _Numbers) -> _Steps:
    """Returns step → repeat → the record of the newest finished run, or of a failed run if no run
    finished. numbers: of repeats that have another one than their own."""
    steps: _Steps = {}
    for run in sorted(runs, key=lambda r: (r.done, r.record.started)):
        number = numbers.get((run.workload, run.repeat, run.machine), run.repeat)
        for record in run.steps:
            if record.measured:
                steps.setdefault((run.workload, record.name), {})[number] = MeasuredStep(run, record)
    return steps


class _Once:
    """Further runs, read when they are asked for, and once."""

    def __init__(self, read: Callable[[], Iterable[Run]]) -> None:
        self._read = read

    @cached_property
    def runs(self) -> list[Run]:
        return list(self._read())


@dataclass(frozen=True)
class _Paired:
    """What stands next to each other on one machine: slices, or runs of the same repeats."""

    evidence: Literal["slices", "repeats"]
    pairs: Pairs
    watched: bool = False
    span: float | None = None

    def estimate(self) -> Estimate:
        return estimate(*self.pairs)

    def verdict(self, criterion: Criterion) -> Verdict:
        return verdict_of(self.pairs, criterion, watched=self.watched, span=self.span)


def _verdict(
    step: str,
    base: Mapping[int, MeasuredStep],
    other: Mapping[int, MeasuredStep],
    history: _Once,
    criterion: Criterion,
) -> tuple[Evidence, Verdict, Across | None]:
    common = sorted(base.keys() & other.keys())
    by_machine: dict[str, list[int]] = {}
    for repeat in common:
        if base[repeat].run.machine == other[repeat].run.machine:
            by_machine.setdefault(base[repeat].run.machine, []).append(repeat)
    paired_machines = {
        machine: paired
        for machine, repeats in by_machine.items()
        if (paired := _paired(base, other, repeats)).pairs.base
    }
    if len(paired_machines) > 1:
        seen = {name: OnMachine(pairs.estimate(), pairs.watched) for name, pairs in paired_machines.items()}
        verdict, by = across(seen, criterion)
        return "machines", verdict, by
    # Runs of two machines are pairs only for those who ask for just that.
    paired = next(iter(paired_machines.values())) if paired_machines else _paired(base, other, common)
    if paired.evidence == "slices" or len(paired.pairs.base) > 1:
        return paired.evidence, paired.verdict(criterion), None
    return "runs", _unpaired(step, base, other, history, criterion), None


def _paired(
    base: Mapping[int, MeasuredStep], other: Mapping[int, MeasuredStep], repeats: Sequence[int]
) -> _Paired:
    parts: list[Pairs] = []
    spans: list[float | None] = []
    watched = in_turn = False
    for repeat in repeats:
        if _drawn(base[repeat]) or _drawn(other[repeat]):
            continue
        if comparison := _together(base[repeat].run, other[repeat].run):
            in_turn = in_turn or bool(base[repeat].record.slices)
            parts.append(pairs_of(base[repeat].record, other[repeat].record))
            spans.append(base[repeat].record.span)
            watched = watched or comparison.until == "verdict"
    if in_turn:
        # Several repeats were looked at by themselves, and how long they are together nobody knew before.
        return _Paired("slices", together(parts), watched, spans[0] if len(spans) == 1 else None)
    runs = [
        (ours, theirs)
        for repeat in repeats
        if (ours := base[repeat].record.rate) is not None
        and (theirs := other[repeat].record.rate) is not None
    ]
    return _Paired("repeats", Pairs([b for b, _ in runs], [o for _, o in runs]))


def _drawn(measured: MeasuredStep) -> bool:
    """Returns whether the searched index was drawn by chance, once in each run: then slices of one run say
    how fast that index is and nothing about the index of the next run."""
    return recall_of(measured.run, measured.record.name) is not None


def _unpaired(
    step: str,
    base: Mapping[int, MeasuredStep],
    other: Mapping[int, MeasuredStep],
    history: _Once,
    criterion: Criterion,
) -> Verdict:
    sides = [[m for m in side.values() if m.record.rate is not None] for side in (base, other)]
    spread = within = None
    if all(sides):
        spread = spread_of(step, [m.run for side in sides for m in side], history.runs)
    if spread is not None and len(sides[0]) == len(sides[1]) == 1:
        within = _within(sides[0][0], sides[1][0])
    ours, theirs = ([m.record.rate or 0.0 for m in side] for side in sides)
    return compare_runs(ours, theirs, spread, within, criterion=criterion)


def _within(base: MeasuredStep, other: MeasuredStep) -> Estimate | None:
    """Estimates the ratio of two runs from their seconds; None for steps that have too few."""
    series = _seconds(base), _seconds(other)
    return estimate_series(*series) if min(map(len, series)) > 1 else None


def _together(base: Run, other: Run) -> ComparisonRecord | None:
    """Returns the comparison in which both runs were measured in turn; None if they were not."""
    ours, theirs = base.record.comparison, other.record.comparison
    return ours if ours is not None and theirs is not None and ours.id == theirs.id else None


def _seconds(measured: MeasuredStep) -> list[float]:
    """Returns the rates of the headline's seconds; those of a step judged by a fixed amount say nothing."""
    record = measured.record
    if not any(structs.astuple(record.rate_percentiles)):
        return []
    counts = "rows" if counts_rows(record.rate_unit) else "operations"
    table = measured.run.table("series", ["step", "role", "second", "seconds", "operations", "rows"])
    rows = list(table.where(step=record.name))
    return [rate for _, rate in per_second(rows, record.role, counts)]


_Side = dict[int, MeasuredStep]
"""Of one step: by repeat."""


def _on_common_machines(base: _Side, other: _Side) -> tuple[_Side, _Side]:
    """Returns both sides without the runs of machines that say nothing of the other side: rates of different
    machines are never divided by each other. As they are where no machine has both."""
    in_pairs = {
        base[repeat].run.machine
        for repeat in base.keys() & other.keys()
        if base[repeat].run.machine == other[repeat].run.machine
    }
    here, there = ({m.run.machine for m in side.values()} for side in (base, other))
    chosen = in_pairs or here & there
    if not chosen:
        return base, other
    ours, theirs = (
        {repeat: m for repeat, m in side.items() if m.run.machine in chosen} for side in (base, other)
    )
    return ours, theirs


def undisturbed(base: _Side, other: _Side) -> tuple[_Side, _Side, str]:
    """Returns both sides without the machines on which the step was disturbed, and an empty text; where
    nothing would be left, both sides as they are, and why."""
    machines = list(dict.fromkeys(m.run.machine for m in (*base.values(), *other.values())))
    in_turn = {
        repeat
        for repeat in base.keys() & other.keys()
        if _together(base[repeat].run, other[repeat].run) is not None
    }

    def reason_on(machine: str) -> str:
        pairs = [
            (base[repeat].record, other[repeat].record)
            for repeat in sorted(in_turn)
            if base[repeat].run.machine == machine
        ]
        others = (
            m.record
            for side in (base, other)
            for repeat, m in side.items()
            if m.run.machine == machine and repeat not in in_turn
        )
        return disturbed(pairs, others)

    reasons = {machine: reason_on(machine) for machine in machines}
    if not all(reasons.values()):
        base, other = (
            {repeat: m for repeat, m in side.items() if not reasons[m.run.machine]} for side in (base, other)
        )
        if base and other:
            return base, other, ""
    return base, other, next((reason for reason in reasons.values() if reason), "")


def _with_number_to_use(verdict: Verdict, base: _Side, other: _Side) -> Verdict:
    """Returns the verdict on slices; where measuring ended before there were enough batches in all repeats
    together, set aside for how long it has to last."""
    pairs = [(base[repeat], other[repeat]) for repeat in sorted(base.keys() & other.keys())]
    measured = [m for both in pairs for m in both]
    comparison = measured[0].run.record.comparison
    batches = sum(min(len(m.record.blocks) for m in both) for both in pairs)
    # Rounds from a snapshot are no batches.
    rounds = any(kind_of(m.record.turns).from_snapshot for m in measured if m.record.blocks)
    if verdict.word != "unclear" or comparison is None or rounds or not 0 < batches < LEAST_BLOCKS:
        return verdict
    seconds = max(m.record.seconds for m in measured) * LEAST_BLOCKS / batches
    if comparison.until == "verdict":
        number = f"max_seconds = {math.ceil(seconds * len(comparison.variants))} or more"
    else:
        number = f"steps of {math.ceil(seconds)} s or more"
    # An interval of so few holds less than its confidence: nothing is excluded by it.
    return set_aside(verdict, f"{batches} of at least {LEAST_BLOCKS} batches were measured: {number}")


def _set_aside(verdict: Verdict, base: _Side, other: _Side, disturbance: str) -> Verdict:
    for m in (*base.values(), *other.values()):
        # Steps that ended before the one that failed are whole.
        if not m.run.done and (m.record.error is not None or not _went_on(m)):
            message = m.run.record.error.message if m.run.record.error else "it ended early"
            return set_aside(verdict, f"{m.run.variant} failed: {message}")
        if m.record.sla_met is False:
            return set_aside(verdict, f"{m.run.variant} missed its background writes (SLA)")
    reason = unequal(base.values(), other.values()) or disturbance
    return set_aside(verdict, reason) if reason else verdict


def _went_on(measured: MeasuredStep) -> bool:
    """Returns whether a run that failed did so in a step that it names, so that its remaining steps are
    whole."""
    return any(step.error is not None for step in measured.run.steps)


def _rate(measured: Mapping[int, MeasuredStep]) -> float | None:
    """Returns the rate over the finished runs, over failed runs only if none finished: as a report has it."""
    rate = over_repeats([record.rate for record in _counting(measured) if record.rate is not None])
    return None if rate is None else rate.value


def _counting(measured: Mapping[int, MeasuredStep]) -> list[StepRecord]:
    """Returns the records of the finished runs, of failed runs only if none finished."""
    return [m.record for m in measured.values() if m.run.done] or [m.record for m in measured.values()]


def _first(measured: Mapping[int, MeasuredStep]) -> MeasuredStep:
    return measured[min(measured)]


def _doubts(base: Sequence[Run], other: Sequence[Run]) -> list[Difference]:
    """Returns the doubtful differences between runs of the same workload: runs of different workloads are
    never compared."""
    differences: dict[tuple[str, str, str], Difference] = {}
    for workload in dict.fromkeys(run.workload for run in base):
        ours, theirs = ([run for run in runs if run.workload == workload] for runs in (base, other))
        # Of machines that measured both, each compares its own runs.
        both = {run.machine for run in ours} & {run.machine for run in theirs}
        sets = [[run for run in (*ours, *theirs) if run.machine == m] for m in sorted(both)]
        for difference in (d for runs in (sets or [[*ours, *theirs]]) for d in doubts(runs)):
            differences.setdefault((difference.kind, difference.name, repr(difference.other)), difference)
    return list(differences.values())

"""Two sets of runs, step by step: what of them makes pairs, and the verdict on it.

Which evidence is taken, best first:

- **slices** of an interleaved comparison: pairs taken next to each other in time;
- **repeats**: the runs of one repeat on both sides are a pair;
- **runs** that are no pairs, one on each side as a rule: an interval only where it is known how much runs
  differ from one to the next on this host (`judge.spread`), else unclear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from msgspec import structs

from pgstrata.judge.differences import Difference, doubts
from pgstrata.judge.spread import spread_of
from pgstrata.stats import sequential
from pgstrata.stats.bootstrap import estimate_series
from pgstrata.stats.estimate import Estimate
from pgstrata.stats.metrics import counts_rows
from pgstrata.stats.multiplicity import adjust_verdicts
from pgstrata.stats.rates import over_repeats, per_second
from pgstrata.stats.runs import compare_runs
from pgstrata.stats.verdict import CONFIDENCE, MARGIN, Verdict, compare, set_aside
from pgstrata.store import Run
from pgstrata.store.choose import Side
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import ComparisonRecord, StepRecord

Json = dict[str, Any]
Evidence = Literal["slices", "repeats", "runs"]


@dataclass(frozen=True)
class StepVerdict:
    """The verdict on one step. Rates are medians over the runs, per second in `unit`."""

    workload: str
    step: str
    unit: str
    base_rate: float | None
    other_rate: float | None
    evidence: Evidence
    verdict: Verdict

    def record(self) -> Json:
        """As JSON can hold it."""
        return {
            "workload": self.workload,
            "step": self.step,
            "unit": self.unit,
            "base_rate": self.base_rate,
            "other_rate": self.other_rate,
            "evidence": self.evidence,
            **self.verdict.record(),
        }


@dataclass(frozen=True)
class SideComparison:
    """Other against base: verdicts in the order of the steps.

    `doubts`: differences that make rates hard to compare. `only_base`, `only_other`: steps
    (`workload/step`) that the other side lacks; `common`: names of those that both have.
    """

    base: str
    other: str
    steps: tuple[StepVerdict, ...]
    doubts: tuple[Difference, ...]
    only_base: tuple[str, ...]
    only_other: tuple[str, ...]
    common: tuple[str, ...] = ()

    def record(self) -> Json:
        """As JSON can hold it."""
        return {
            "base": self.base,
            "other": self.other,
            "steps": [step.record() for step in self.steps],
            "differences": [str(difference) for difference in self.doubts],
            "only_base": list(self.only_base),
            "only_other": list(self.only_other),
        }


_Steps = dict[tuple[str, str], dict[int, MeasuredStep]]


def compare_all(
    base: Side,
    others: Sequence[Side],
    *,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    steps: Iterable[str] = (),
    known: Callable[[], Iterable[Run]] = tuple,
) -> list[SideComparison]:
    """Verdicts of each other side against the base, on every measured step that both have.

    Adjusted for the number of all of them together (Benjamini–Hochberg). steps: only these. Failed runs
    count where no finished one of their repeat does: what they measured is kept, and the verdict is unclear.
    known: gives further runs, which may say how much runs differ; called where there are single ones.
    Raises ValueError for a margin or confidence outside 0 … 1, StoreError where a run's series is damaged.
    """
    wanted = set(steps)
    here = _by_step(base.runs)
    sides = [_by_step(other.runs) for other in others]
    history = _Once(known)
    verdicts: dict[tuple[int, str, str], Verdict] = {}
    evidence: dict[tuple[int, str, str], Evidence] = {}
    for number, there in enumerate(sides):
        for workload, step in here:
            if (workload, step) not in there or (wanted and step not in wanted):
                continue
            ours, theirs = here[workload, step], there[workload, step]
            key = (number, workload, step)
            evidence[key], verdict = _verdict(step, ours, theirs, history, margin, confidence)
            verdicts[key] = _set_aside(verdict, [*ours.values(), *theirs.values()])
    found = adjust_verdicts(verdicts)
    return [
        SideComparison(
            base.name,
            other.name,
            tuple(
                _step(key[1:], here, there, evidence[key], verdict)
                for key, verdict in found.items()
                if key[0] == number
            ),
            tuple(_doubts(base.runs, other.runs)),
            tuple("/".join(key) for key in here if key not in there),
            tuple("/".join(key) for key in there if key not in here),
            tuple(dict.fromkeys(step for workload, step in here if (workload, step) in there)),
        )
        for number, (other, there) in enumerate(zip(others, sides, strict=True))
    ]


def _step(
    key: tuple[str, str], here: _Steps, there: _Steps, evidence: Evidence, verdict: Verdict
) -> StepVerdict:
    unit = _first(here[key]).record.rate_unit
    return StepVerdict(*key, unit, _rate(here[key]), _rate(there[key]), evidence, verdict)


def step_pairs(base: StepRecord, other: StepRecord) -> tuple[list[float], list[float]]:
    """Rates of the slices of two step records that were taken as pairs, in their order."""
    second = {s.pair: s.rate for s in other.slices}
    both = [(s.rate, second[s.pair]) for s in base.slices if s.pair in second]
    return [b for b, _ in both], [o for _, o in both]


def _by_step(runs: Sequence[Run]) -> _Steps:
    """Step → repeat → the newest finished run's record of it, a failed one's where there is no other."""
    found: _Steps = {}
    for run in sorted(runs, key=lambda r: (r.done, r.record.started)):
        for record in run.steps:
            if record.measured:
                found.setdefault((run.workload, record.name), {})[run.repeat] = MeasuredStep(run, record)
    return found


class _Once:
    """Further runs, read when they are asked for, and once."""

    def __init__(self, read: Callable[[], Iterable[Run]]) -> None:
        self._read = read

    @cached_property
    def runs(self) -> list[Run]:
        return list(self._read())


def _verdict(
    step: str,
    base: Mapping[int, MeasuredStep],
    other: Mapping[int, MeasuredStep],
    history: _Once,
    margin: float,
    confidence: float,
) -> tuple[Evidence, Verdict]:
    common = sorted(base.keys() & other.keys())
    left: list[float] = []
    right: list[float] = []
    watched = False
    for repeat in common:
        if comparison := _together(base[repeat].run, other[repeat].run):
            pairs = step_pairs(base[repeat].record, other[repeat].record)
            left += pairs[0]
            right += pairs[1]
            watched = watched or comparison.until == "verdict"
    if left:
        # Whoever stopped when the verdict was clear must be judged by the interval that allows for it.
        judge = sequential.look if watched else compare
        return "slices", judge(left, right, margin=margin, confidence=confidence)
    pairs_of_runs = [
        (ours, theirs)
        for repeat in common
        if (ours := base[repeat].record.rate) is not None
        and (theirs := other[repeat].record.rate) is not None
    ]
    if len(pairs_of_runs) > 1:
        b, o = zip(*pairs_of_runs, strict=True)
        return "repeats", compare(b, o, margin=margin, confidence=confidence)
    return "runs", _unpaired(step, base, other, history, margin, confidence)


def _unpaired(
    step: str,
    base: Mapping[int, MeasuredStep],
    other: Mapping[int, MeasuredStep],
    history: _Once,
    margin: float,
    confidence: float,
) -> Verdict:
    sides = [[m for m in side.values() if m.record.rate] for side in (base, other)]
    spread = within = None
    if all(sides):
        spread = spread_of(step, [m.run for side in sides for m in side], history.runs)
    if spread is not None and len(sides[0]) == len(sides[1]) == 1:
        within = _within(sides[0][0], sides[1][0])
    ours, theirs = ([m.record.rate or 0.0 for m in side] for side in sides)
    return compare_runs(ours, theirs, spread, within, margin=margin, confidence=confidence)


def _within(base: MeasuredStep, other: MeasuredStep) -> Estimate | None:
    """What the seconds of two runs say; None for steps that have too few."""
    series = _seconds(base), _seconds(other)
    return estimate_series(*series) if min(map(len, series)) > 1 else None


def _together(base: Run, other: Run) -> ComparisonRecord | None:
    """The comparison in which both runs were measured in turn; None if they were not."""
    ours, theirs = base.record.comparison, other.record.comparison
    return ours if ours is not None and theirs is not None and ours.id == theirs.id else None


def _seconds(measured: MeasuredStep) -> list[float]:
    """Rates of the headline's seconds; those of a step judged by a fixed amount say nothing."""
    record = measured.record
    if not any(structs.astuple(record.rate_percentiles)):
        return []
    counts = "rows" if counts_rows(record.rate_unit) else "operations"
    table = measured.run.table("series", ["step", "role", "second", "seconds", "operations", "rows"])
    rows = [row for row in table.iter_rows(named=True) if row["step"] == record.name]
    return [rate for _, rate in per_second(rows, record.role, counts)]


def _set_aside(verdict: Verdict, measured: Iterable[MeasuredStep]) -> Verdict:
    for m in measured:
        if not m.run.done:
            message = m.run.record.error.message if m.run.record.error else "it ended early"
            return set_aside(verdict, f"{m.run.variant} failed: {message}")
        if m.record.sla_met is False:
            return set_aside(verdict, f"{m.run.variant} missed its background writes (SLA)")
    return verdict


def _rate(measured: Mapping[int, MeasuredStep]) -> float | None:
    rate = over_repeats([m.record.rate for m in measured.values() if m.record.rate is not None])
    return None if rate is None else rate.value


def _first(measured: Mapping[int, MeasuredStep]) -> MeasuredStep:
    return measured[min(measured)]


def _doubts(base: Sequence[Run], other: Sequence[Run]) -> list[Difference]:
    """Of runs of the same workload: those of different ones are never compared."""
    found: dict[tuple[str, str, str], Difference] = {}
    for workload in dict.fromkeys(run.workload for run in base):
        runs = [run for run in (*base, *other) if run.workload == workload]
        for difference in doubts(runs):
            found.setdefault((difference.kind, difference.name, repr(difference.other)), difference)
    return list(found.values())

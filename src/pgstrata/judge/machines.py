"""What several machines say of one step: each compares its own runs, and the verdict is on all of them.

Rates of different machines are never divided by each other. A pair of runs, or of their slices, is one only
where both were measured on the same machine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from pgstrata.stats import sequential
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.distributions import student_quantile
from pgstrata.stats.estimate import Estimate
from pgstrata.stats.random_effects import combine
from pgstrata.stats.verdict import Verdict, Word, interval, judge, p_value
from pgstrata.store import Run


@dataclass(frozen=True)
class MachineVerdict:
    """What one machine says by itself. `ratio`, `low`, `high`: as in a verdict; `n`: its pairs."""

    machine: str
    word: Word
    ratio: float
    low: float
    high: float
    n: int


class MachineRecord(TypedDict):
    """What one machine says, as JSON."""

    machine: str
    word: Word
    ratio: float
    low: float | None
    high: float | None
    n: int


class AcrossRecord(TypedDict):
    """The verdicts of the machines, as JSON."""

    between: float | None
    machines: list[MachineRecord]


@dataclass(frozen=True)
class Across:
    """The machines behind a verdict. `between`: the standard deviation of the true difference from machine to
    machine, a share; None where it cannot be told from the noise of few pairs."""

    machines: tuple[MachineVerdict, ...]
    between: float | None

    def summary(self, verdict: Verdict) -> str:
        """Returns the verdict in words: `slower on 4 of 5 machines, 3.1 % (2.2 … 4.0)`."""
        words = Counter(machine.word for machine in self.machines)
        number = len(self.machines)
        if verdict.word in ("slower", "faster"):
            sign = -1 if verdict.word == "slower" else 1
            ends = sorted(sign * (ratio - 1) * 100 for ratio in (verdict.low, verdict.high))
            size = sign * (verdict.ratio - 1) * 100
            return (
                f"{verdict.word} on {words[verdict.word]} of {number} machines, "
                f"{size:.1f} % ({ends[0]:.1f} … {ends[1]:.1f})"
            )
        alone = ", ".join(f"{count} {word}" for word, count in words.most_common())
        return f"{verdict.word} across {number} machines (by itself: {alone})"

    def differ(self) -> str:
        """Returns in words how much machines differ."""
        if self.between is None:
            return "how much machines differ is not known from so few pairs"
        return f"machines differ by {self.between:.1%}".replace("%", " %")

    def record(self) -> AcrossRecord:
        """Returns the verdicts of the machines in the form JSON can hold."""
        return {
            "between": self.between,
            "machines": [
                {
                    "machine": verdict.machine,
                    "word": verdict.word,
                    "ratio": verdict.ratio,
                    "low": verdict.low if math.isfinite(verdict.low) else None,
                    "high": verdict.high if math.isfinite(verdict.high) else None,
                    "n": verdict.n,
                }
                for verdict in self.machines
            ],
        }


@dataclass(frozen=True)
class OnMachine:
    """What one machine has measured of a step. watched: it stopped when its own verdict was clear."""

    estimate: Estimate
    watched: bool


def across(on_machines: Mapping[str, OnMachine], criterion: Criterion) -> tuple[Verdict, Across]:
    """Judges two machines or more, by name. Raises the errors of `combine`."""
    alone = [_alone(name, on_machine, criterion) for name, on_machine in on_machines.items()]
    combined = combine([_as_fixed(on_machine, criterion.confidence) for on_machine in on_machines.values()])
    e = combined.estimate
    verdict = judge(e, interval(e, criterion.confidence), p_value(e), criterion)
    between = None if combined.between is None else math.expm1(combined.between)
    by = Across(tuple(alone), between)
    return replace(verdict, reason=f"{verdict.reason}; {len(alone)} machines, {by.differ()}"), by


def _alone(name: str, on_machine: OnMachine, criterion: Criterion) -> MachineVerdict:
    e = on_machine.estimate
    verdict = judge(e, _interval(on_machine, criterion.confidence), 1.0, criterion)
    return MachineVerdict(name, verdict.word, verdict.ratio, verdict.low, verdict.high, e.n)


def _as_fixed(on_machine: OnMachine, confidence: float) -> Estimate:
    """Returns the estimate with a single standard error that gives the same interval; it includes the chance
    of each start and, where the measurement was watched, allows for stopping early."""
    e = on_machine.estimate
    if not math.isfinite(e.standard_error) or e.freedom <= 0:
        return e
    low, high = _interval(on_machine, confidence)
    half = student_quantile(e.freedom, 0.5 + confidence / 2)
    return replace(e, standard_error=(high - low) / 2 / half, start_error=0.0)


def _interval(on_machine: OnMachine, confidence: float) -> tuple[float, float]:
    of = sequential.interval if on_machine.watched else interval
    return of(on_machine.estimate, confidence)


def shown_machine(runs: Sequence[Run], base: str) -> str | None:
    """Returns the machine whose rates stand for a workload: among those with the most variants, the machine
    with the most runs of the base. None if it lacks a variant that was measured elsewhere: then the runs were
    not meant to stand for themselves on each machine."""
    variants: dict[str, set[str]] = {}
    for run in runs:
        variants.setdefault(run.machine, set()).add(run.variant)
    most = max(map(len, variants.values()), default=0)
    if most < len({run.variant for run in runs}):
        return None
    whole = [run for run in runs if len(variants[run.machine]) == most]
    return most_measured([run.machine for run in whole if run.variant == base] or [r.machine for r in whole])


def most_measured(machines: Sequence[str]) -> str:
    """Returns the machine with the most runs, the first by name if several have as many."""
    counts = Counter(machines)
    return min(counts, key=lambda name: (-counts[name], name))


__all__ = ["Across", "MachineVerdict", "OnMachine", "across", "most_measured", "shown_machine"]

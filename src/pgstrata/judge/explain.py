"""Why a rate changed, as far as what was measured can tell: one sentence per changed cell.

Arithmetic, no guessing. What the time of an operation is made of says `judge.operation_parts`. A part is
named when it moved the same way as the whole, beyond the error of its samples, and makes up at least a fifth
of the change. Counts per operation (disk, context switches) have no time of their own: one is named when it
moved the same way by at least half as much, on the scale of ratios. What goes on at the same pace per second
however many operations there are looks dearer per operation when those get fewer: where a role writes at a
fixed rate such a count is left out, elsewhere it is said. That two figures moved together is all that is
claimed; it does not prove that one caused the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from pgstrata.judge.costs import step_cost
from pgstrata.judge.operation_parts import OperationParts, operation_parts
from pgstrata.judge.plan_shape import changed_plans
from pgstrata.store.record import StepRecord
from pgstrata.units import rate_per_second

TIME_PART = 0.2
COUNT_PART = 0.5
STEADY_PART = 0.25  # of the change of the rate; a count per second that moved less stayed the same
_LEAST_COUNT = 0.01  # per operation; a rarer event is left out whatever its ratio

# figure of PerOperation, words, unit; of each line the first that moved is named
_COUNTS: tuple[tuple[tuple[str, str, str], ...], ...] = (
    (("switches", "context switches", ""),),
    (("reads", "disk reads", ""), ("read_kb", "volume read from disk", " KB")),
    (("writes", "disk writes", ""), ("written_kb", "volume written to disk", " KB")),
    (("rest", "CPU of the rest of the server", " µs"),),
    (("pooler", "CPU of the pooler", " µs"),),
    (("replica", "CPU of the replica", " µs"),),
)


@dataclass(frozen=True)
class Factor:
    """A figure that moved with the rate. `base` and `value` are per operation, in `unit`.

    kind: `time` for µs that are part of an operation's time, `count` for events and KB, `plan` for a
    statement whose plan has another shape (`base` and `value` are then None).
    """

    kind: Literal["time", "count", "plan"]
    name: str
    unit: str
    base: float | None = None
    value: float | None = None
    share: float | None = None  # of the change of an operation's time, for kind `time`; None: open
    steady: bool = False  # for kind `count`: as much per second as before


@dataclass(frozen=True)
class Explanation:
    """Of one step and variant against the base. Times are those of one operation of one client.

    `factors` may be empty: then nothing that was measured explains the change.
    """

    ratio: float
    base_micros: float
    micros: float
    factors: tuple[Factor, ...]
    moved: str
    """The factors in words; empty where there are none."""
    sentence: str
    parts: OperationParts
    """All parts of the time, of which the factors are those that say most."""


def explain(
    base: Sequence[StepRecord], other: Sequence[StepRecord], ratio: float | None = None
) -> Explanation | None:
    """Explains what moved with the rate between the repeats of a step under the base and under another
    variant.

    Figures are medians over the repeats. ratio: that of the verdict (`judge.compare`), else the one of both
    rates. Parts of the time come from the whole steps. Where those say something else than the verdict, what
    share of the change a part is stays open, and where they say the opposite, no part is named. None where
    the rates cannot be compared: one is missing or not positive, or an SLA was missed.
    """
    parts = operation_parts(base, other, ratio)
    if parts is None:
        return None
    of_base, of_other = _figures(base), _figures(other)
    before, after = parts.base * 1e6, parts.other * 1e6
    ratio = parts.base / parts.other if ratio is None else ratio
    paced = any(record.target_rate for record in (*base, *other))
    factors = (
        *_times(parts),
        *_counts(of_base, of_other, math.log(ratio), paced=paced),
        *(Factor("plan", name, "") for name in changed_plans(base[-1].plans, other[-1].plans)),
    )
    moved = _moved(factors)
    sentence = _sentence(ratio, before, after, moved, parts.noun)
    return Explanation(ratio, before, after, factors, moved, sentence, parts)


def _figures(records: Sequence[StepRecord]) -> dict[str, float]:
    """Returns counts per operation of the headline, medians over the repeats; figures that were not measured
    are missing."""
    collected: dict[str, list[float]] = {}
    for record in records:
        for name, value in _of_one(record).items():
            if value is not None:
                collected.setdefault(name, []).append(value)
    return {name: median(values) for name, values in collected.items()}


def _of_one(record: StepRecord) -> dict[str, float | None]:
    if not record.rate or record.seconds <= 0:
        return {}
    operations = rate_per_second(record.pace or 0.0, record.rate_unit) * record.seconds
    cost = step_cost(record)
    figures: dict[str, float | None] = {}
    all_roles = [entry.cpu_seconds for entry in record.roles.values()]
    if record.server_cpu_seconds is not None and None not in all_roles:
        rest = record.server_cpu_seconds - (record.headline.cpu_seconds or 0.0)
        figures["rest"] = max(0.0, rest) / operations * 1e6
    figures["pooler"] = (record.pooler_cpu_seconds or 0.0) / operations * 1e6
    figures["replica"] = ((record.replica and record.replica.cpu_seconds) or 0.0) / operations * 1e6
    for name in ("switches", "reads", "read_kb", "writes", "written_kb"):
        figures[name] = getattr(cost, name)
    return figures


def _times(parts: OperationParts) -> list[Factor]:
    """Returns the parts of an operation's time that make up at least a fifth of its change, the largest
    first; of the change by the whole steps where the verdict says something else."""
    change = parts.whole if parts.reason else parts.difference
    if change * parts.difference <= 0:
        return []
    factors = [
        Factor("time", part.title, "µs", part.base * 1e6, part.other * 1e6, parts.share(part))
        for part in parts.parts
        if part.is_moved and part.difference / change >= TIME_PART
    ]
    return sorted(
        factors, key=lambda factor: (-abs((factor.value or 0.0) - (factor.base or 0.0)), factor.name)
    )


def _counts(
    base: Mapping[str, float], other: Mapping[str, float], log_ratio: float, *, paced: bool
) -> list[Factor]:
    """Returns the counts per operation that rose as the rate fell (or fell as it rose), by at least half as
    much.

    paced: other roles of the step work at a fixed rate, so what is steady per second is their doing.
    """
    factors = []
    for line in _COUNTS:
        for name, words, unit in line:
            before, after = base.get(name), other.get(name)
            if before is None or after is None or max(before, after) < _LEAST_COUNT:
                continue
            # the ratio of what is hardly there would be noise: compare from the least that counts
            moved = math.log(max(after, _LEAST_COUNT) / max(before, _LEAST_COUNT))
            steady = abs(moved + log_ratio) <= STEADY_PART * abs(log_ratio)
            if moved * log_ratio >= 0 or abs(moved) < COUNT_PART * abs(log_ratio) or (steady and paced):
                continue
            factors.append(Factor("count", words, unit, before, after, steady=steady))
            break
    return factors


def _moved(factors: Sequence[Factor]) -> str:
    """Returns the names of the factors, plans last; empty if there are none."""
    moved = [_words(factor) for factor in factors if factor.kind != "plan"]
    if plans := [factor.name for factor in factors if factor.kind == "plan"]:
        is_single = len(plans) == 1
        named = _listed(plans)
        moved.append(
            f"the plan of {named}, which has another shape"
            if is_single
            else f"the plans of {named} (other shapes)"
        )
    return _listed(moved) if moved else ""


def _sentence(ratio: float, before: float, after: float, moved: str, unit: str) -> str:
    if after == before:
        return f"The rate is the same: {_number(before)} µs per {unit}."
    way = "slower" if after > before else "faster"
    more = "more" if after > before else "less"
    # beyond a doubling nobody reads percents
    much = f"{abs(1 - ratio) * 100:.3g} % {way}" if ratio < 2 else f"{_number(ratio)} times as fast"
    head = (
        f"{much}: {_number(abs(after - before))} µs {more} per {unit} "
        f"({_number(before)} → {_number(after)} µs)"
    )
    return f"{head}; with it moved {moved}." if moved else f"{head}; nothing we measure explains it."


def _words(factor: Factor) -> str:
    assert factor.base is not None and factor.value is not None
    if factor.kind == "time":
        moved = factor.value - factor.base
        sign = "+" if moved > 0 else "−"
        share = "" if factor.share is None else f", {100 * factor.share:.0f} % of the change"
        return f"{factor.name} ({sign}{_number(abs(moved))} µs{share})"
    steady = ", as much per second as before" if factor.steady else ""
    return f"{factor.name} ({_number(factor.base)} → {_number(factor.value)}{factor.unit}{steady})"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _number(value: float) -> str:
    """Returns a number with three significant digits, without an exponent."""
    if value == 0:
        return "0"
    # taken after rounding: 9.996 is 10.0
    exponent = int(f"{value:.2e}".partition("e")[2])
    return f"{value:,.{min(max(0, 2 - exponent), 6)}f}"

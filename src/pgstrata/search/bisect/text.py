"""A search in sentences, and as JSON."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from pgstrata.search.bisect.hunt import SearchResult
from pgstrata.search.bisect.procedure import By, Group, TaskOutcome, change_of
from pgstrata.search.bisect.search import Outcome
from pgstrata.search.bisect.state import Measurement, State
from pgstrata.search.bisect.ways import other_way
from pgstrata.stats.distributions import NORMAL_95

Json = dict[str, Any]


def interval(outcome: Outcome, by: By) -> tuple[float, float, float]:
    """Relative change of the rate (0.01: 1 % faster) or of the instructions per operation (0.01: 1 % more),
    and the ends of its 95 % interval."""
    half = NORMAL_95 * outcome.error
    change, *ends = (change_of(outcome.log_ratio + side, by) for side in (0.0, -half, half))
    return change, min(ends), max(ends)


def changed(outcome: Outcome, by: By) -> str:
    """`3.1 % slower (2.6 … 3.6 %)`, `0.82 % more instructions (0.76 … 0.88 %)`."""
    change, low, high = interval(outcome, by)
    sign = -1 if change < 0 else 1
    ends = sorted((sign * low, sign * high))
    if by == "instructions":
        words, digits = ("fewer instructions" if change < 0 else "more instructions"), 2
    else:
        words, digits = ("slower" if change < 0 else "faster"), 1
    return (
        f"{abs(change) * 100:.{digits}f} % {words} "
        f"({ends[0] * 100:.{digits}f} … {ends[1] * 100:.{digits}f} %)"
    )


def is_worse(outcome: Outcome) -> bool:
    """Slower, or more instructions."""
    return outcome.log_ratio < 0


def outcome_of(found: SearchResult, measurement: Measurement) -> Outcome:
    """With the part of its error that stays with a start of the servers."""
    m = measurement
    return TaskOutcome(m.base, m.other, m.log_ratio, m.error, found.state.by_of(m)).outcome


def headline(found: SearchResult) -> str:
    """The answer in a sentence."""
    line, known = found.search.line, found.conclusion
    step = found.search.work.step
    ends = f"{line.stops[-1].name} against {line.stops[0].name} at {step}"
    if known.effect is None:
        return f"Nothing is known yet of {ends}."
    if found.is_same:
        return f"{ends} executes the same code: nothing was measured."
    effect = _effect(known.effect, found)
    if known.state in ("ends", "none"):
        seen = f"one of {math.expm1(known.visible):.1%} would have been found in 9 of 10 cases".replace(
            "%", " %"
        )
        word = "No difference is proven" if known.state == "none" else "No difference is proven so far"
        return f"{word}: {ends} {effect}; {seen}."
    if known.state == "open":
        return f"{ends} {effect}; {_suspected(found)}."
    if len(known.groups) > 1:
        return f"{ends} {effect}, by {len(known.groups)} changes."
    return f"{ends} {effect}, since {named(found, known.groups[0])}."


def _effect(effect: Outcome, found: SearchResult) -> str:
    """How the bad end differs, and that the other measure contradicts it."""
    text = f"{_verb(found.by)} {changed(effect, found.by)}"
    return text if found.against is None else f"{text}, {though(found.against, other_way(found.by))}"


def though(other: Outcome, by: By) -> str:
    """The clause that names what the other measure says, where it contradicts: `though it has …`."""
    return f"though it {_verb(by)} {changed(other, by)}"


def _verb(by: By) -> str:
    return "has" if by == "instructions" else "is"


def _suspected(found: SearchResult) -> str:
    """How many changes there are during a search, and where each of them may be."""
    line, known = found.search.line, found.conclusion
    places = [named(found, group) for group in known.groups]
    if len(places) == 1:
        (group,) = known.groups
        if group.first == group.last:
            return f"one change is suspected, in {places[0]}"
        return f"not down to one {line.kind} yet: {places[0]}, made the change with 95 % probability"
    each = "; ".join(f"{number}. {place}" for number, place in enumerate(places, 1))
    return f"{len(places)} changes are suspected, each with 95 % probability in: {each}"


def named(found: SearchResult, group: Group) -> str:
    """A group: its one stop, or its ends."""
    stops = found.search.line.stops
    last = stops[group.last]
    if group.first == group.last:
        return f"{last.name} ({last.subject})" if last.subject else last.name
    between = ", of which only the last can be measured" if found.conclusion.state == "found" else ""
    return f"one of {group.size} {found.search.line.kind}s, {stops[group.first].name} … {last.name}{between}"


def sentences(found: SearchResult) -> list[str]:
    """The answer, what it rests on, what is missing, and the next step."""
    line, known = found.search.line, found.conclusion
    lines = [headline(found), *_other_way(found), *_cpu(found), *_unable(found)]
    for group in known.groups if known.state == "found" else []:
        stop = line.stops[group.last]
        text = f"{named(found, group)}: probability {shown_probability(group.probability)}"
        if group.first == group.last and stop.author:
            text += f", {stop.author}, {stop.date[:10]}"
        if group.against_parent is not None:
            text += f"; against what is before it {changed(group.against_parent, found.by)}"
        pair = (group.first - 1, group.last)
        plans = [plan for m in found.state.measured if (m.base, m.other) == pair for plan in m.plans]
        text += "".join(f"; {plan}" for plan in dict.fromkeys(plans))
        lines.append(text)
    if aside := len(found.state.set_aside):
        many = f"{aside} {line.kind}s could not be measured and are" if aside > 1 else ""
        lines.append(f"{many or f'1 {line.kind} could not be measured and is'} no evidence.")
    if same := len(found.state.same):
        many = f"{same} commits execute" if same > 1 else "1 commit executes"
        lines.append(f"{many} the same code as a server that was built before: not measured.")
    lines += _beside(found.state)
    if found.goes_on:
        lines.append("The search is not at its end: this page is written again after each measurement.")
    elif found.stopped:
        lines.append(f"Stopped {found.stopped}; the same command goes on.")
    elif known.state == "open":
        lines.append("More measurements would not tell them apart; longer ones (--seconds) may.")
    return lines


def _other_way(found: SearchResult) -> list[str]:
    """What the other measure says of the ends, where the first sentence does not."""
    if found.state.one_way:
        return [f"The ends are measured one way only: {found.state.one_way}."]
    by = other_way(found.by)
    effect = found.search.ways(found.state).procedures[by].effect
    if effect is None or found.against is not None or found.is_same:
        return []
    what = "Counted" if by == "instructions" else "Timed"
    return [f"{what}, the bad end {_verb(by)} {changed(effect, by)}."]


def _cpu(found: SearchResult) -> list[str]:
    """The CPU per operation of the ends, which load hardly touches: a third measure beside both."""
    ends = (0, found.search.line.n)
    known = [m.cpu for m in found.state.measured if (m.base, m.other) == ends and m.cpu is not None]
    if not known:
        return []
    more = sorted(100 * math.expm1(-cpu) for cpu in known)
    spread = f" ({more[0]:+.1f} … {more[-1]:+.1f} %)" if len(more) > 1 else ""
    return [f"CPU per operation, which load hardly touches: {median(more):+.1f} %{spread}."]


def _unable(found: SearchResult) -> list[str]:
    """That this machine cannot tell by the rate, and what can."""
    known = found.conclusion
    if found.by != "rate" or known.effect is None or known.state not in ("ends", "none", "open"):
        return []
    half = NORMAL_95 * known.effect.error
    if half < found.search.least("rate") and known.state != "open":
        return []
    if known.state == "ends" or (known.state == "open" and found.stopped):
        return []
    return [
        f"This machine cannot tell by the rate: comparisons of the same servers leave ± {half * 100:.1f} %. "
        "--by instructions counts, which is exact beside any load; --seconds measures longer."
    ]


def _beside(state: State) -> list[str]:
    """What else ran while it was measured. Counted instructions do not depend on it."""
    lines: list[str] = []
    timed = state.measured_by("rate")
    if again := len(state.disturbed):
        many = f"{again} measurements are" if again > 1 else "1 measurement is"
        made = "they were" if again > 1 else "it was"
        lines.append(f"{many} no evidence: others used the CPUs meanwhile, and {made} made again.")
    if disturbed := [m for m in timed if m.disturbed]:
        most = max(m.others for m in disturbed)
        lines.append(
            f"Beside {len(disturbed)} of {len(timed)} measurements others used up to "
            f"{100 * most:.0f} % of the CPUs: under load differences come out smaller, and some are not seen."
        )
    return lines


def shown_probability(value: float) -> str:
    """`97 %`; never 100 %, which no measurement gives."""
    return "> 99.9 %" if value > 0.999 else f"{value:.1%}".replace("%", " %")


def record(found: SearchResult) -> Json:
    """All of it as JSON can hold it. Ratios are other ÷ good end, of rates or instructions per operation."""
    known, line, other = found.conclusion, found.search.line, other_way(found.by)

    def stop(position: int) -> Json:
        one = line.stops[position]
        facts = {"subject": one.subject, "author": one.author, "date": one.date}
        return {"position": position, "id": one.id, **{key: value for key, value in facts.items() if value}}

    def ratio(outcome: Outcome | None, by: By = found.by) -> Json | None:
        if outcome is None:
            return None
        change, low, high = interval(outcome, by)
        return {
            "ratio": 1 + change,
            "low": 1 + low,
            "high": 1 + high,
            "log_ratio": outcome.log_ratio,
            "error": outcome.error,
        }

    return {
        "state": known.state,
        "answer": headline(found),
        "kind": line.kind,
        "step": found.search.work.step,
        "by": found.by,
        "good": stop(0),
        "bad": stop(line.n),
        "effect": ratio(known.effect),
        "other_way": ratio(found.search.ways(found.state).procedures[other].effect, other),
        "disagrees": found.against is not None,
        "visible": math.expm1(known.visible) if math.isfinite(known.visible) else None,
        "several": known.several,
        "groups": [
            {
                "first": stop(group.first),
                "last": stop(group.last),
                "probability": group.probability,
                "against_parent": ratio(group.against_parent),
            }
            for group in known.groups
        ],
        "measured": [
            {
                "base": stop(m.base),
                "other": stop(m.other),
                "why": m.why,
                "by": found.state.by_of(m),
                **(ratio(outcome_of(found, m), found.state.by_of(m)) or {}),
                "seconds": m.seconds,
                "others": m.others,
                "cpu": math.exp(-m.cpu) if m.cpu is not None else None,
                "plans": m.plans,
                "build_seconds": m.build_seconds,
                "at": m.at,
            }
            for m in found.state.measured
        ],
        "set_aside": [{**stop(one.position), "why": one.why} for one in found.state.set_aside],
        "same_code": [{**stop(one.position), "as": stop(one.other)} for one in found.state.same],
        "stopped": found.stopped or None,
        "folder": str(found.search.folder),
    }


__all__ = [
    "changed",
    "headline",
    "interval",
    "is_worse",
    "named",
    "outcome_of",
    "record",
    "sentences",
    "shown_probability",
    "though",
]

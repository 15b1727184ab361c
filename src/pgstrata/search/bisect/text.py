"""A search in sentences, and as JSON."""

from __future__ import annotations

import math
from typing import Any

from pgstrata.search.bisect.hunt import SearchResult
from pgstrata.search.bisect.procedure import By, Group, TaskOutcome, change_of
from pgstrata.search.bisect.search import Outcome
from pgstrata.search.bisect.state import Measurement, State

Json = dict[str, Any]

NORMAL_95 = 1.959964
"""Standard errors of a 95 % interval."""


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
    return TaskOutcome(m.base, m.other, m.log_ratio, m.error, found.search.by).outcome


def headline(found: SearchResult) -> str:
    """The answer in a sentence."""
    line, known = found.search.line, found.conclusion
    step = found.search.work.step
    ends = f"{line.stops[-1].name} against {line.stops[0].name} at {step}"
    verb = "has" if found.search.by == "instructions" else "is"
    if known.effect is None:
        return f"Nothing is known yet of {ends}."
    if known.state in ("ends", "none"):
        seen = f"one of {math.expm1(known.visible):.1%} would have been found in 9 of 10 cases".replace(
            "%", " %"
        )
        word = "No difference is proven" if known.state == "none" else "No difference is proven so far"
        return f"{word}: {ends} {verb} {changed(known.effect, found.search.by)}; {seen}."
    if known.state == "open":
        return f"{ends} {verb} {changed(known.effect, found.search.by)}; {_suspected(found)}."
    if len(known.groups) > 1:
        return f"{ends} {verb} {changed(known.effect, found.search.by)}, by {len(known.groups)} changes."
    return f"{ends} {verb} {changed(known.effect, found.search.by)}, since {named(found, known.groups[0])}."


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
    lines = [headline(found)]
    for group in known.groups if known.state == "found" else []:
        stop = line.stops[group.last]
        text = f"{named(found, group)}: probability {shown_probability(group.probability)}"
        if group.first == group.last and stop.author:
            text += f", {stop.author}, {stop.date[:10]}"
        if group.against_parent is not None:
            text += f"; against what is before it {changed(group.against_parent, found.search.by)}"
        lines.append(text)
    if aside := len(found.state.set_aside):
        many = f"{aside} {line.kind}s could not be measured and are" if aside > 1 else ""
        lines.append(f"{many or f'1 {line.kind} could not be measured and is'} no evidence.")
    lines += _beside(found.state)
    if found.stopped:
        lines.append(f"Stopped {found.stopped}; the same command goes on.")
    elif known.state == "open":
        lines.append("More measurements would not tell them apart; longer ones (--seconds) may.")
    return lines


def _beside(state: State) -> list[str]:
    """What else ran while it was measured. Counted instructions do not depend on it."""
    lines: list[str] = []
    if state.question.get("by") == "instructions":
        return lines
    if again := len(state.disturbed):
        many = f"{again} measurements are" if again > 1 else "1 measurement is"
        made = "they were" if again > 1 else "it was"
        lines.append(f"{many} no evidence: others used the CPUs meanwhile, and {made} made again.")
    if disturbed := [m for m in state.measured if m.disturbed]:
        most = max(m.others for m in disturbed)
        lines.append(
            f"Beside {len(disturbed)} of {len(state.measured)} measurements others used up to "
            f"{100 * most:.0f} % of the CPUs: under load differences come out smaller, and some are not seen."
        )
    return lines


def shown_probability(value: float) -> str:
    """`97 %`; never 100 %, which no measurement gives."""
    return "> 99.9 %" if value > 0.999 else f"{value:.1%}".replace("%", " %")


def record(found: SearchResult) -> Json:
    """All of it as JSON can hold it. Ratios are other ÷ good end, of rates or instructions per operation."""
    known, line = found.conclusion, found.search.line

    def stop(position: int) -> Json:
        one = line.stops[position]
        facts = {"subject": one.subject, "author": one.author, "date": one.date}
        return {"position": position, "id": one.id, **{key: value for key, value in facts.items() if value}}

    def ratio(outcome: Outcome | None) -> Json | None:
        if outcome is None:
            return None
        change, low, high = interval(outcome, found.search.by)
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
        "by": found.search.by,
        "good": stop(0),
        "bad": stop(line.n),
        "effect": ratio(known.effect),
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
                **(ratio(outcome_of(found, m)) or {}),
                "seconds": m.seconds,
                "others": m.others,
                "build_seconds": m.build_seconds,
                "at": m.at,
            }
            for m in found.state.measured
        ],
        "set_aside": [{**stop(one.position), "why": one.why} for one in found.state.set_aside],
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
]

"""A search in sentences, and as JSON."""

from __future__ import annotations

import math
from statistics import median
from typing import Any, NotRequired, TypedDict, cast

from pgstrata.search.bisect.accounted import accounted_for
from pgstrata.search.bisect.hunt import SearchResult
from pgstrata.search.bisect.line import Range
from pgstrata.search.bisect.procedure import By, Group, TaskOutcome, change_of
from pgstrata.search.bisect.search import Outcome
from pgstrata.search.bisect.state import Measurement, State
from pgstrata.search.bisect.ways import other_way
from pgstrata.stats.distributions import NORMAL_95

Json = dict[str, Any]


def interval(outcome: Outcome, by: By) -> tuple[float, float, float]:
    """Returns the relative change of the rate (0.01: 1 % faster) or of the instructions per operation (0.01:
    1 % more), and the ends of its 95 % interval."""
    half = NORMAL_95 * outcome.error
    change, *ends = (change_of(outcome.log_ratio + side, by) for side in (0.0, -half, half))
    return change, min(ends), max(ends)


def span(outcome: Outcome, by: By) -> SpanRecord:
    """Returns an outcome as a ratio, other ÷ good end, with its 95 % interval."""
    change, low, high = interval(outcome, by)
    return {"ratio": 1 + change, "low": 1 + low, "high": 1 + high}


def changed(outcome: Outcome, by: By) -> str:
    """Returns a change in words: `3.1 % slower (2.6 … 3.6 %)`, `0.82 % more instructions (0.76 … 0.88 %)`."""
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
    """Returns whether an outcome is slower, or has more instructions."""
    return outcome.log_ratio < 0


def outcome_of(search_result: SearchResult, measurement: Measurement) -> Outcome:
    """Returns the outcome of a measurement, with the part of its error that stays with a start of the
    servers."""
    m = measurement
    return TaskOutcome(m.base, m.other, m.log_ratio, m.error, search_result.state.by_of(m)).outcome


def headline(search_result: SearchResult) -> str:
    """Returns the answer in a sentence."""
    line, known = search_result.search.line, search_result.conclusion
    step = search_result.search.work.step
    ends = f"{line.stops[-1].name} against {line.stops[0].name} at {step}"
    if known.effect is None:
        return f"Nothing is known yet of {ends}."
    if search_result.is_same:
        return f"{ends} executes the same code: nothing was measured."
    effect = _effect(known.effect, search_result)
    if known.state in ("ends", "none"):
        seen = f"one of {math.expm1(known.visible):.1%} would have been found in 9 of 10 cases".replace(
            "%", " %"
        )
        word = "No difference is proven" if known.state == "none" else "No difference is proven so far"
        return f"{word}: {ends} {effect}; {seen}."
    if known.state == "open":
        return f"{ends} {effect}; {_suspected(search_result)}."
    if len(known.groups) > 1:
        return f"{ends} {effect}, by {len(known.groups)} changes."
    return f"{ends} {effect}, since {named(search_result, known.groups[0])}."


def _effect(effect: Outcome, search_result: SearchResult) -> str:
    """Returns how the bad end differs, and whether the other measure contradicts it."""
    text = f"{_verb(search_result.by)} {changed(effect, search_result.by)}"
    return (
        text
        if search_result.against is None
        else f"{text}, {though(search_result.against, other_way(search_result.by))}"
    )


def though(other: Outcome, by: By) -> str:
    """Returns the clause that names what the other measure says, where it contradicts: `though it has …`."""
    return f"though it {_verb(by)} {changed(other, by)}"


def _verb(by: By) -> str:
    return "has" if by == "instructions" else "is"


def _suspected(search_result: SearchResult) -> str:
    """Returns how many changes there are during a search, and where each of them may be."""
    line, known = search_result.search.line, search_result.conclusion
    places = [named(search_result, group) for group in known.groups]
    if len(places) == 1:
        (group,) = known.groups
        if group.first == group.last:
            return f"one change is suspected, in {places[0]}"
        return f"not down to one {line.kind} yet: {places[0]}, made the change with 95 % probability"
    each = "; ".join(f"{number}. {place}" for number, place in enumerate(places, 1))
    return f"{len(places)} changes are suspected, each with 95 % probability in: {each}"


def named(answer: SearchResult, group: Group) -> str:
    """Returns the name of a group: its one stop, or its ends."""
    stops = answer.search.line.stops
    last = stops[group.last]
    if group.first == group.last:
        return f"{last.name} ({last.subject})" if last.subject else last.name
    between = ", of which only the last can be measured" if answer.conclusion.state == "found" else ""
    return f"one of {group.size} {answer.search.line.kind}s, {stops[group.first].name} … {last.name}{between}"


def sentences(search_result: SearchResult) -> list[str]:
    """Returns the answer, its evidence, missing parts, and the next step."""
    line, known = search_result.search.line, search_result.conclusion
    lines = [
        headline(search_result),
        *_other_way(search_result),
        *_cpu(search_result),
        *_unable(search_result),
    ]
    for group in known.groups if known.state == "found" else []:
        stop = line.stops[group.last]
        text = f"{named(search_result, group)}: probability {shown_probability(group.probability)}"
        if group.first == group.last and stop.author:
            text += f", {stop.author}, {stop.date[:10]}"
        if group.against_parent is not None:
            text += f"; against what is before it {changed(group.against_parent, search_result.by)}"
        text += "".join(f"; {reason}" for reason in accounted_for(search_result, group))
        lines.append(text)
    if aside := len(search_result.state.set_aside):
        many = f"{aside} {line.kind}s could not be measured and are" if aside > 1 else ""
        lines.append(f"{many or f'1 {line.kind} could not be measured and is'} no evidence.")
    if same := len(search_result.state.same):
        many = f"{same} commits execute" if same > 1 else "1 commit executes"
        lines.append(f"{many} the same code as a server that was built before: not measured.")
    lines += _beside(search_result.state)
    if search_result.goes_on:
        lines.append("The search is not at its end: this page is written again after each measurement.")
    elif search_result.stopped:
        lines.append(f"Stopped {search_result.stopped}; the same command goes on.")
    elif known.state == "open":
        lines.append("More measurements would not tell them apart; longer ones (--seconds) may.")
    return lines


def _other_way(search_result: SearchResult) -> list[str]:
    """Returns a sentence on how the other measure judges the ends, if the first sentence does not already say
    that."""
    if search_result.state.one_way:
        return [f"The ends are measured one way only: {search_result.state.one_way}."]
    by = other_way(search_result.by)
    effect = search_result.search.ways(search_result.state).procedures[by].effect
    if effect is None or search_result.against is not None or search_result.is_same:
        return []
    what = "Counted" if by == "instructions" else "Timed"
    return [f"{what}, the bad end {_verb(by)} {changed(effect, by)}."]


def _cpu(search_result: SearchResult) -> list[str]:
    """Returns a line with the CPU per operation of the ends, which load hardly touches: a third measure
    beside both."""
    ends = (0, search_result.search.line.n)
    known = [m.cpu for m in search_result.state.measured if (m.base, m.other) == ends and m.cpu is not None]
    if not known:
        return []
    more = sorted(100 * math.expm1(-cpu) for cpu in known)
    spread = f" ({more[0]:+z.1f} … {more[-1]:+z.1f} %)" if len(more) > 1 else ""
    return [f"CPU per operation, which load hardly touches: {median(more):+z.1f} %{spread}."]


def _unable(search_result: SearchResult) -> list[str]:
    """Returns a line saying that this machine cannot tell by the rate, and which options can; empty where it
    can."""
    known = search_result.conclusion
    if search_result.by != "rate" or known.effect is None or known.state not in ("ends", "none", "open"):
        return []
    half = NORMAL_95 * known.effect.error
    if half < search_result.search.least("rate") and known.state != "open":
        return []
    if known.state == "ends" or (known.state == "open" and search_result.stopped):
        return []
    return [
        f"This machine cannot tell by the rate: comparisons of the same servers leave ± {half * 100:.1f} %. "
        "--by instructions counts, which is exact beside any load; --seconds measures longer."
    ]


def _beside(state: State) -> list[str]:
    """Returns lines on the other load during the measurements. Counted instructions do not depend on it."""
    lines: list[str] = []
    timed = state.measured_by("rate")
    if again := len(state.disturbed):
        many = f"{again} measurements are" if again > 1 else "1 measurement is"
        subject = "they were" if again > 1 else "it was"
        lines.append(f"{many} no evidence: others used the CPUs meanwhile, and {subject} made again.")
    if disturbed := [m for m in timed if m.disturbed]:
        most = max(m.others for m in disturbed)
        lines.append(
            f"Beside {len(disturbed)} of {len(timed)} measurements others used up to "
            f"{100 * most:.0f} % of the CPUs: under load differences come out smaller, and some are not seen."
        )
    return lines


def shown_probability(value: float) -> str:
    """Returns a probability as percent, `97 %`; never 100 %, which no measurement gives."""
    return "> 99.9 %" if value > 0.999 else f"{value:.1%}".replace("%", " %")


class StopRecord(TypedDict):
    """A commit, release or config of the line as JSON."""

    position: int
    id: str
    subject: NotRequired[str]
    author: NotRequired[str]
    date: NotRequired[str]


class SpanRecord(TypedDict):
    """A ratio with its 95 % interval as JSON."""

    ratio: float
    low: float
    high: float


class RatioRecord(SpanRecord):
    """A ratio with its 95 % interval, and its log with the standard error, as JSON."""

    log_ratio: float
    error: float


class GroupRecord(TypedDict):
    """A credible set of a change as JSON."""

    first: StopRecord
    last: StopRecord
    probability: float
    against_parent: RatioRecord | None


class MeasuredRecord(RatioRecord):
    """A comparison of the search as JSON."""

    base: StopRecord
    other: StopRecord
    why: str
    by: str
    seconds: float
    others: float
    cpu: float | None
    plans: list[str]
    build_seconds: float
    at: str


class SetAsideRecord(StopRecord):
    """What could not be judged, and why, as JSON."""

    why: str


_As = TypedDict("_As", {"as": StopRecord})


class SameCodeRecord(StopRecord, _As):
    """What has the code of another, as JSON."""


class SearchRecord(TypedDict):
    """What a search knows, as JSON."""

    state: str
    answer: str
    kind: str
    step: str
    by: str
    good: StopRecord
    bad: StopRecord
    effect: RatioRecord | None
    other_way: RatioRecord | None
    disagrees: bool
    visible: float | None
    several: float
    groups: list[GroupRecord]
    measured: list[MeasuredRecord]
    set_aside: list[SetAsideRecord]
    same_code: list[SameCodeRecord]
    stopped: str | None
    folder: str


SearchRecords = list[SearchRecord]
"""Of several steps."""


def stop_record(line: Range, position: int) -> StopRecord:
    """Returns a stop of a line as JSON can hold it."""
    place = line.stops[position]
    facts = {"subject": place.subject, "author": place.author, "date": place.date}
    record: Json = {"position": position, "id": place.id}
    return cast(StopRecord, record | {key: value for key, value in facts.items() if value})


def search_json(search_result: SearchResult) -> SearchRecord:
    """Returns all of a result as JSON can hold it. Ratios are other ÷ good end, of rates or instructions per
    operation."""
    known, line, other = search_result.conclusion, search_result.search.line, other_way(search_result.by)

    def stop(position: int) -> StopRecord:
        return stop_record(line, position)

    def ratio(outcome: Outcome | None, by: By = search_result.by) -> RatioRecord | None:
        return None if outcome is None else ratio_of(outcome, by)

    def ratio_of(outcome: Outcome, by: By) -> RatioRecord:
        return {**span(outcome, by), "log_ratio": outcome.log_ratio, "error": outcome.error}

    return {
        "state": known.state,
        "answer": headline(search_result),
        "kind": line.kind,
        "step": search_result.search.work.step,
        "by": search_result.by,
        "good": stop(0),
        "bad": stop(line.n),
        "effect": ratio(known.effect),
        "other_way": ratio(search_result.search.ways(search_result.state).procedures[other].effect, other),
        "disagrees": search_result.against is not None,
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
                "by": search_result.state.by_of(m),
                **ratio_of(outcome_of(search_result, m), search_result.state.by_of(m)),
                "seconds": m.seconds,
                "others": m.others,
                "cpu": math.exp(-m.cpu) if m.cpu is not None else None,
                "plans": m.plans,
                "build_seconds": m.build_seconds,
                "at": m.at,
            }
            for m in search_result.state.measured
        ],
        "set_aside": [
            {**stop(set_aside.position), "why": set_aside.why} for set_aside in search_result.state.set_aside
        ],
        "same_code": [
            {**stop(same_code.position), "as": stop(same_code.other)}
            for same_code in search_result.state.same
        ],
        "stopped": search_result.stopped or None,
        "folder": str(search_result.search.folder),
    }


__all__ = [
    "SpanRecord",
    "changed",
    "headline",
    "interval",
    "is_worse",
    "named",
    "outcome_of",
    "search_json",
    "sentences",
    "shown_probability",
    "span",
    "stop_record",
    "though",
]

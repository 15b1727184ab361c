"""What a watch says: its alarms in sentences, the draft of a mail, and all of it as JSON."""

from __future__ import annotations

import math
import shlex
from statistics import median
from typing import TypedDict

from pgstrata.measure.two_servers import MeasuredWork
from pgstrata.numbers import counted, duration
from pgstrata.search.bisect.procedure import By
from pgstrata.search.bisect.search import Outcome
from pgstrata.search.bisect.text import SpanRecord, changed, span
from pgstrata.watch.file import SMALLEST
from pgstrata.watch.history import Alarm, Moved
from pgstrata.watch.known import Known, commits_left
from pgstrata.watch.measure import Series


class AlarmRecord(TypedDict):
    """A change as JSON."""

    title: str
    state: str
    good: str
    bad: str
    commits: list[str]
    subject: str
    answer: str
    why: list[str]
    note: str | None
    series: dict[str, SpanRecord]


class ListedAlarm(AlarmRecord):
    """A change and its page."""

    page: str


class PointRecord(SpanRecord):
    """A value of a series as JSON."""

    commit: str
    position: int


class CostRecord(TypedDict):
    """What a commit took, as JSON. same_as: the commit with the same code that was measured for it."""

    commit: str
    at: str
    seconds: float
    cpu_seconds: float
    build_seconds: float
    build_cpu_seconds: float
    same_as: str | None


class WatchRecord(TypedDict):
    """A watch as JSON."""

    watch: str
    anchor: str
    newest: str
    commits: int
    left: int
    stopped: str | None
    alarms: list[ListedAlarm]
    series: dict[str, list[PointRecord]]
    skipped: dict[str, str]
    costs: list[CostRecord]


def title(known: Known, alarm: Alarm) -> str:
    """Returns the alarm in a line: the step that moved, by how much, since when."""
    place = alarm.commits[-1] if alarm.commits else alarm.bad
    since = f"since {place[:10]}" if alarm.state == "found" else f"between {alarm.good[:10]} and {place[:10]}"
    series = known.series[alarm.leading]
    return f"{alarm.leading}: {size(alarm.moved[alarm.leading], series.by)} {since}"


def size(moved: Moved, by: By) -> str:
    """Returns the size of a change in words: `3.02 % more instructions (2.96 … 3.08 %)`."""
    return changed(Outcome(moved.log_ratio, moved.error), by)


def others(known: Known, alarm: Alarm) -> list[str]:
    """Returns the other series that moved with an alarm, a line for each."""
    return [
        f"{name}: {size(moved, known.series[name].by)}"
        for name, moved in alarm.moved.items()
        if name != alarm.leading and name in known.series
    ]


def lines(known: Known) -> list[str]:
    """Returns the lines printed at the end of a pass: changes that are not acknowledged, then a summary of
    what is measured."""
    printed = []
    for alarm in known.shown_alarms:
        if alarm.leading not in known.series or known.note_of(alarm):
            continue
        printed.append(f"{'ALARM' if alarm.is_worse else 'better:'} {title(known, alarm)}")
        if alarm.subject:
            printed.append(f"  {alarm.subject}")
        if len(alarm.commits) > 1:
            printed.append(f"  one of {len(alarm.commits)} commits, of which only the last can be measured")
        if alarm.state == "open":
            printed.append(
                f"  not down to one commit yet: {alarm.answer or 'the search goes on with the next pass'}"
            )
        printed += [f"  {text}" for text in (*alarm.why, *others(known, alarm))]
        printed.append(f"  {known.watch.folder / 'alarms' / alarm.name / 'index.html'}")
    printed.append(summary(known))
    printed += [text] if (text := costs(known)) else []
    if known.stopped:
        printed.append(f"{known.stopped}: the same command goes on")
    return printed


def summary(known: Known) -> str:
    """Returns a sentence on how many commits are measured, and how many alarms are open."""
    noted = sum(1 for alarm in known.shown_alarms if known.note_of(alarm))
    skipped = len(known.positions(skipped=True))
    left = commits_left(known)
    text = f"{known.watch.name}: {counted(known.line.newest, 'commit')} since {known.line.stops[0].name}"
    idle = len(known.line.idle - known.positions(skipped=False))
    text += f", {known.line.newest - skipped - left - idle} measured"
    text += f", {idle} without code of a server" if idle else ""
    text += f", {skipped} skipped" if skipped else ""
    text += f", {left} not measured" if left else ""
    text += f"; {counted(len(known.open_alarms), 'open alarm')}"
    return text + (f", {noted} acknowledged" if noted else "")


def costs(known: Known) -> str:
    """Returns a sentence on what a commit took, in the median; empty where it is not known."""
    spent = [v for v in known.whole() if v.cpu_seconds]
    if not spent:
        return ""
    seconds, cpu = median(v.seconds for v in spent), median(v.cpu_seconds for v in spent)
    text = f"A commit took {duration(round(seconds))} and {duration(round(cpu))} of CPU in the median"
    if not any(v.build_cpu_seconds >= 1 for v in spent):
        return f"{text}."
    measuring = median(v.cpu_seconds - v.build_cpu_seconds for v in spent)
    return f"{text}; without its build, {duration(round(measuring))} of CPU."


def mail(known: Known, alarm: Alarm) -> str:
    """Returns the draft of a mail to the authors of the change."""
    series = known.series[alarm.leading]
    place = alarm.commits[-1] if alarm.commits else alarm.bad
    text = [
        f"Subject: {title(known, alarm)}",
        "",
        f"Commit {place[:10]}, {alarm.subject!r}:" if alarm.subject else f"Commit {place[:10]}:",
        "",
        alarm.answer,
        *(f"{reason[:1].upper()}{reason[1:]}." for reason in alarm.why),
        "",
        f"    {title(known, alarm)}",
        *(f"    {line}" for line in others(known, alarm)),
        "",
        "Intervals are 95 %. "
        + (
            "Instructions of the backend per operation are counted, not timed: more is not slower."
            if series.by == "instructions"
            else "Rates were measured in turns with the commit before."
        ),
        "",
        "To reproduce it:",
        "",
        f"    {_again(known, alarm)}",
    ]
    return "\n".join(text) + "\n"


def _again(known: Known, alarm: Alarm) -> str:
    """Returns the command that measures a change again as the watch did: the same commits, work, config and
    build."""
    series, file = known.series[alarm.leading], known.watch.file
    work, usual = series.work, MeasuredWork(())
    if alarm.commits:
        good, bad = f"{alarm.commits[0][:10]}~", alarm.commits[-1][:10]
    else:
        good, bad = alarm.good[:10], alarm.bad[:10]
    command = ["pgstrata", "bisect", "--repo", "DIR", "--good", good, "--bad", bad]
    command += ["--workload", work.workload, "--step", series.step]
    command += ["--scale", work.scale] if work.scale else []
    command += [word for text in work.sets for word in ("--set", text)]
    command += ["--config", "+".join(file.config)] if file.config != ["default"] else []
    command += [word for name in file.keep_settings for word in ("--keep-setting", name)]
    command += ["--build", file.build] if file.build else []
    command += ["--seed", str(work.seed)] if work.seed != usual.seed else []
    if series.by == "instructions":
        command += ["--by", "instructions"]
    elif work.seconds != usual.seconds:
        command += ["--seconds", f"{work.seconds:g}"]
    smallest = min(series.smallest, abs(alarm.moved[alarm.leading].log_ratio) / 2)
    if smallest < math.log1p(SMALLEST[series.by]):
        command += ["--smallest", f"{100 * math.expm1(smallest):.2g}%"]
    return shlex.join(command)


def watch_json(known: Known) -> WatchRecord:
    """Returns all of a watch as JSON can hold it. Ratios are commit ÷ anchor, of rates or instructions per
    operation."""
    return {
        "watch": known.watch.name,
        "anchor": known.line.stops[0].id,
        "newest": known.line.stops[-1].id,
        "commits": known.line.newest,
        "left": commits_left(known),
        "stopped": known.stopped or None,
        "alarms": [
            {
                **alarm_record(known, alarm),
                "page": str(known.watch.folder / "alarms" / alarm.name / "index.html"),
            }
            for alarm in listed_alarms(known)
        ],
        "series": {name: values_record(known, series) for name, series in known.series.items()},
        "skipped": {c: v.skipped for c, v in known.values.items() if v.skipped},
        "costs": [
            {
                "commit": values.commit,
                "at": values.at,
                "seconds": values.seconds,
                "cpu_seconds": values.cpu_seconds,
                "build_seconds": values.build_seconds,
                "build_cpu_seconds": values.build_cpu_seconds,
                "same_as": values.same_as or None,
            }
            for values in sorted(known.whole(), key=lambda values: values.at)
        ],
    }


def listed_alarms(known: Known) -> list[Alarm]:
    """Returns the changes of series that are still watched, the newest first."""
    return [alarm for alarm in known.shown_alarms if alarm.leading in known.series]


def alarm_record(known: Known, alarm: Alarm) -> AlarmRecord:
    """Returns a change as JSON."""
    return {
        "title": title(known, alarm),
        "state": alarm.state,
        "good": alarm.good,
        "bad": alarm.bad,
        "commits": alarm.commits,
        "subject": alarm.subject,
        "answer": alarm.answer,
        "why": alarm.why,
        "note": known.note_of(alarm) or None,
        "series": {
            name: span(Outcome(moved.log_ratio, moved.error), known.series[name].by)
            for name, moved in alarm.moved.items()
            if name in known.series
        },
    }


def values_record(known: Known, series: Series) -> list[PointRecord]:
    """Returns the values of a series as JSON."""
    return [
        {
            "commit": known.line.stops[point.position].id,
            "position": point.position,
            **span(Outcome(point.log_ratio, point.error), series.by),
        }
        for point in known.points(series)
    ]


__all__ = [
    "alarm_record",
    "costs",
    "lines",
    "listed_alarms",
    "mail",
    "others",
    "size",
    "summary",
    "title",
    "values_record",
    "watch_json",
]

"""One pass of a watch: measures the commits that are due, finds changes, and searches their commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from rich.console import Console

from pgstrata.errors import ServerError
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.numbers import counted
from pgstrata.search.bisect.accounted import accounted_for
from pgstrata.search.bisect.hunt import SearchResult, SearchSettings, hunt
from pgstrata.search.bisect.line import Range, Stop
from pgstrata.search.bisect.page import write_search
from pgstrata.search.bisect.text import headline
from pgstrata.source import build_cache
from pgstrata.store.lock import ResultsLock
from pgstrata.watch.detect import Change
from pgstrata.watch.file import Watch
from pgstrata.watch.history import Alarm, CommitValues, History, Moved
from pgstrata.watch.known import Known, changes_of, commits_left, is_about, line_of
from pgstrata.watch.measure import Measuring, Series, utc_now
from pgstrata.watch.order import next_position


def read(
    watch: Watch, say: Callable[[str], None], console: Console, check: Callable[[], None]
) -> tuple[Known, Measuring]:
    """Reads what is known, and checks what is asked. Raises UsageError, ServerError, StoreError."""
    line = line_of(watch, say)
    measuring = Measuring(watch, line.stops[0], console, say, check)
    history = History(watch.folder)
    ids = [stop.id for stop in line.stops]
    return Known(
        watch, line, measuring.series, measuring.epoch, history.values(ids), history.alarms()
    ), measuring


def next_stop(known: Known, begun: Set[int] = frozenset()) -> Stop | None:
    """Returns the commit that is measured next; None if nothing is due. begun: positions that are measured at
    the moment."""
    place = next_position(
        known.line.newest,
        known.positions(skipped=False) | begun,
        known.positions(skipped=True) | known.line.idle,
        known.line.places.get(known.alarms.known, 0) if known.alarms.known else known.line.newest,
        known.watch.file.every,
        [(c.before, c.after) for changes in changes_of(known).values() for c in changes],
    )
    return None if place is None else known.line.stops[place]


@dataclass
class Pass:
    """A pass while commits are measured. until: by the monotonic clock, when no new one is begun; show: takes
    what is known after each commit."""

    known: Known
    measuring: Measuring
    history: History
    until: float
    show: Callable[[Known], object] | None

    def is_over(self) -> bool:
        """Returns whether no new commit is begun, which what is known says then."""
        if time.monotonic() > self.until:
            self.known.stopped = "the time of this pass is over"
        return bool(self.known.stopped)

    def add(self, values: CommitValues) -> None:
        """Takes in the values of a commit, durably. Raises StoreError."""
        self.history.add(values)
        self.known.values[values.commit] = values
        self.known.measured.add(values.commit)
        self.known.seconds += values.seconds
        raise_new_alarms(self.known)
        self.history.save_alarms(self.known.alarms)


def pass_once(
    watch: Watch,
    console: Console,
    most_seconds: float,
    show: Callable[[Known], object] | None = None,
    spread: Callable[[Pass, Interrupts], None] | None = None,
) -> Known:
    """Measures what is due, for `most_seconds` at most, and searches the commits of new changes. show: takes
    what is known after each commit. spread: has the commits of a pass measured by other machines.

    Whatever ends it, what was measured stays, and the next pass goes on. Raises UsageError, ServerError where
    the anchor cannot be measured, StoreError where another pgstrata is at it, Interrupted.
    """
    say = plain_lines(console)
    until = time.monotonic() + most_seconds
    with ResultsLock(watch.folder), Interrupts(say) as interrupts:
        known, measuring = read(watch, say, console, interrupts.check)
        history = History(watch.folder)
        newest = known.line.stops[-1].id
        this = Pass(known, measuring, history, until, show)
        if spread is None:
            _measure_here(this, console, say, interrupts.check)
        else:
            known.epoch = known.latest_epoch or known.epoch
            if next_stop(known) is not None:
                spread(this, interrupts)
        _search_all(known, history, console, say, until)
        if not known.stopped:
            known.alarms.known = newest
        history.save_alarms(known.alarms)
        _expire(known, say)
        return known


def _measure_here(
    this: Pass, console: Console, say: Callable[[str], None], check: Callable[[], None]
) -> None:
    known = this.known
    while (stop := next_stop(known)) is not None and not this.is_over():
        check()
        say(f"{stop.name} {stop.subject}: {_left(known)}")
        tries = known.values[stop.id].tries if stop.id in known.values else 0
        this.add(this.measuring.measure(stop, tries, known.whole()))
        _search_all(known, this.history, console, say, this.until)
        if this.show is not None:
            this.show(known)


def _left(known: Known) -> str:
    """Returns in words how many commits are left, and how long they take by those before."""
    left = commits_left(known)
    text = f"{left} of {counted(known.line.newest, 'commit')} left to measure"
    if known.measured and known.watch.file.every == 1:
        text += f", about {left * known.seconds / len(known.measured) / 60:.0f} min left"
    return text


# --- alarms -----------------------------------------------------------------------------------


def _search_all(
    known: Known, history: History, console: Console, say: Callable[[str], None], until: float
) -> None:
    """Notes new alarms, and goes on with the searches of open ones."""
    raise_new_alarms(known)
    history.save_alarms(known.alarms)
    for alarm in known.alarms.alarms:
        if alarm.state != "open" or not {alarm.good, alarm.bad} <= known.line.places.keys():
            continue
        left = until - time.monotonic()
        if left <= 0:
            known.stopped = known.stopped or "the time of this pass is over"
            return
        series = known.series.get(alarm.leading)
        if series is None or _is_due_between(known, alarm):
            continue
        moved = alarm.moved[alarm.leading]
        say(f"alarm: {alarm.leading} moved between {alarm.good[:10]} and {alarm.bad[:10]}")
        folder = known.watch.folder / "alarms" / alarm.name
        range_ = line_between(known, alarm)
        settings = SearchSettings(
            range_,
            series.work,
            folder,
            _smallest(series, moved),
            left,
            profile=False,
            by=series.by,
            both_ways=False,  # the watch may have a series of each
        )
        try:
            search_result = hunt(settings, console)
        except ServerError as error:
            say(f"  the search cannot go on: {error.message}")
            continue
        _note_result(alarm, search_result)
        write_search(search_result)
        history.save_alarms(known.alarms)


def _is_due_between(known: Known, alarm: Alarm) -> bool:
    """Returns True while commits between the ends of an alarm are neither measured nor skipped."""
    first, last = known.line.places[alarm.good], known.line.places[alarm.bad]
    return not set(range(first + 1, last)) <= known.settled()


def line_between(known: Known, alarm: Alarm) -> Range:
    """Returns the commits of an alarm that may have made the change: those without code have made none, so a
    good end among them stands for the commit before it, whose server is at hand."""
    line = known.line
    first, last = line.places[alarm.good], line.places[alarm.bad]
    while first in line.idle:
        first -= 1
    stops = [line.stops[p] for p in range(first, last + 1) if p == last or p not in line.idle]
    return Range("commit", f"{stops[0].name}..{stops[-1].name} of {line.repo}", stops, line.repo)


def _smallest(series: Series, moved: Moved) -> float:
    """Returns the smallest difference that the search looks for: no more than half of what moved."""
    return min(series.smallest, abs(moved.log_ratio) / 2)


def _note_result(alarm: Alarm, search_result: SearchResult) -> None:
    conclusion = search_result.conclusion
    alarm.answer = headline(search_result)
    if conclusion.state == "none":
        alarm.state = "unproven"
    elif conclusion.state == "found":
        stops = search_result.search.line.stops
        # the strongest of several is the alarm's; the others are found by the values of their commits
        group = max(conclusion.groups, key=lambda g: g.probability)
        alarm.state = "found"
        alarm.commits = [stop.id for stop in stops[group.first : group.last + 1]]
        alarm.subject = stops[group.last].subject
        alarm.why = accounted_for(search_result, group)
        # one fact, one number: that of the search, which has measured it against the commit before
        alarm.ended = utc_now()
        if outcome := group.against_parent or conclusion.effect:
            alarm.moved[alarm.leading] = Moved(outcome.log_ratio, outcome.error)


def raise_new_alarms(known: Known) -> None:
    """Adds changes that no alarm is about yet; changes of several series at one place are one alarm."""
    places = known.line.places
    changes = [(name, change) for name, of_series in changes_of(known).items() for change in of_series]
    _narrow_alarms(known, changes)
    for name, change in changes:
        moved = Moved(change.log_ratio, change.error)
        there = next((a for a in known.alarms.alarms if is_about(a, change, places)), None)
        if there is not None:
            if name != there.leading or there.state != "found":
                there.moved[name] = moved
            continue
        good, bad = known.line.stops[change.before].id, known.line.stops[change.after].id
        at = known.values[bad].at if bad in known.values else ""
        known.alarms.alarms.append(Alarm(good, bad, name, {name: moved}, at))


def _narrow_alarms(known: Known, changes: Sequence[tuple[str, Change]]) -> None:
    """Places alarms whose search has not begun where their leading series moved; what moved with it while
    its place was not known may have moved elsewhere. Takes back those whose series has not moved after all: a
    value that its neighbours do not share had raised them."""
    stops, places = known.line.stops, known.line.places
    kept: list[Alarm] = []
    for alarm in known.alarms.alarms:
        if alarm.state == "open" and not alarm.answer and {alarm.good, alarm.bad} <= places.keys():
            of_leading = (c for name, c in changes if name == alarm.leading and is_about(alarm, c, places))
            if (change := next(of_leading, None)) is None:
                continue
            alarm.good, alarm.bad = stops[change.before].id, stops[change.after].id
            alarm.moved = {alarm.leading: Moved(change.log_ratio, change.error)}
        kept.append(alarm)
    known.alarms.alarms = kept


# --- builds -----------------------------------------------------------------------------------


def _expire(known: Known, say: Callable[[str], None]) -> None:
    """Removes servers that were built for this watch, but the newest and the ends of open alarms."""
    stays = {end for a in known.shown_alarms if a.state == "open" for end in (a.good, a.bad)}
    built = [v for v in known.values.values() if v.built]
    built.sort(key=lambda values: known.line.places[values.commit])
    for values in built[: -known.watch.file.builds]:
        if values.commit in stays:
            continue
        try:
            for removed in build_cache.remove(values.built):
                say(f"removed the built server {removed}")
        except ServerError:
            continue  # in use: the next pass looks again


__all__ = ["Pass", "line_between", "next_stop", "pass_once", "raise_new_alarms", "read"]

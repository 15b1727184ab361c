"""One pass of a watch: measures the commits that are due, finds changes, and searches their commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from pgstrata.campaign.study import Variant
from pgstrata.errors import ServerError, UsageError
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.search.bisect.hunt import TRIES, SearchResult, SearchSettings, hunt
from pgstrata.search.bisect.line import Range, Stop, commits
from pgstrata.search.bisect.page import write_search
from pgstrata.search.bisect.procedure import BUILD_ERROR
from pgstrata.search.bisect.state import DISTURBED
from pgstrata.search.bisect.text import headline
from pgstrata.server.find.cache import cache_dir
from pgstrata.source import build_cache
from pgstrata.source.git import clone, commit_of, is_url, repository
from pgstrata.source.idle import idle_commits
from pgstrata.store.lock import ResultsLock
from pgstrata.watch.detect import Change, Point, find_changes
from pgstrata.watch.file import Watch
from pgstrata.watch.history import Alarm, Alarms, CommitValues, History, Moved
from pgstrata.watch.measure import Measuring, Series, utc_now
from pgstrata.watch.order import next_position


@dataclass(frozen=True)
class Line:
    """The commits that are watched, the anchor first."""

    stops: Sequence[Stop]
    repo: Path
    places: Mapping[str, int] = field(repr=False)
    idle: frozenset[int] = frozenset()
    """Positions of commits that change no code of a server."""

    @property
    def newest(self) -> int:
        """Position of the newest commit."""
        return len(self.stops) - 1


@dataclass
class Known:
    """What is known of a line: series by name, values of the commits on it, alarms."""

    watch: Watch
    line: Line
    series: Mapping[str, Series]
    epoch: str
    values: dict[str, CommitValues]
    alarms: Alarms
    stopped: str = ""
    """Why the pass ended before everything was measured, or empty."""
    seconds: float = 0.0
    """Of the commits measured in this pass, together."""
    measured: set[str] = field(default_factory=set)
    """Commits measured in this pass."""

    def positions(self, *, skipped: bool) -> set[int]:
        """Positions that are measured in this epoch with all series, or those that are skipped."""
        return {
            self.line.places[commit]
            for commit, values in self.values.items()
            if values.epoch == self.epoch
            and bool(values.skipped) == skipped
            and (skipped or self.is_whole(values))
        }

    def settled(self) -> set[int]:
        """Positions that are not due: measured, skipped, or without code of a server."""
        return self.positions(skipped=False) | self.positions(skipped=True) | self.line.idle

    def is_whole(self, values: CommitValues) -> bool:
        """Returns True if every series has a value of the question that is asked now, or a reason why it has
        none. Rates beside other load are measured again by the next passes, TRIES times at most."""
        if values.commit not in self.measured and values.tries < TRIES and self._is_disturbed(values):
            return False
        return all(
            name in values.missing or (name in values.values and values.values[name].asked == series.asked)
            for name, series in self.series.items()
        )

    def _is_disturbed(self, values: CommitValues) -> bool:
        by_rate = any(series.by == "rate" for series in self.series.values())
        return by_rate and values.other_load > DISTURBED

    def points(self, series: Series) -> list[Point]:
        """Returns the values of a series in this epoch: the anchor and every measured commit. Rates that were
        measured beside other load are none.

        Where the memory and the code of the anchor lie is drawn once, and shifts all other values.
        """
        points = [Point(0, 0.0, BUILD_ERROR[series.by])]
        for commit, values in self.values.items():
            value = values.values.get(series.name)
            if value is None or value.asked != series.asked or values.epoch != self.epoch:
                continue
            if series.by == "rate" and values.other_load > DISTURBED:
                continue
            points.append(Point(self.line.places[commit], value.log_ratio, value.error))
        return sorted(points, key=lambda point: point.position)

    def note_of(self, alarm: Alarm) -> str:
        """Returns the note of an acknowledged alarm; empty for one that is not."""
        for acknowledgement in self.watch.file.acknowledged:
            if any(commit.startswith(acknowledgement.commit) for commit in (alarm.commits or [alarm.bad])):
                return acknowledgement.note
        return ""

    @property
    def open_alarms(self) -> list[Alarm]:
        """Changes for the worse on the line that are not acknowledged."""
        return [a for a in self.shown_alarms if a.is_worse and not self.note_of(a)]

    @property
    def shown_alarms(self) -> list[Alarm]:
        """Changes on the line that are not disproved, the newest first."""
        here = [a for a in self.alarms.alarms if a.bad in self.line.places and a.state != "unproven"]
        return sorted(here, key=lambda alarm: -self.line.places[alarm.bad])


def line_of(watch: Watch, say: Callable[[str], None]) -> Line:
    """Returns the commits that are watched now. Raises UsageError for a repository, branch or commit that
    does not exist, or no line between them; ServerError if the repository cannot be read or reached."""
    file = watch.file
    where = file.repository
    repo = clone(where, file.branch, cache_dir(), say) if is_url(where) else repository(Path(where))

    def variant_of(server: str) -> Variant:
        variant = Variant(server=server, config=file.config)
        return variant.replaced(build=file.build) if file.build else variant

    anchor, newest = commit_of(repo, file.since), commit_of(repo, file.branch)
    if anchor == newest:
        raise UsageError(
            f"{file.branch} is at {anchor[:10]}, the anchor itself: there is no commit to watch yet",
            "name an older commit as `since`, or wait for the next one",
        )
    range_: Range = commits(repo, anchor, newest, variant_of)
    places = {stop.id: place for place, stop in enumerate(range_.stops)}
    idle = frozenset(places[commit] for commit in idle_commits(repo, anchor, newest) if commit in places)
    return Line(range_.stops, repo, places, idle)


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


def next_stop(known: Known) -> Stop | None:
    """Returns the commit that is measured next; None if nothing is due."""
    place = next_position(
        known.line.newest,
        known.positions(skipped=False),
        known.positions(skipped=True) | known.line.idle,
        known.line.places.get(known.alarms.known, 0) if known.alarms.known else known.line.newest,
        known.watch.file.every,
        [(c.before, c.after) for changes in changes_of(known).values() for c in changes],
    )
    return None if place is None else known.line.stops[place]


def pass_once(watch: Watch, console: Console, most_seconds: float) -> Known:
    """Measures what is due, for so many seconds at most, and searches the commits of new changes.

    Whatever ends it, what was measured stays, and the next pass goes on. Raises UsageError, ServerError where
    the anchor cannot be measured, StoreError where another pgstrata is at it, Interrupted.
    """
    say = plain_lines(console)
    begun = time.monotonic()
    with ResultsLock(watch.folder), Interrupts(say) as interrupts:
        known, measuring = read(watch, say, console, interrupts.check)
        history = History(watch.folder)
        newest = known.line.stops[-1].id
        while (stop := next_stop(known)) is not None:
            if time.monotonic() - begun > most_seconds:
                known.stopped = "the time of this pass is over"
                break
            interrupts.check()
            say(f"{stop.name} {stop.subject}: {_left(known)}")
            tries = known.values[stop.id].tries if stop.id in known.values else 0
            values = measuring.measure(stop, tries)
            history.add(values)
            known.values[stop.id] = values
            known.measured.add(stop.id)
            known.seconds += values.seconds
            _search_all(known, history, console, say, begun + most_seconds)
        _search_all(known, history, console, say, begun + most_seconds)
        if not known.stopped:
            known.alarms.known = newest
        history.save_alarms(known.alarms)
        _expire(known, say)
        return known


def commits_left(known: Known) -> int:
    """Returns the number of commits that are due: neither measured nor skipped, and with code of a server in
    them."""
    return known.line.newest - len(known.settled())


def _left(known: Known) -> str:
    """Returns in words how many commits are left, and how long they take by those before."""
    left = commits_left(known)
    text = f"{left} of {known.line.newest} commits are not measured"
    if known.measured and known.watch.file.every == 1:
        text += f", about {left * known.seconds / len(known.measured) / 60:.0f} min left"
    return text


# --- alarms -----------------------------------------------------------------------------------


def changes_of(known: Known) -> dict[str, list[Change]]:
    """Returns the changes of every series by its name."""
    limit = float(known.watch.file.false_alarm * len(known.series))
    return {
        name: find_changes(known.points(series), series.smallest, limit)
        for name, series in known.series.items()
    }


def _search_all(
    known: Known, history: History, console: Console, say: Callable[[str], None], until: float
) -> None:
    """Notes new alarms, and goes on with the searches of open ones."""
    _raise_alarms(known)
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
        range_ = commits(known.line.repo, alarm.good, alarm.bad, _variant_of(known))
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


def _variant_of(known: Known) -> Callable[[str], Variant]:
    anchor = known.line.stops[0].variant
    return lambda server: anchor.replaced(server=server)


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
        # one fact, one number: that of the search, which has measured it against the commit before
        alarm.ended = utc_now()
        if outcome := group.against_parent or conclusion.effect:
            alarm.moved[alarm.leading] = Moved(outcome.log_ratio, outcome.error)


def _raise_alarms(known: Known) -> None:
    """Adds changes that no alarm is about yet; changes of several series at one place are one alarm."""
    places = known.line.places
    for name, changes in changes_of(known).items():
        for change in changes:
            moved = Moved(change.log_ratio, change.error)
            there = next((a for a in known.alarms.alarms if is_about(a, change, places)), None)
            good, bad = known.line.stops[change.before].id, known.line.stops[change.after].id
            if there is not None:
                if name != there.leading or there.state != "found":
                    there.moved[name] = moved
                if name == there.leading and not there.answer:
                    there.good, there.bad = good, bad
                continue
            at = known.values[bad].at if bad in known.values else ""
            known.alarms.alarms.append(Alarm(good, bad, name, {name: moved}, at))


def is_about(alarm: Alarm, change: Change, places: Mapping[str, int]) -> bool:
    """Returns True if the commits of an alarm and of a change overlap."""
    if not {alarm.good, alarm.bad} <= places.keys():
        return False
    first, last = places[alarm.good] + 1, places[alarm.bad]
    if alarm.commits and alarm.commits[-1] in places:
        first, last = places[alarm.commits[0]], places[alarm.commits[-1]]
    return first <= change.after and change.before + 1 <= last


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


__all__ = [
    "Known",
    "Line",
    "changes_of",
    "commits_left",
    "is_about",
    "line_of",
    "next_stop",
    "pass_once",
    "read",
]

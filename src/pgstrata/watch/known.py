"""What a watch knows: the commits of its branch, their values, its alarms, and what is proven."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgstrata.campaign.study import Variant
from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.search.bisect.hunt import TRIES, recipe_of
from pgstrata.search.bisect.line import Range, Stop, commits, is_ancestor
from pgstrata.search.bisect.procedure import BUILD_ERROR
from pgstrata.search.bisect.state import DISTURBED
from pgstrata.server.find.cache import cache_dir
from pgstrata.source.git import clone, commit_of, is_url, repository
from pgstrata.source.idle import idle_commits
from pgstrata.watch.detect import Change, Point, find_changes
from pgstrata.watch.file import Watch, WatchFile
from pgstrata.watch.history import Alarm, Alarms, CommitValues
from pgstrata.watch.measure import Series


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
    failed: list[str] = field(default_factory=list)
    """Commits that no machine of a fleet could measure in this pass, each with the reason."""

    @property
    def latest_epoch(self) -> str:
        """Epoch of the value that was measured last; empty where nothing was measured."""
        latest = max(self.values.values(), key=lambda values: values.at, default=None)
        return latest.epoch if latest is not None else ""

    def positions(self, *, skipped: bool) -> set[int]:
        """Returns the positions that are measured in this epoch with all series, or those that are
        skipped."""
        return {
            self.line.places[commit]
            for commit, values in self.values.items()
            if values.epoch == self.epoch
            and bool(values.skipped) == skipped
            and (skipped or self.is_whole(values))
        }

    def whole(self) -> list[CommitValues]:
        """Returns the commits that are measured in this epoch with all series."""
        stops = self.line.stops
        return [self.values[stops[position].id] for position in self.positions(skipped=False)]

    def settled(self) -> set[int]:
        """Returns the positions that are not due: measured, skipped, or without code of a server."""
        return self.positions(skipped=False) | self.positions(skipped=True) | self.line.idle

    def is_whole(self, values: CommitValues) -> bool:
        """True if every series has a value of the question that is asked now, or a reason why it has none.
        Rates beside other load are measured again by the next passes, TRIES times at most."""
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

    def evidence(self, series: Series) -> list[Point]:
        """Returns the values of a series as its changes are found by: neighbours that execute the same code
        are one value, and commits without code have that of the commit before them."""
        kept: list[Point] = []
        for point in self.points(series):
            if kept and point.position <= kept[-1].end:
                continue  # measured before it was known to be without code
            if kept and self._have_one_code(kept[-1].end, point.position):
                kept[-1] = replace(kept[-1], last=self._end_of(point.position))
            else:
                kept.append(replace(point, last=self._end_of(point.position)))
        return kept

    def _have_one_code(self, first: int, second: int) -> bool:
        """True if two commits are known to execute the same code."""
        while first in self.line.idle and first > 0:
            first -= 1
        codes = [
            self.values[id_].code if (id_ := self.line.stops[place].id) in self.values else ""
            for place in (first, second)
        ]
        return codes[0] == codes[1] != ""

    def _end_of(self, position: int) -> int:
        """Returns the position of the last of the commits without code that follow this one, or its own."""
        while position + 1 in self.line.idle:
            position += 1
        return position

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
    does not exist, or no line between them; ServerError where the repository cannot be read or reached."""
    with watch.naming():
        line = _line_of(watch.file, say)
    for entry in watch.file.acknowledged:
        if (why := _unknown(entry.commit, line)) is not None:
            say(f"warning: {shown(watch.path)}: `acknowledged` names no commit: {why}")
    return line


def _unknown(commit: str, line: Line) -> str | None:
    """Returns why an acknowledged commit is none, and the next step; None where the repository has it."""
    if any(hash_.startswith(commit) for hash_ in line.places):
        return None
    try:
        commit_of(line.repo, commit)
    except UsageError as error:
        near = f"{error.hint}; " if error.hint.startswith("near") else ""
        return f"{error.message} ({near}correct its hash, or remove the entry)"
    return None


def _line_of(file: WatchFile, say: Callable[[str], None]) -> Line:
    where = file.repository
    repo = clone(where, file.branch, cache_dir(), say) if is_url(where) else repository(Path(where))

    def variant_of(server: str) -> Variant:
        variant = Variant(server=server, config=file.config)
        return variant.replaced(build=file.build) if file.build else variant

    anchor, newest = commit_of(repo, file.since), commit_of(repo, file.branch)
    if is_ancestor(repo, newest, anchor):
        place = "the anchor itself" if anchor == newest else f"older than the anchor {anchor[:10]}"
        raise UsageError(
            f"{file.branch} is at {newest[:10]}, {place}: there is no commit to watch yet",
            "name an older commit as `since`, or wait for the next one",
        )
    range_: Range = commits(repo, file.since, file.branch, variant_of, asked=("`since`", "`branch`"))
    places = {stop.id: place for place, stop in enumerate(range_.stops)}
    recipe = recipe_of(range_.stops[0].variant, file.series[0].workload)
    without_code = idle_commits(repo, anchor, newest, recipe)
    idle = frozenset(places[commit] for commit in without_code if commit in places)
    return Line(range_.stops, repo, places, idle)


def commits_left(known: Known) -> int:
    """Returns how many commits are due: neither measured nor skipped, and with code of a server in them."""
    return known.line.newest - len(known.settled())


def changes_of(known: Known) -> dict[str, list[Change]]:
    """Returns the changes of every series by its name."""
    limit = float(known.watch.file.false_alarm * len(known.series))
    return {
        name: find_changes(known.evidence(series), series.smallest, limit)
        for name, series in known.series.items()
    }


def is_about(alarm: Alarm, change: Change, places: Mapping[str, int]) -> bool:
    """True if the commits of an alarm and of a change overlap."""
    if not {alarm.good, alarm.bad} <= places.keys():
        return False
    first, last = places[alarm.good] + 1, places[alarm.bad]
    if alarm.commits and alarm.commits[-1] in places:
        first, last = places[alarm.commits[0]], places[alarm.commits[-1]]
    return first <= change.after and change.before + 1 <= last


__all__ = ["Known", "Line", "changes_of", "commits_left", "is_about", "line_of"]

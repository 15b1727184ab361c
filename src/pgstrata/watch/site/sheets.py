"""What a site has to say of a watch: a page for each step and each commit, and one for any two commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from markupsafe import Markup

from pgstrata.numbers import counted, duration
from pgstrata.page.blocks import (
    Align,
    Block,
    Cell,
    Chart,
    Column,
    Facts,
    Listing,
    Prose,
    Row,
    Section,
    Table,
    Term,
    words,
)
from pgstrata.report.export_html import embedded
from pgstrata.search.bisect.search import Outcome
from pgstrata.search.bisect.text import changed, interval, span
from pgstrata.store import slug
from pgstrata.watch.detect import Point
from pgstrata.watch.history import Alarm
from pgstrata.watch.known import Known
from pgstrata.watch.moves import Move, Moves, moves_at, moves_of
from pgstrata.watch.page import (
    COLOURS,
    alarms_blocks,
    lede,
    measured_positions,
    points_of,
    series_chart,
    value_cell,
)
from pgstrata.watch.text import (
    alarm_record,
    listed_alarms,
    mail,
    size,
    summary,
    values_record,
)

Json = dict[str, Any]

LATEST = 40
"""Commits of the heat map."""

MOST_ROWS = 200
"""Commits in the table of a step's page; the JSON beside it has all."""


@dataclass(frozen=True)
class Sheet:
    """A page of a site. path: below the site, without an ending. data: what the JSON beside it holds.

    template: that it is written with; more: what only that one needs.
    """

    path: str
    title: str
    lede: str
    sections: Sequence[Section]
    data: Json
    template: str = "site.html.j2"
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The way from this page to the top of the site."""
        return "../" * self.path.count("/")

    @property
    def has_chart(self) -> bool:
        """True if the page needs the script of the charts."""
        return any(isinstance(block, Chart) for section in self.sections for block in section.blocks)


@dataclass(frozen=True)
class WatchSite:
    """The pages of a watch."""

    known: Known

    @property
    def folder(self) -> str:
        """Where its pages lie, below the site."""
        return f"watch/{slug(self.known.watch.name)}"

    @cached_property
    def moves(self) -> Mapping[str, Moves]:
        """The proven changes by name of the series."""
        return moves_of(self.known)

    @cached_property
    def points(self) -> Mapping[str, Mapping[int, Point]]:
        """The values by name of the series and position."""
        return points_of(self.known)

    @cached_property
    def paged(self) -> frozenset[int]:
        """Positions of the commits that have a page: those that are measured or skipped."""
        return frozenset({*measured_positions(self.known), *self.known.positions(skipped=True)})

    def step_path(self, name: str) -> str:
        """Returns the path of a step's page."""
        return f"{self.folder}/steps/{slug(name)}"

    def commit_path(self, position: int) -> str:
        """Returns the path of a commit's page; empty for a commit that has none."""
        return f"{self.folder}/commits/{self.known.line.stops[position].id}" if position in self.paged else ""

    def alarm_path(self, alarm: Alarm) -> str:
        """Returns the path of the page of an alarm's commit."""
        place = alarm.commits[-1] if alarm.commits else alarm.bad
        return self.commit_path(self.known.line.places.get(place, -1)) if place else ""

    def sheets(self) -> list[Sheet]:
        """Returns all pages but the first, which all watches share."""
        pages = [self._step(number, name) for number, name in enumerate(self.known.series)]
        pages += [self._commit(position) for position in sorted(self.paged, reverse=True)]
        return [*pages, self._compare()]

    # --- the first page -----------------------------------------------------------------------

    def overview(self, number: int, *, is_only: bool) -> list[Section]:
        """Returns the part of the first page that is about this watch. is_only: there is no other one."""
        known = self.known
        prefix = "" if is_only else f"{known.watch.name}: "
        alarms = alarms_blocks(known, lambda alarm: _page(self.alarm_path(alarm)))
        return [
            Section(f"alarms-{number}", f"{prefix}Changes", [Prose(lede(known), "even"), *alarms]),
            Section(f"map-{number}", f"{prefix}The latest commits", self._heat_map(number)),
        ]

    def record(self) -> Json:
        """Returns the same for the JSON beside the first page."""
        known = self.known
        return {
            "watch": known.watch.name,
            "anchor": known.line.stops[0].id,
            "newest": known.line.stops[-1].id,
            "commits": known.line.newest,
            "alarms": [alarm_record(known, alarm) for alarm in listed_alarms(known)],
            "steps": {name: f"{self.step_path(name)}.json" for name in known.series},
        }

    def _heat_map(self, number: int) -> list[Block]:
        known = self.known
        positions = sorted(self.paged, reverse=True)[:LATEST]
        if not positions:
            return [Prose("Nothing has been measured yet.")]
        columns = [Column("step", "Step", align="left")]
        for position in positions:
            stop, page = known.line.stops[position], _page(self.commit_path(position))
            columns.append(Column(stop.id, stop.id[:7], stop.date[5:10], hint=stop.subject, href=page))
        rows = []
        for name in known.series:
            first = words(name, href=_page(self.step_path(name)))
            cells = [value_cell(known, self.moves[name], self.points[name], p) for p in positions]
            rows.append(Row([first, *(replace(c, text="–") if c.value is None else c for c in cells)]))
        anchor = known.line.stops[0].name
        how = f"Change against {anchor} in %, the newest commit first. {COLOURS}"
        title = f"Steps and the latest {counted(len(positions), 'commit')}, % against {anchor}"
        return [Table(f"map-{number}", title, columns, rows, how)]

    # --- a step -------------------------------------------------------------------------------

    def _step(self, number: int, name: str) -> Sheet:
        known, moves = self.known, self.moves[name]
        dates = [self._dated(moves, move) for move in reversed(moves.moves)]
        columns = [Column(key, title, align="left") for key, title in _DATED]
        changes: list[Block] = [Prose("No change is proven.", "even")]
        if dates:
            changes = [Table("changes", "The latest first", columns, dates, _HOW_DATED, stacked=True)]
        return Sheet(
            self.step_path(name),
            name,
            f"{known.watch.name}: {summary(known).partition(': ')[2]}.",
            [
                Section("chart", "Over time", [series_chart(known, moves, number)]),
                Section("changes", "Changes", changes),
                Section("values", "Values", self._values(name)),
            ],
            {
                "watch": known.watch.name,
                "step": name,
                "anchor": known.line.stops[0].id,
                "values": values_record(known, moves.series),
                "changes": [self._move_record(moves, move) for move in moves.moves],
            },
        )

    def _dated(self, moves: Moves, move: Move) -> Row:
        first, last = (self.known.line.stops[p] for p in (move.first, move.last))
        is_single = move.first == move.last
        since = last.name if is_single else f"one of {first.name} … {last.name}"
        note = self.known.note_of(move.alarm) if move.alarm else ""
        mark = moves.mark(*self._sides(moves, move))
        return Row(
            [
                words(since, href=self._from_step(move.last)),
                words(last.date[:10]),
                Cell(move.moved.log_ratio, size(move.moved, moves.series.by), "" if note else mark),
                words(last.subject if is_single else ""),
                words(note),
            ]
        )

    def _sides(self, moves: Moves, move: Move) -> tuple[int, int]:
        before = list(moves.moves).index(move)
        return before, before + 1

    def _from_step(self, position: int) -> str:
        path = self.commit_path(position)
        return f"../commits/{path.rpartition('/')[2]}.html" if path else ""

    def _move_record(self, moves: Moves, move: Move) -> Json:
        stops = self.known.line.stops
        return {
            "first": stops[move.first].id,
            "last": stops[move.last].id,
            **span(Outcome(move.moved.log_ratio, move.moved.error), moves.series.by),
            "note": (self.known.note_of(move.alarm) if move.alarm else "") or None,
        }

    def _values(self, name: str) -> list[Block]:
        known = self.known
        positions = sorted(self.points[name], reverse=True)[:MOST_ROWS]
        rows = []
        for position in positions:
            stop = known.line.stops[position]
            value = value_cell(known, self.moves[name], self.points[name], position)
            where = words(stop.name, href=self._from_step(position))
            rows.append(Row([where, words(stop.date[:10]), value, words(value.note), words(stop.subject)]))
        columns = [Column(key, title, unit, align) for key, title, unit, align in _VALUES]
        title = f"The latest {counted(len(rows), 'value')} of {len(self.points[name]):,}"
        return [Table("values", title, columns, rows, COLOURS)]

    # --- a commit -----------------------------------------------------------------------------

    def _commit(self, position: int) -> Sheet:
        known, stop = self.known, self.known.line.stops[position]
        values = known.values.get(stop.id)
        here = moves_at(self.moves, position)
        skipped = values.skipped if values else ""
        blocks: list[Block] = [Prose(f"It cannot be measured: {skipped}", "even")] if skipped else []
        if here:
            blocks.append(self._moved(here))
        elif not skipped:
            blocks.append(Prose("No step is proven to have moved with this commit.", "even"))
        for alarm in listed_alarms(known):
            if position == known.line.places.get(alarm.commits[-1] if alarm.commits else alarm.bad):
                blocks += [Prose(text) for text in (alarm.answer, *alarm.why) if text]
                blocks.append(Listing("Draft of a mail", mail(known, alarm)))
        sections = [
            Section("moved", "What moved", blocks),
            Section("about", "The commit", [self._about(position)]),
        ]
        if not skipped:
            sections.insert(1, Section("steps", "All steps", [self._all_steps(position)]))
        data = {
            "watch": known.watch.name,
            "commit": stop.id,
            "subject": stop.subject,
            "author": stop.author,
            "date": stop.date,
            "skipped": skipped or None,
            "moved": {name: self._move_record(self.moves[name], move) for name, move in here.items()},
            "values": self._values_record(position),
        }
        lede_ = f"{stop.name}, commit {position:,} after {known.line.stops[0].name} of {known.watch.name}."
        return Sheet(self.commit_path(position), stop.subject or stop.name, lede_, sections, data)

    def _moved(self, here: Mapping[str, Move]) -> Table:
        rows = []
        for name, move in here.items():
            moves = self.moves[name]
            note = self.known.note_of(move.alarm) if move.alarm else ""
            mark = moves.mark(*self._sides(moves, move)) if move.first == move.last else ""
            among = (
                "this commit" if move.first == move.last else f"one of {move.last - move.first + 1} commits"
            )
            rows.append(
                Row(
                    [
                        words(name, href=self._to_step(name)),
                        Cell(move.moved.log_ratio, size(move.moved, moves.series.by), "" if note else mark),
                        words(among),
                        words(note),
                    ]
                )
            )
        columns = [Column(key, title, align="left") for key, title in _MOVED]
        return Table("moved", "Against the commit before", columns, rows, _HOW_DATED, stacked=True)

    def _to_step(self, name: str) -> str:
        return f"../steps/{slug(name)}.html"

    def _all_steps(self, position: int) -> Table:
        rows = []
        for name, moves in self.moves.items():
            value = value_cell(self.known, moves, self.points[name], position)
            rows.append(Row([words(name, href=self._to_step(name)), value, words(value.note)]))
        columns = [Column("step", "Step", align="left"), Column("change", "Value", "%")]
        columns.append(Column("interval", "Interval or reason", align="left"))
        title = f"Values against {self.known.line.stops[0].name}"
        return Table("steps", title, columns, rows, COLOURS)

    def _about(self, position: int) -> Facts:
        stop = self.known.line.stops[position]
        values = self.known.values.get(stop.id)
        terms = [Term("Commit", stop.id), Term("Author", stop.author), Term("Date", stop.date)]
        if values:
            cpu = f", {duration(values.cpu_seconds)} of CPU" if values.cpu_seconds else ""
            terms.append(Term("Measured", values.at, f"in {duration(values.seconds)}{cpu}"))
            if values.same_as:
                terms.append(Term("Values of", values.same_as, "it executes the same code"))
        return Facts([term for term in terms if term.value])

    def _values_record(self, position: int) -> Json:
        return {
            name: span(Outcome(point.log_ratio, point.error), self.moves[name].series.by)
            for name, points in self.points.items()
            if (point := points.get(position))
        }

    # --- any two commits ----------------------------------------------------------------------

    def _compare(self) -> Sheet:
        known = self.known
        positions = [0, *sorted(measured_positions(known))]
        stops = [known.line.stops[p] for p in positions]
        data = {
            "watch": known.watch.name,
            "commits": [
                {"id": s.id, "name": s.name, "date": s.date[:10], "subject": s.subject[:100]} for s in stops
            ],
            "steps": [self._compared(name, positions) for name in known.series],
        }
        return Sheet(
            f"{self.folder}/compare",
            f"{known.watch.name}: compare two commits",
            summary(known),
            [],
            data,
            "compare.html.j2",
            {"compared": Markup(embedded(data)), "anchor": known.line.stops[0].name},
        )

    def _compared(self, name: str, positions: Sequence[int]) -> Json:
        """Returns the JSON of a step at all commits, with the differences of all its levels: a page has only
        to look them up."""
        moves, series = self.moves[name], self.known.series[name]
        differences = {}
        for first in range(len(moves.moves)):
            for last in range(first + 1, len(moves.moves) + 1):
                outcome = moves.total(first, last)
                differences[f"{first}-{last}"] = {
                    "change": round(100 * interval(outcome, series.by)[0], 4),
                    "text": changed(outcome, series.by),
                    "mark": moves.mark(first, last),
                }
        values = []
        for position in positions:
            point = self.points[name].get(position)
            ends = interval(Outcome(point.log_ratio, point.error), series.by) if point else ()
            values.append([round(100 * end, 3) for end in ends] or None)
        return {
            "name": name,
            "href": f"steps/{slug(name)}.html",
            "levels": [moves.level_at(position) for position in positions],
            "values": values,
            "differences": differences,
        }


def _page(path: str) -> str:
    return f"{path}.html" if path else ""


_DATED = (
    ("since", "Since"),
    ("date", "Date"),
    ("change", "Change"),
    ("subject", "Subject"),
    ("note", "Acknowledged"),
)
_MOVED = (("step", "Step"), ("change", "Change"), ("among", "Made by"), ("note", "Acknowledged"))
_VALUES: tuple[tuple[str, str, str, Align], ...] = (
    ("commit", "Commit", "", "left"),
    ("date", "Date", "", "left"),
    ("change", "Value", "%", "right"),
    ("interval", "Interval", "", "left"),
    ("subject", "Subject", "", "left"),
)
_HOW_DATED = (
    "Every change is proven: it was found in all values of the step, and where its search has ended, "
    "measured again against the commit before. Intervals are 95 %."
)

__all__ = ["Sheet", "WatchSite"]

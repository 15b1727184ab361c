"""What a watch has proven of each series: its changes, each with one date and one size.

Every page takes its numbers and its colours from here. A commit is at a level, which the changes up to it
have made; two commits differ by the changes between them, and by nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgstrata.judge.marks import Mark
from pgstrata.search.bisect.search import Outcome
from pgstrata.watch.detect import Change, is_proven
from pgstrata.watch.history import Alarm, Moved
from pgstrata.watch.known import Known, changes_of, is_about
from pgstrata.watch.measure import Series


@dataclass(frozen=True)
class Move:
    """A proven change of a series, made by one of the commits first … last (positions on the line)."""

    first: int
    last: int
    moved: Moved
    alarm: Alarm | None = None


@dataclass(frozen=True)
class Moves:
    """The proven changes of a series in the order of the line."""

    series: Series
    moves: Sequence[Move]

    def level_at(self, position: int) -> int | None:
        """Returns how many changes a commit has in it; None where one of them is not dated exactly enough."""
        if any(move.first <= position < move.last for move in self.moves):
            return None
        return sum(move.last <= position for move in self.moves)

    def total(self, first: int, last: int) -> Outcome:
        """Returns the difference of two levels, the earlier one first: the changes between them, added up.
        Their errors are taken as independent, which is on the safe side for neighbours."""
        between = [move.moved for move in self.moves[first:last]]
        return Outcome(sum(m.log_ratio for m in between), math.hypot(*(m.error for m in between)))

    def mark(self, first: int | None, last: int | None) -> Mark:
        """Returns the colour of the difference of two levels: none where no difference is proven."""
        if first is None or last is None or first == last:
            return ""
        if last - first > 1:
            outcome = self.total(first, last)
            if not is_proven(outcome.log_ratio, outcome.error, self.series.smallest):
                return ""
        return "bad" if self.total(first, last).log_ratio < 0 else "good"


def moves_of(known: Known) -> dict[str, Moves]:
    """Returns the proven changes of every series by its name. A change that its search has disproved is none;
    where the search has found its commits, it is dated to them, and has the size that the search measured."""
    by_name = {}
    for name, changes in changes_of(known).items():
        moves = [move for change in changes if (move := _move(known, name, change)) is not None]
        by_name[name] = Moves(known.series[name], _once(moves))
    return by_name


def moves_at(all_moves: Mapping[str, Moves], position: int) -> dict[str, Move]:
    """Returns the changes that a commit has made, or is one of those that may have, by name of the series."""
    return {
        name: move
        for name, moves in all_moves.items()
        for move in moves.moves
        if move.first <= position <= move.last
    }


def _move(known: Known, name: str, change: Change) -> Move | None:
    places = known.line.places
    alarm = next((a for a in known.alarms.alarms if is_about(a, change, places)), None)
    first, last, moved = change.before + 1, change.after, Moved(change.log_ratio, change.error)
    if alarm is not None and alarm.state == "unproven":
        return None
    if alarm is not None and alarm.state == "found" and {*alarm.commits} <= places.keys():
        first, last = places[alarm.commits[0]], places[alarm.commits[-1]]
        moved = alarm.moved[name] if name == alarm.leading else moved
    return Move(first, last, moved, alarm)


def _once(moves: Sequence[Move]) -> list[Move]:
    """Drops changes at the place of the one before: one alarm is one change."""
    kept: list[Move] = []
    for move in moves:
        if not kept or move.first > kept[-1].last:
            kept.append(move)
    return kept


__all__ = ["Move", "Moves", "moves_at", "moves_of"]

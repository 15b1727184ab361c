"""Parses and binds of a session whose execution is still to come.

They are part of the statement that they prepare and of no other. With a text they belong to the execution of
the same text; a bare `duration:` says nothing but how long something took, so it belongs to the execution
that follows at once, or to none.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_NAMES = 1000
"""Prepared statements of a session that are waited for; of more, the oldest have no execution."""

AT_ONCE = 50_000
"""Microseconds between two messages of one client for one statement, where only times can tell."""

PAUSE = 1_000_000
"""Microseconds: a client that waits longer between parse and execution did something else meanwhile."""


class Cost(NamedTuple):
    """Time and entries of what came before an execution. since: when it began, None without any."""

    since: int | None = None
    microseconds: int = 0
    entries: int = 0


NOTHING = Cost()


class _Part(NamedTuple):
    kind: str
    text: int
    begin: int
    took: int


class _Bare(NamedTuple):
    end: int
    took: int
    is_known: bool


class Pending:
    """What one session has parsed and bound. Methods return the time and the entries that belong to nothing
    any more."""

    __slots__ = ("_bare", "_executed", "_named")

    def __init__(self) -> None:
        self._named: dict[str, list[_Part]] = {}
        self._bare: list[_Bare] = []
        self._executed: set[str] = set()

    # --- with a text ----------------------------------------------------------------------------

    def add(self, kind: str, name: str, text: str, begin: int, took: int) -> Cost:
        """Adds a parse or a bind of a statement. Returns what it replaces."""
        part = _Part(kind, hash(text), begin, took)
        parts = self._named.get(name)
        if parts is None:
            self._named[name] = [part]
            if len(self._named) > MOST_NAMES:
                return _sum(self._named.pop(next(iter(self._named))))
            return NOTHING
        if kind == "parse" or parts[-1].kind == "bind" or parts[0].text != part.text:
            lost = parts if kind == "parse" or parts[0].text != part.text else [parts.pop()]
            kept = [] if lost is parts else parts
            self._named[name] = [*kept, part]
            return _sum(lost)
        parts.append(part)
        return NOTHING

    def take(self, name: str, text: str, begin: int) -> Cost:
        """Takes what belongs to an execution that begins at `begin`."""
        parts = self._named.get(name)
        if parts is None or parts[0].text != hash(text):
            return NOTHING
        del self._named[name]
        return _since(_sum(parts), begin)

    def named(self, text: str) -> str | None:
        """Returns the name under which a text is waited for, None where it is not."""
        wanted = hash(text)
        for name, parts in self._named.items():
            if parts[0].text == wanted:
                return name
        return None

    def drop_unnamed(self) -> Cost:
        """A plain statement ends the one without a name."""
        return _sum(self._named.pop("", ()))

    # --- bare durations -------------------------------------------------------------------------

    def add_bare(self, end: int, took: int, tag: str) -> tuple[int, int]:
        """Adds a duration that names nothing. tag: the command tag, where the log has it. Returns time and
        count of those that belong to no execution."""
        if tag and tag not in ("PARSE", "BIND"):
            time, count = self.drop_bare()
            return time + took, count + 1
        self._bare.append(_Bare(end, took, bool(tag)))
        if len(self._bare) > 2:
            oldest = self._bare.pop(0)
            return oldest.took, 1
        return 0, 0

    def take_bare(self, name: str, begin: int) -> Cost:
        """Takes the durations of the parse and the bind of an execution that begins at `begin`."""
        most = 2 if not name or name not in self._executed else 1
        since, took, count = begin, 0, 0
        while self._bare and count < most:
            last = self._bare[-1]
            if not last.is_known and since - last.end > AT_ONCE:
                break
            self._bare.pop()
            since, took, count = last.end - last.took, took + last.took, count + 1
        return _since(Cost(since, took, count), begin) if count else NOTHING

    def drop_bare(self) -> tuple[int, int]:
        """Returns time and count of all bare durations; none of them waits any more."""
        if not self._bare:
            return 0, 0
        dropped = sum(bare.took for bare in self._bare), len(self._bare)
        self._bare.clear()
        return dropped

    def execute(self, name: str) -> None:
        """Notes that a named statement has been executed: it need not be parsed again."""
        if name and len(self._executed) < 10 * MOST_NAMES:
            self._executed.add(name)

    def drop(self) -> Cost:
        """The session is at its end: what has a text and was not executed."""
        dropped = _sum([part for parts in self._named.values() for part in parts])
        self._named.clear()
        return dropped


def _sum(parts: list[_Part] | tuple[()]) -> Cost:
    if not parts:
        return NOTHING
    return Cost(min(part.begin for part in parts), sum(part.took for part in parts), len(parts))


def _since(cost: Cost, begin: int) -> Cost:
    """Says when a statement began: with its parse, unless the client did something else in between."""
    assert cost.since is not None
    if begin - cost.since > cost.microseconds + PAUSE:
        return cost._replace(since=begin - cost.microseconds)
    return cost


__all__ = ["NOTHING", "Cost", "Pending"]

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


_Parts = tuple[int, int, int, int, bool]
"""A parse, a bind or both of one statement: hash of the text, when it began, how long it took, entries, and
whether it is bound. A plain tuple, as two of three entries of many logs make one."""


class _Bare(NamedTuple):
    end: int
    took: int
    is_known: bool


class Pending:
    """What one session has parsed and bound. Methods return the time and the entries that belong to nothing
    any more."""

    __slots__ = ("_executed", "bare", "named_parts")

    def __init__(self) -> None:
        #: By the name of the statement, empty without one.
        self.named_parts: dict[str, _Parts] = {}
        #: Durations that name nothing.
        self.bare: list[_Bare] = []
        self._executed: set[str] = set()

    # --- with a text ----------------------------------------------------------------------------

    def add(self, kind: str, name: str, text: str, begin: int, took: int) -> Cost:
        """Adds a parse or a bind of a statement. Returns what it replaces."""
        named = self.named_parts
        parts = named.get(name)
        if parts is None:
            named[name] = hash(text), begin, took, 1, kind == "bind"
            return _cost(named.pop(next(iter(named)))) if len(named) > MOST_NAMES else NOTHING
        digest, since, before, entries, is_bound = parts
        if kind == "bind" and not is_bound and digest == hash(text):
            named[name] = digest, since, before + took, entries + 1, True
            return NOTHING
        named[name] = hash(text), begin, took, 1, kind == "bind"
        return _cost(parts)

    def take(self, name: str, text: str, begin: int) -> Cost:
        """Takes what belongs to an execution that begins at `begin`."""
        parts = self.named_parts.pop(name, None)
        if parts is None:
            return NOTHING
        digest, since, took, entries, _ = parts
        if digest != hash(text):
            self.named_parts[name] = parts
            return NOTHING
        return Cost(since if begin - since <= took + PAUSE else begin - took, took, entries)

    def named(self, text: str) -> str | None:
        """Returns the name under which a text is waited for, None where it is not."""
        wanted = hash(text)
        for name, parts in self.named_parts.items():
            if parts[0] == wanted:
                return name
        return None

    def drop_unnamed(self) -> Cost:
        """Drops the statement without a name, which a plain statement ends, and returns its cost."""
        parts = self.named_parts.pop("", None)
        return NOTHING if parts is None else _cost(parts)

    # --- bare durations -------------------------------------------------------------------------

    def add_bare(self, end: int, took: int, tag: str) -> tuple[int, int]:
        """Adds a duration that names nothing. tag: the command tag, where the log has it. Returns time and
        count of those that belong to no execution."""
        if tag and tag not in ("PARSE", "BIND"):
            time, count = self.drop_bare()
            return time + took, count + 1
        self.bare.append(_Bare(end, took, bool(tag)))
        if len(self.bare) > 2:
            oldest = self.bare.pop(0)
            return oldest.took, 1
        return 0, 0

    def take_bare(self, name: str, begin: int) -> Cost:
        """Takes the durations of the parse and the bind of an execution that begins at `begin`."""
        most = 2 if not name or name not in self._executed else 1
        since, took, count = begin, 0, 0
        while self.bare and count < most:
            last = self.bare[-1]
            if not last.is_known and since - last.end > AT_ONCE:
                break
            self.bare.pop()
            since, took, count = last.end - last.took, took + last.took, count + 1
        if not count:
            return NOTHING
        # It began with its parse, unless the client did something else in between.
        return Cost(since if begin - since <= took + PAUSE else begin - took, took, count)

    def drop_bare(self) -> tuple[int, int]:
        """Returns time and count of all bare durations; none of them waits any more."""
        if not self.bare:
            return 0, 0
        dropped = sum(bare.took for bare in self.bare), len(self.bare)
        self.bare.clear()
        return dropped

    def execute(self, name: str) -> None:
        """Notes that a named statement has been executed: it need not be parsed again."""
        if name and len(self._executed) < 10 * MOST_NAMES:
            self._executed.add(name)

    def drop(self) -> Cost:
        """Drops the statements that have a text and were not executed when the session ended, and returns
        their cost."""
        parts = list(self.named_parts.values())
        self.named_parts.clear()
        if not parts:
            return NOTHING
        return Cost(
            min(begin for _, begin, _, _, _ in parts),
            sum(took for _, _, took, _, _ in parts),
            sum(entries for _, _, _, entries, _ in parts),
        )


def _cost(parts: _Parts) -> Cost:
    return Cost(*parts[1:4])


__all__ = ["NOTHING", "Cost", "Pending"]

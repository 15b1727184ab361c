"""The balance of a log: each entry is replayed, left out with a reason, or damaged."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgstrata.traffic.captured import Balance, LeftOut

ROWS_OF_COPY = "COPY … FROM STDIN: its rows are not in a log"
NO_PARAMETERS = "statements without the values of their parameters"
PASSWORDS = "statements with a password, which no file should keep"
FASTPATH = "function calls of the fast path"
PREPARED_BEFORE = "EXECUTE of what was prepared before the log begins"
CANCELED = "statements that were canceled: a replay would wait for their whole answer"
PREPARED_BY_DRIVER = "DEALLOCATE of what a driver has prepared: a replay has other names for it"
NO_TEXT = "durations without a statement"
NO_STATEMENT = "errors without their statement"
UNEXECUTED = "parsed or bound, and not executed then"
LATER_PARTS = "later parts of portals that were opened before"
ENCODING = "settings of client_encoding: the file is in UTF-8, and replayed so"
DEFINITIONS = "statements that define or change tables, functions, roles and the like (DDL)"
MAINTENANCE = "VACUUM, ANALYZE, REINDEX and other maintenance"
OWN = "pgstrata's own questions"
MESSAGES = "messages that are no statements: notices, warnings, plans"
ENDED = "connections that the server refused or ended"
EMPTY_SESSIONS = "sessions without a statement that is kept"

CUT_VALUES = "parameters that end in three dots and may be cut (log_parameter_max_length)"

MARK = "/* pgstrata capture */"
"""In the questions that pgstrata asks a server for a synthetic file, which are in its log, too."""

NO_STATEMENTS = frozenset((MESSAGES, ENDED, EMPTY_SESSIONS))
"""Reasons of entries that tell of no statement."""

LONGEST_EXAMPLE = 300
"""Letters."""


@dataclass
class Account:
    """Counts where the entries of a log go. has_examples: False where texts could show values."""

    has_examples: bool = True
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    damaged: dict[str, LeftOut] = field(default_factory=dict)
    entries: int = 0
    server: int = 0
    replayed: int = 0

    def leave_out(self, why: str, seconds: float, example: str, entries: int, count: int = 1) -> None:
        """Counts entries that are understood and not in the file. example: may be shown."""
        _add(self.left_out, why, seconds, example, entries, count)

    def damage(self, why: str, seconds: float, example: str, entries: int, count: int = 1) -> None:
        """Counts entries whose text is not whole."""
        _add(self.damaged, why, seconds, example if self.has_examples else "", entries, count)

    def balance(self) -> Balance:
        """Returns the sums."""
        return Balance(
            self.entries,
            self.server,
            self.replayed,
            sum(part.entries for part in self.left_out.values()),
            sum(part.entries for part in self.damaged.values()),
        )


def _add(parts: dict[str, LeftOut], why: str, seconds: float, example: str, entries: int, count: int) -> None:
    part = parts.get(why)
    if part is None:
        part = parts[why] = LeftOut(why, example=example[:LONGEST_EXAMPLE])
    part.count += count
    part.seconds += seconds
    part.entries += entries


def largest_first(parts: dict[str, LeftOut]) -> list[LeftOut]:
    """Returns the parts by their time, then by their count."""
    return sorted(parts.values(), key=lambda part: (-part.seconds, -part.count))


__all__ = [
    "CANCELED",
    "CUT_VALUES",
    "DEFINITIONS",
    "EMPTY_SESSIONS",
    "ENCODING",
    "ENDED",
    "FASTPATH",
    "LATER_PARTS",
    "MAINTENANCE",
    "MARK",
    "MESSAGES",
    "NO_PARAMETERS",
    "NO_STATEMENT",
    "NO_STATEMENTS",
    "NO_TEXT",
    "OWN",
    "PASSWORDS",
    "PREPARED_BEFORE",
    "PREPARED_BY_DRIVER",
    "ROWS_OF_COPY",
    "UNEXECUTED",
    "Account",
    "largest_first",
]

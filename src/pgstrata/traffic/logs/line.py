"""One entry of a server's log, in whichever form it was written."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST = 64 << 20
"""Bytes of the longest entry that is read; a statement cannot be longer by much."""

CUT = "cut off: the end is missing"
BROKEN = "followed by a line without its tab: the text may be cut"
TRUNCATED = "cut by a log service"
TOO_LONG = "longer than 64 MiB"
UNFIT = "lines that begin like an entry and do not fit the log_line_prefix"
FRAGMENT = "lines that belong to no entry"
PART_LOST = "a part of it is missing, or not certain"
UNBOUNDED = "numbers that no server writes"

PART_MISSING = b"\0\n"
"""A line behind an entry of a text log that was put together from parts: not all of them are there. No server
writes a NUL."""


class LogEntry:
    """A message of the log with its details."""

    __slots__ = (
        "client",
        "context",
        "damage",
        "database",
        "detail",
        "failed",
        "lines",
        "message",
        "number",
        "query",
        "session",
        "severity",
        "sqlstate",
        "started",
        "tag",
        "time",
        "transaction",
    )

    def __init__(
        self,
        time: int,
        session: str,
        message: str,
        *,
        severity: str = "LOG",
        database: str = "",
        detail: str = "",
        context: str = "",
        query: str = "",
        sqlstate: str = "",
        failed: bool = False,
        started: int | None = None,
        client: bool = True,
        tag: str = "",
        number: int = 0,
        lines: int = 1,
        transaction: str = "",
        damage: str = "",
    ) -> None:
        #: Microseconds since 1970.
        self.time = time
        #: What tells sessions apart: a session id or the number of a process.
        self.session = session
        self.message = message
        #: As the log has it, in the server's language.
        self.severity = severity
        self.database, self.detail, self.context, self.query = database, detail, context, query
        self.sqlstate, self.failed = sqlstate, failed
        #: When the session began, as `time`; None where the log does not say.
        self.started = started
        #: False for messages that no client's session caused: checkpoints, workers.
        self.client = client
        #: Command tag of the process (`SELECT`, `PARSE`, `idle`), empty where the log does not have it.
        self.tag = tag
        #: Line number within the session and virtual transaction id, 0 and empty where the log has none.
        self.number, self.transaction = number, transaction
        #: Line numbers that the entry takes: a text log counts DETAIL and STATEMENT, too.
        self.lines = lines
        #: Why the entry is not whole, empty where it is.
        self.damage = damage


FAILURES = frozenset(("ERROR", "FATAL", "PANIC"))
_OTHERS = frozenset(
    ("LOG", "WARNING", "NOTICE", "INFO", "DEBUG", "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4", "DEBUG5")
)


def line_number(digits: str | bytes) -> int:
    """Returns a line number, 0 where it is none or longer than a server writes it."""
    return int(digits) if digits and len(digits) < 20 else 0


def is_failure(severity: str, sqlstate: str) -> bool:
    """Returns whether an entry says that a statement failed.

    A WARNING has the SQLSTATE of an error at times (25P01), so the code decides only where the severity is
    written in another language than English.
    """
    if severity in FAILURES:
        return True
    if severity in _OTHERS:
        return False
    return bool(sqlstate) and not sqlstate.startswith(("00", "01", "02"))


@dataclass
class Trouble:
    """What of the logs could not be read as entries."""

    #: Damaged entries that never reach the reader of sessions, by reason.
    lost: dict[str, int] = field(default_factory=dict)
    #: The beginning of the first damaged entry of each reason.
    examples: dict[str, str] = field(default_factory=dict)
    #: Entries that are not UTF-8.
    recoded: int = 0
    #: Prefixes of text logs that were recognized, in their order.
    prefixes: list[str] = field(default_factory=list)
    #: Lines of other programs in the same file, which are no entries of a server.
    others: int = 0

    def lose(self, why: str, text: bytes) -> None:
        """Counts a damaged entry whose content is entirely unknown."""
        self.lost[why] = self.lost.get(why, 0) + 1
        self.examples.setdefault(why, text[:200].decode("utf-8", "replace"))


@dataclass(frozen=True)
class Encoding:
    """The encoding of what is not UTF-8."""

    other: str = "latin-1"

    def decode(self, data: bytes, trouble: Trouble) -> str:
        """Returns the text, and counts it where it is not UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            trouble.recoded += 1
            return data.decode(self.other, "replace")


__all__ = [
    "BROKEN",
    "CUT",
    "FAILURES",
    "FRAGMENT",
    "LONGEST",
    "PART_LOST",
    "PART_MISSING",
    "TOO_LONG",
    "TRUNCATED",
    "UNBOUNDED",
    "UNFIT",
    "Encoding",
    "LogEntry",
    "Trouble",
    "is_failure",
    "line_number",
]

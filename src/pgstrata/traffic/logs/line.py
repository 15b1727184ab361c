"""One entry of a server's log, whatever it was written in."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST = 64 << 20
"""Bytes of one entry: a statement cannot be longer by much, and what has no end is not read to it."""


class LogEntry:
    """time: microseconds since 1970; session: what tells sessions apart; started: when it began, as `time`,
    None where the log does not say; own: False for what no client has asked (checkpoints, workers)."""

    __slots__ = (
        "context",
        "database",
        "detail",
        "failed",
        "message",
        "own",
        "query",
        "session",
        "sqlstate",
        "started",
        "time",
    )

    def __init__(
        self,
        time: int,
        session: str,
        message: str,
        *,
        database: str = "",
        detail: str = "",
        context: str = "",
        query: str = "",
        sqlstate: str = "",
        failed: bool = False,
        started: int | None = None,
        own: bool = True,
    ) -> None:
        self.time, self.session, self.message = time, session, message
        self.database, self.detail, self.context, self.query = database, detail, context, query
        self.sqlstate, self.failed, self.started, self.own = sqlstate, failed, started, own


FAILURES = frozenset(("ERROR", "FATAL", "PANIC"))


def is_failure(sqlstate: str) -> bool:
    """Whether a code is that of an error: severities are written in the server's language, codes are not."""
    return bool(sqlstate) and not sqlstate.startswith(("00", "01", "02"))


@dataclass
class Trouble:
    """What of the logs could not be read. cut: entries whose end is missing; strange: lines that are none;
    recoded: entries that are not UTF-8; example: the first strange one, its beginning."""

    cut: int = 0
    strange: int = 0
    recoded: int = 0
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, what: str, text: bytes) -> None:
        setattr(self, what, getattr(self, what) + 1)
        self.examples.setdefault(what, text[:200].decode("utf-8", "replace"))


@dataclass(frozen=True)
class Encoding:
    """How what is not UTF-8 is read."""

    other: str = "latin-1"

    def decode(self, data: bytes, trouble: Trouble) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            trouble.recoded += 1
            return data.decode(self.other, "replace")


__all__ = ["FAILURES", "LONGEST", "Encoding", "LogEntry", "Trouble", "is_failure"]

"""Signs in a log that it has only a part of the statements: the slow ones, or a sample."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgstrata import numbers
from pgstrata.numbers import counted
from pgstrata.traffic.logs.line import LogEntry

ENOUGH = 20
"""Statements from which on something can be said."""

FAST = 1_000
"""Microseconds: among many statements some are faster, if it were only BEGIN and COMMIT."""

SLOW = 50_000
"""Microseconds: among ENOUGH statements some are faster."""


_ENDS_TRANSACTION = re.compile(r"\s*(?:commit|end|rollback|abort|prepare\s+transaction)\b", re.IGNORECASE)


class SignsOfSession:
    """What was last seen of a session."""

    __slots__ = ("backend", "first", "last", "local", "next_line", "seen", "unnumbered")

    def __init__(self) -> None:
        self.next_line = 0
        self.backend = ""
        self.local = ""
        self.first = self.last = self.seen = self.unnumbered = 0


@dataclass
class Signs:
    """Counts what a log with all statements would not have, over all sessions."""

    #: Statements whose duration and text are in one entry, and the fastest in microseconds.
    timed: int = 0
    shortest: int = 1 << 62
    #: Executions, and those of them whose bind took no time that is logged.
    executions: int = 0
    unbound: int = 0
    #: Transactions that began, that began twice, and that ended without having begun.
    begun: int = 0
    begun_again: int = 0
    ended_alone: int = 0
    #: Lines of sessions that are not there, by the numbers of those that are.
    missing_lines: int = 0
    lines: int = 0
    #: Transactions of sessions by their virtual ids: all, and those with an entry.
    transactions: int = 0
    logged_transactions: int = 0

    def entry(self, session: SignsOfSession, entry: LogEntry) -> None:
        """Follows the numbers of a session."""
        number = entry.number
        if number:
            self.lines += 1
            expected = session.next_line
            if number > expected > 0:
                self.missing_lines += number - expected
            session.next_line = number + entry.lines
        text = entry.transaction
        if text and text != session.local:
            session.local = text
            backend, _, local = text.partition("/")
            if not local.isdigit() or len(local) > 10 or local == "0":
                return
            number = int(local)
            if backend != session.backend or number < session.last:
                self.session(session)
                session.backend, session.first = backend, number
            else:
                session.seen += min(session.unnumbered, max(0, number - session.last - 1))
            session.unnumbered = 0
            session.last = number
            session.seen += 1

    def statement_of(self, session: SignsOfSession, transaction: str, text: str) -> None:
        """Adds a statement of the simple protocol to its session.

        Outside a transaction block its duration is logged after the commit, with the number 0: it accounts
        for one of the numbers that no entry has.
        """
        if transaction.endswith("/0") and not _ENDS_TRANSACTION.match(text):
            session.unnumbered += 1

    def session(self, session: SignsOfSession) -> None:
        """Adds the transactions of a session that ends."""
        if session.seen:
            self.transactions += session.last - session.first + 1
            self.logged_transactions += session.seen
            session.seen = session.unnumbered = 0

    def statement(self, took: int) -> None:
        """Adds a statement whose duration is logged with its text."""
        self.timed += 1
        if took < self.shortest:
            self.shortest = took

    def execution(self, took: int, *, is_bound: bool) -> None:
        """Adds an execution whose duration is logged with its text."""
        self.statement(took)
        self.executions += 1
        self.unbound += not is_bound

    def begin(self, *, is_again: bool) -> None:
        """Adds a transaction that begins."""
        self.begun += 1
        self.begun_again += is_again

    def end_alone(self) -> None:
        """Adds the end of a transaction whose beginning is not in the log."""
        self.ended_alone += 1

    def notes(self) -> list[str]:
        """Returns what the signs say, in sentences."""
        notes: list[str] = []
        unpaired = self.begun_again + self.ended_alone
        is_slow = self._is_slow()
        skips = self.transactions >= ENOUGH and self.logged_transactions < 0.6 * self.transactions
        halves = unpaired >= 3 and unpaired > 0.1 * (self.begun + self.ended_alone)
        if is_slow:
            notes.append(
                f"the log holds only slow statements: none of {self.timed:,} took less than "
                f"{numbers.significant(self.shortest / 1000)} ms (log_min_duration_statement above 0); "
                "shares of the time and the load of a replay are those of the slow statements alone"
            )
        elif skips or halves or self._is_unbound():
            why = []
            if halves:
                why.append(f"{counted(unpaired, 'transaction')} without beginning or end")
            if self._is_unbound():
                why.append(f"{self.unbound:,} of {counted(self.executions, 'execution')} without their bind")
            if skips:
                why.append(
                    f"{self.transactions - self.logged_transactions:,} of "
                    f"{counted(self.transactions, 'transaction')} without an entry"
                )
            notes.append(
                "the log holds only a part of the statements, a sample or those above a threshold: "
                f"{', '.join(why)} (log_statement_sample_rate, log_transaction_sample_rate, "
                "log_min_duration_sample, log_min_duration_statement); a replay is as incomplete as the log"
            )
        if self.missing_lines and self.missing_lines > 0.001 * self.lines:
            notes.append(
                f"missing by their numbers: {counted(self.missing_lines, 'line')} of sessions; the log "
                "was filtered, or a part of it is not here"
            )
        return notes

    def _is_unbound(self) -> bool:
        return self.executions >= ENOUGH and self.unbound > 0.2 * self.executions

    def _is_slow(self) -> bool:
        if self.timed < ENOUGH:
            return self.timed >= 5 and self.executions == self.unbound > 0 and self.shortest >= FAST
        if self.executions and self.unbound < 0.5 * self.executions:
            return False  # parses and binds are there, which take microseconds
        return self.shortest >= (FAST if self.timed >= 5 * ENOUGH else SLOW)


__all__ = ["Signs", "SignsOfSession"]

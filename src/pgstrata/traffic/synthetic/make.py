"""A captured file of statistics: each statement as often as its share of the calls says, its parameters
drawn, in sessions at the pace of the original."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from pgstrata import numbers
from pgstrata.errors import UsageError
from pgstrata.numbers import counted
from pgstrata.traffic.captured import PREPARED, STATISTICS, Header, LeftOut, Writer
from pgstrata.traffic.captured import Statement as CapturedStatement
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.shapes import shape
from pgstrata.traffic.synthetic.inner import with_fetches
from pgstrata.traffic.synthetic.names import Tables
from pgstrata.traffic.synthetic.origins import Hide, Origin, Value
from pgstrata.traffic.synthetic.parameters import KnownValues, origins
from pgstrata.traffic.synthetic.questions import Questions
from pgstrata.traffic.synthetic.rows import RowsOf
from pgstrata.traffic.synthetic.statistics import CalledStatement, Statistics
from pgstrata.traffic.synthetic.transactions import Transactions, Wrapping, apart
from pgstrata.traffic.synthetic.understand import understand
from pgstrata.traffic.synthetic.use import NotUnderstoodError, Understood

CALLS = 100_000
"""In a file, where nobody says how many."""

SESSIONS = 8
"""Where nothing says how many statements were executed at the same time."""

MOST_SESSIONS = 1000

SPARE = 4
"""Sessions for each statement that was executed at a time, on the average: a client thinks between two."""


class Typed(NamedTuple):
    """A statement as a server prepares it, and the types of its parameters."""

    text: str
    types: Sequence[str]


TypesOf = Callable[[str], Typed]
"""Asks a server for the types of a statement's parameters; raises NotUnderstoodError where it refuses."""


@dataclass(frozen=True)
class Share:
    """A statement of the file. number: of its calls there."""

    called: CalledStatement
    understood: Understood
    origins: Sequence[Origin]
    number: int = 0

    @property
    def guesses(self) -> bool:
        return any(origin.guessed for origin in self.origins)

    def parameters(self, dice: Random, hide: Hide) -> tuple[Value, ...]:
        """Draws the parameters of one call."""
        drawn: dict[int, Value] = {}
        for origin in self.origins:
            drawn.update(zip(origin.numbers, origin.draw(dice, hide), strict=True))
        return tuple(drawn[number] for number in sorted(drawn))

    def sources(self) -> list[str]:
        """Returns the origin of each parameter's values, in words."""
        words = {number: origin.words for origin in self.origins for number in origin.numbers}
        return [f"${number} {words[number]}" for number in sorted(words)]


@dataclass
class _Found:
    """What came of the statements of a server."""

    shares: list[Share] = field(default_factory=list)
    transactions: Transactions | None = None
    left_out: dict[tuple[str, str], LeftOut] = field(default_factory=dict)

    def leave_out(self, called: CalledStatement, why: str, *, apart: bool) -> None:
        """Counts a statement that is left out. apart: by itself, not with all others that have the same
        reason."""
        key = why, called.text if apart else ""
        # Utility statements have their constants, passwords among them.
        left_out = self.left_out.setdefault(key, LeftOut(why, example=shape(called.text).text))
        left_out.count += called.calls
        left_out.seconds += called.seconds


def synthetic(
    statistics: Statistics,
    to: Path,
    *,
    calls: int = CALLS,
    sessions: int | None = None,
    mask: Mask | None = None,
    reads_only: bool = False,
    seed: int = 1,
    types_of: TypesOf | None = None,
    rows_of: RowsOf | None = None,
    questions: Questions | None = None,
) -> Header:
    """Writes the captured file `to` of what a server knows, and returns its header.

    calls: in the file, fewer where the original had fewer. sessions: None: as many as the original's time
    lets one think. mask: makes other values of those that are drawn. reads_only: statements that change
    nothing. types_of: asks a server; rows_of: samples rows of its tables; questions: asks it for keys of
    documents, expressions and sequences.

    Raises UsageError where no statement can be understood.
    """
    hide: Hide = mask or str
    # The keys of documents may be values, as those of a map are.
    asked = questions if mask is None else None
    outcome = _understood(
        statistics, types_of, rows_of, asked, masked=mask is not None, reads_only=reads_only
    )
    if not outcome.shares:
        raise _nothing(outcome)
    shares = shared_out(outcome.shares, calls)
    whole = sum(share.number for share in shares)
    wrapping = _wrapping(outcome, shares)
    count, rate, paced = _pace(statistics, shares, sessions)
    dice = Random(seed)
    with Writer(to) as writer:
        begin = int(datetime.now(UTC).timestamp() * 1e6)
        database = writer.database(statistics.database)
        open_ = [writer.begin(begin, database) for _ in range(min(count, whole))]
        shapes = [_shape_number(writer, share) for share in shares]
        for place, number in enumerate(spread_out([share.number for share in shares], seed)):
            share = shares[number]
            start, session = begin + round(place / rate * 1e6), open_[place % len(open_)]
            statement = CapturedStatement(
                start,
                round(share.called.seconds / share.called.calls * 1e6),
                PREPARED,
                shapes[number],
                share.understood.text,
                share.parameters(dice, hide),
            )
            if outcome.transactions is None or not wrapping.wraps(reads=share.understood.reads):
                writer.add(session, statement, common=True)
                continue
            writer.add(session, _control(writer, outcome.transactions.begin, start), common=True)
            writer.add(session, statement, common=True)
            writer.add(session, _control(writer, outcome.transactions.commit, start), common=True)
        for session in open_:
            writer.end(session, begin + round(whole / rate * 1e6))
        header = Header(
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            source=STATISTICS,
            files=[f"database {statistics.database}"],
            masked=mask is not None,
            left_out=sorted(
                outcome.left_out.values(), key=lambda left_out: (-left_out.seconds, -left_out.count)
            ),
        )
        header.notes = _notes(statistics, shares, header.left_out, paced=paced)
        return writer.finish(header)


def _understood(
    statistics: Statistics,
    types_of: TypesOf | None,
    rows_of: RowsOf | None,
    questions: Questions | None,
    *,
    masked: bool,
    reads_only: bool,
) -> _Found:
    outcome = _Found()
    known_tables, known = Tables(statistics.columns), KnownValues()
    statements: Iterable[CalledStatement] = _together(statistics.statements)
    if not reads_only:
        statements, outcome.transactions = apart(statements)
    for called in with_fetches(statements):
        if not called.here:
            outcome.leave_out(called, "in another database, of which nothing else is known", apart=False)
        elif not called.text:
            outcome.leave_out(called, "statements of other users, whose texts are hidden", apart=False)
        elif called.nested:
            outcome.leave_out(called, "executed by functions, which are asked again themselves", apart=False)
        elif called.is_own:
            outcome.leave_out(called, "questions to pg_stat_statements, and pgstrata's own", apart=False)
        else:
            try:
                understood = understand(called.text, known_tables, masked=masked)
                if reads_only and not understood.reads:
                    outcome.leave_out(called, "it changes data, or may", apart=True)
                    continue
                types = None
                if types_of is not None:
                    typed = types_of(understood.text)
                    understood, types = replace(understood, text=typed.text), typed.types
                parameter_origins = origins(
                    understood, called, known, types, rows_of, questions, known_tables
                )
                outcome.shares.append(Share(called, understood, parameter_origins))
            except NotUnderstoodError as error:
                outcome.leave_out(called, str(error), apart=not str(error).startswith("utility"))
    return outcome


def _wrapping(outcome: _Found, shares: Sequence[Share]) -> Wrapping:
    """Decides which calls are transactions with BEGIN and COMMIT; those that find no call are left out."""
    reading = sum(statement_share.number for statement_share in shares if statement_share.understood.reads)
    in_file = sum(statement_share.number for statement_share in shares)
    if outcome.transactions is None:
        return Wrapping(0, writing=in_file - reading, reading=reading)
    share = in_file / sum(statement_share.called.calls for statement_share in shares)
    number = outcome.transactions.number_in(share, in_file)
    for called in outcome.transactions.left_out(min(outcome.transactions.calls, round(number / share))):
        outcome.leave_out(called, "transactions beyond the calls that are there", apart=True)
    return Wrapping(number, writing=in_file - reading, reading=reading)


def _control(writer: Writer, called: CalledStatement, start: int) -> CapturedStatement:
    """Returns a statement that begins or ends a transaction."""
    number = writer.shape(shape(called.text).text)
    writer.shapes[number].reads = True
    duration = round(called.seconds / called.calls * 1e6)
    return CapturedStatement(start, duration, PREPARED, number, called.text)


def _together(statements: Sequence[CalledStatement]) -> Iterator[CalledStatement]:
    """Merges the same statements of several users and yields each once."""
    by_key: dict[tuple[str, bool, bool], CalledStatement] = {}
    for statement in statements:
        key = statement.text, statement.nested, statement.here
        before = by_key.get(key)
        by_key[key] = (
            statement
            if before is None
            else replace(
                before,
                calls=before.calls + statement.calls,
                seconds=before.seconds + statement.seconds,
                rows=before.rows + statement.rows,
            )
        )
    return (statement for statement in by_key.values() if statement.calls > 0)


def _nothing(outcome: _Found) -> UsageError:
    first = max(outcome.left_out.values(), key=lambda left_out: left_out.seconds, default=None)
    if first is None:
        return UsageError("pg_stat_statements has counted no call", "let the application work for a while")
    return UsageError(
        f"of {counted(len(outcome.left_out), 'kind')} of statements none can be asked again; most of their "
        f"time took: {first.why}",
        "where texts are hidden, GRANT pg_read_all_stats TO the user that asks",
    )


# --- shares and pace --------------------------------------------------------------------------


def shared_out(shares: Sequence[Share], calls: int) -> list[Share]:
    """Returns the shares with `calls` calls spread as the original's were, by largest remainders; each
    statement has one at least. If the original had no more, they are the original's own."""
    whole = sum(share.called.calls for share in shares)
    if whole <= calls:
        return [replace(share, number=share.called.calls) for share in shares]
    exact = [share.called.calls * calls / whole for share in shares]
    given = [math.floor(exact_calls) for exact_calls in exact]
    order = sorted(range(len(shares)), key=lambda n: given[n] - exact[n])
    for number in order[: calls - sum(given)]:
        given[number] += 1
    return [replace(share, number=max(1, number)) for share, number in zip(shares, given, strict=True)]


def spread_out(counts: Sequence[int], seed: int) -> Iterator[int]:
    """Yields the numbers of statements in an order in which each comes at even distances, so that any part of
    it has the shares of the whole."""
    dice = np.random.default_rng(seed)
    places = np.concatenate([(np.arange(count) + dice.random(count)) / count for count in counts])
    statement = np.repeat(np.arange(len(counts)), counts)
    return map(int, statement[np.argsort(places, kind="stable")])


def _pace(statistics: Statistics, shares: Sequence[Share], sessions: int | None) -> tuple[int, float, bool]:
    """Returns the sessions, the statements each second, and whether both are what the original's statistics
    say."""
    calls = sum(share.called.calls for share in shares)
    seconds = sum(share.called.seconds for share in shares)
    if statistics.seconds:
        busy = seconds / statistics.seconds
        count = sessions or max(1, min(MOST_SESSIONS, math.ceil(SPARE * busy)))
        return count, calls / statistics.seconds, True
    count = sessions or SESSIONS
    # Nothing says over which time: sessions that work a quarter of it.
    return count, max(0.001, count / SPARE / max(1e-6, seconds / calls)), False


# --- what is told -------------------------------------------------------------------------------


def _shape_number(writer: Writer, share: Share) -> int:
    # The original's: what is sent may have casts that it had as constants.
    text = shape(share.called.text).text
    new = not writer.has_shape(text)
    number = writer.shape(text)
    kept = writer.shapes[number]
    kept.reads = share.understood.reads and (new or kept.reads)
    kept.parameters = kept.parameters or share.sources()
    kept.rows = max(kept.rows or 0.0, share.called.rows / share.called.calls)
    return number


def _notes(
    statistics: Statistics, shares: Sequence[Share], left_out: Sequence[LeftOut], *, paced: bool
) -> list[str]:
    """Returns notes that a user who replays the file has to know."""
    notes = ["each statement is a transaction of its own: which stood together is counted nowhere"]
    whole = sum(statement_share.called.seconds for statement_share in shares) + sum(
        omitted.seconds for omitted in left_out
    )

    def share(seconds: float) -> str:
        return numbers.share_of_time(seconds / whole if whole else 0.0)

    guessed = [statement_share for statement_share in shares if statement_share.guesses]
    if guessed:
        seconds = sum(statement_share.called.seconds for statement_share in guessed)
        notes.append(
            f"values of {counted(len(guessed), 'statement')} ({share(seconds)} % of the time) are guessed in "
            "part: "
            "`pgstrata capture FILE --format json` says which (`parameters`)"
        )
    calls = sum(statement_share.called.calls for statement_share in shares)
    in_file = sum(statement_share.number for statement_share in shares)
    rare = [
        statement_share
        for statement_share in shares
        if statement_share.number == 1 and statement_share.called.calls * in_file < calls
    ]
    if rare:
        seconds = sum(statement_share.called.seconds for statement_share in rare)
        notes.append(
            f"rarer than one call in {in_file:,}, and asked once: {counted(len(rare), 'statement')} "
            f"({share(seconds)} % of the time), whose share will be larger (--calls)"
        )
    if not paced:
        notes.append(
            "nothing says over which time the statements were counted (from PostgreSQL 14 on it does): the "
            f"pace is that of sessions that work 1/{SPARE} of their time"
        )
    if statistics.users > 1:
        notes.append(f"one user asks the statements of {counted(statistics.users, 'user')}")
    notes += _tables_without(statistics)
    return notes


def _tables_without(statistics: Statistics) -> Iterator[str]:
    """Yields sentences on tables that ANALYZE has not seen, or whose statistics may not be read."""
    tables: Mapping[str, list[str]] = {"unseen": [], "hidden": []}
    by_table: dict[tuple[str, str], tuple[bool, bool, float]] = {}
    for column in statistics.columns:
        key = column.schema, column.table
        analyzed, readable, _ = by_table.get(key, (False, True, 0.0))
        by_table[key] = analyzed or column.analyzed, readable and column.readable, column.rows
    for (schema, table), (analyzed, readable, rows) in by_table.items():
        if not analyzed and rows > 0 and schema != "pg_catalog":
            tables["unseen" if readable else "hidden"].append(table)
    if tables["unseen"]:
        yield f"ANALYZE has not seen {_names(tables['unseen'])}: their values are made up by type"
    if tables["hidden"]:
        yield (
            f"the statistics of {_names(tables['hidden'])} may not be read, and their values are made up by "
            "type (GRANT pg_read_all_data)"
        )


def _names(tables: Sequence[str]) -> str:
    return ", ".join(tables[:5]) + (f" and {len(tables) - 5:,} more tables" if len(tables) > 5 else "")


__all__ = ["CALLS", "Share", "TypesOf", "shared_out", "spread_out", "synthetic"]

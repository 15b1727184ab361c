"""BEGIN and COMMIT of a synthetic file.

Which statements stood together in a transaction is counted nowhere. As many calls as there were transactions
have one of their own, changes before what reads only: transactions of several could lock each other out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pgstrata.traffic.synthetic.statistics import CalledStatement

_BEGIN = re.compile(r"(?:begin|start\s+transaction)\b", re.IGNORECASE)
_COMMIT = re.compile(r"(?:commit|end)\b(?!\s+prepared)", re.IGNORECASE)


@dataclass(frozen=True)
class Transactions:
    """How they begin and end, each by its most frequent text, with the calls and the time of all."""

    begin: CalledStatement
    commit: CalledStatement

    @property
    def calls(self) -> int:
        """Of both, as far as each has its counterpart."""
        return min(self.begin.calls, self.commit.calls)

    def number_in(self, share: float, calls: int) -> int:
        """Returns how many a file has. share: of the original's calls that are in it; calls: in the file."""
        return min(round(self.calls * share), calls)

    def left_out(self, kept: int) -> list[CalledStatement]:
        """Returns what is not in a file. kept: of the original's transactions those that are."""
        return [
            replace(
                statement,
                calls=statement.calls - kept,
                seconds=statement.seconds * (1 - kept / statement.calls),
            )
            for statement in (self.begin, self.commit)
            if statement.calls > kept
        ]


def apart(statements: Iterable[CalledStatement]) -> tuple[list[CalledStatement], Transactions | None]:
    """Returns the statements without those that begin and end transactions, and these; None where one of both
    is missing."""
    begins: list[CalledStatement] = []
    commits: list[CalledStatement] = []
    others: list[CalledStatement] = []
    for fields in statements:
        plain = fields.here and not fields.nested
        to = begins if plain and _BEGIN.match(fields.text) else others
        (commits if plain and _COMMIT.match(fields.text) else to).append(fields)
    if not begins or not commits:
        return [*others, *begins, *commits], None
    return others, Transactions(_together(begins), _together(commits))


def _together(statements: Sequence[CalledStatement]) -> CalledStatement:
    most = max(statements, key=lambda statement: statement.calls)
    calls, seconds = (
        sum(statement.calls for statement in statements),
        sum(statement.seconds for statement in statements),
    )
    return replace(most, calls=calls, seconds=seconds)


class Wrapping:
    """Decides which calls have a transaction of their own, evenly spread. number: of them; writing, reading:
    calls in the file that change something, and that do not."""

    def __init__(self, number: int, *, writing: int, reading: int) -> None:
        of_writing = min(number, writing)
        self._shares = {
            False: of_writing / writing if writing else 0.0,
            True: (number - of_writing) / reading if reading else 0.0,
        }
        self._sums = {False: 0.0, True: 0.0}

    def wraps(self, *, reads: bool) -> bool:
        """Decides whether the next call has a transaction. reads: it changes nothing."""
        before = round(self._sums[reads])
        self._sums[reads] += self._shares[reads]
        return round(self._sums[reads]) > before


__all__ = ["Transactions", "Wrapping", "apart"]

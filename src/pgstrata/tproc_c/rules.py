"""Numbers of the TPC-C specification (revision 5.11): sizes, mix, constants of random numbers, times.

Clauses are named where a number is used, so that each can be looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Transaction = Literal["new-order", "payment", "order-status", "delivery", "stock-level"]

WEIGHTS: Mapping[Transaction, int] = {
    "new-order": 10,
    "payment": 10,
    "order-status": 1,
    "delivery": 1,
    "stock-level": 1,
}
"""Transactions of 23: the deck of clause 5.2.4.2, which is HammerDB's mix, too. Each has more than the least
share that clause 5.2.3 asks for."""

DISTRICTS = 10
"""Of a warehouse (4.3.3.1)."""

FEWEST_LINES, MOST_LINES = 5, 15
"""Lines of an order (2.4.1.3)."""

LOAD_QUANTITY = 5
"""Pieces of each line of a loaded order (4.3.3.1)."""

MOST_QUANTITY = 10
"""Pieces of a line of a new order, from 1 (2.4.1.5)."""

FIRST_PAYMENT_CENTS = 1_000
"""Amount of the one payment that each customer has made before (4.3.3.1)."""

SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
"""Of last names, one for each digit of a number from 0 to 999 (4.3.2.3)."""

ROLLBACK_PERCENT = 1
"""New orders that name an unused item and are rolled back (2.4.1.4)."""

REMOTE_LINE_PERCENT = 1
"""Order lines that another warehouse supplies (2.4.1.5)."""

REMOTE_PAYMENT_PERCENT = 15
"""Payments by a customer of another warehouse (2.5.1.2)."""

BY_NAME_PERCENT = 60
"""Payments and order statuses that look a customer up by last name (2.5.1.2, 2.6.1.2)."""


@dataclass(frozen=True)
class NonUniform:
    """A non-uniform random integer of clause 2.1.6: NURand(a, low, high) with a constant."""

    a: int
    constant: int

    def of(self, draw_a: int, draw: int, low: int, high: int) -> int:
        """Returns the number of two uniform draws, from 0 to `a` and from `low` to `high`."""
        return ((draw_a | draw) + self.constant) % (high - low + 1) + low

    def expression(self, low: int, high: int) -> str:
        """Returns the same as an expression of pgbench's language."""
        drawn = f"(random(0, {self.a}) | random({low}, {high}))"
        return f"(({drawn} + {self.constant}) % {high - low + 1} + {low})"


NAME_LOADED = NonUniform(255, 173)
"""Numbers of last names while customers are loaded."""

NAME_ASKED = NonUniform(255, 67)
"""The same while the transactions run. Clause 2.1.6.1 bounds how far the two constants lie apart."""

CUSTOMER = NonUniform(1023, 319)
ITEM = NonUniform(8191, 5417)


@dataclass(frozen=True)
class Sizes:
    """Rows of the tables; customers, orders and new orders are those of one district."""

    items: int
    customers: int
    undelivered: int

    @property
    def delivered(self) -> int:
        """Loaded orders that have been delivered, the first ones; there is an order for each customer."""
        return self.customers - self.undelivered

    @property
    def last_names(self) -> int:
        """Last names in use: each customer up to this number has another."""
        return min(1000, self.customers)


Size = Literal["specification", "tiny"]

SIZES: Mapping[Size, Sizes] = {
    "specification": Sizes(items=100_000, customers=3_000, undelivered=900),
    "tiny": Sizes(items=1_000, customers=100, undelivered=30),
}
"""`tiny` is none of the specification's: for tests, and for counting instructions."""

KEYING_SECONDS: Mapping[Transaction, int] = {
    "new-order": 18,
    "payment": 3,
    "order-status": 2,
    "delivery": 2,
    "stock-level": 2,
}
"""Time in which a user types (5.2.5.2)."""

THINKING_SECONDS: Mapping[Transaction, int] = {
    "new-order": 12,
    "payment": 12,
    "order-status": 10,
    "delivery": 5,
    "stock-level": 5,
}
"""Mean of the time in which a user reads the answer, drawn from an exponential distribution and cut at ten
times the mean (5.2.5.4)."""


def last_name(number: int) -> str:
    """Returns the last name of a number from 0 to 999."""
    return SYLLABLES[number // 100] + SYLLABLES[number // 10 % 10] + SYLLABLES[number % 10]


__all__ = [
    "BY_NAME_PERCENT",
    "CUSTOMER",
    "DISTRICTS",
    "FEWEST_LINES",
    "FIRST_PAYMENT_CENTS",
    "ITEM",
    "KEYING_SECONDS",
    "LOAD_QUANTITY",
    "MOST_LINES",
    "MOST_QUANTITY",
    "NAME_ASKED",
    "NAME_LOADED",
    "REMOTE_LINE_PERCENT",
    "REMOTE_PAYMENT_PERCENT",
    "ROLLBACK_PERCENT",
    "SIZES",
    "SYLLABLES",
    "THINKING_SECONDS",
    "WEIGHTS",
    "NonUniform",
    "Size",
    "Sizes",
    "Transaction",
    "last_name",
]

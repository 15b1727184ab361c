"""The rows of the refresh functions: new orders for RF1, and the keys of the old ones that RF2 deletes.

Sources: TPC-H specification, clauses 2.5 to 2.7 (refresh functions) and 4.2.3 (columns); dbgen's mk_sparse
and pr_drange (which keys are free, which orders go), its rounding of prices, and its formula for the
suppliers of a part. Comments are those of the generator's first rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

KEYS: Mapping[str, str] = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
"""The tables that change, each with its column of the order's key."""

EDITION = "-refresh1"
"""Of these rows: another one has a folder of its own."""

NEW_ORDERS = 1500
"""For each scale factor, a thousandth of all."""

FIRST, CURRENT = date(1992, 1, 1), date(1995, 6, 17)
ORDER_DAYS = (date(1998, 12, 31) - timedelta(days=151) - FIRST).days
"""Orders are placed within so many days from the first."""

PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")

_COMMENTS = 10_000
"""Rows of each table whose comments are used."""


def new_orders(scale: float) -> int:
    """Returns how many orders a refresh inserts, and deletes."""
    return max(1, round(NEW_ORDERS * scale))


def order_key(index: int, eighth: int = 0) -> int:
    """Returns the key of an order by its index from 1: of 32 keys the generator uses the first eight.

    eighth: which eight of them instead; those of 1 are for new orders.
    """
    return index // 8 * 32 + eighth * 8 + index % 8


def deleted_keys(scale: float) -> list[int]:
    """Returns the keys of the orders that RF2 deletes: the first ones."""
    return [order_key(index) for index in range(1, new_orders(scale) + 1)]


def retail_price(part: int) -> int:
    """Returns the price of a part in cents."""
    return 90_000 + part // 10 % 20_001 + part % 1000 * 100


def supplier_of(part: int, which: int, suppliers: int) -> int:
    """Returns one of the four suppliers of a part; which: from 0 to 3."""
    return (part + which * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1


@dataclass(frozen=True)
class LineItem:
    """A position of an order. price: of all, in cents; discount, tax: percent."""

    part: int
    supplier: int
    quantity: int
    discount: int
    tax: int
    shipped: date
    committed: date
    received: date
    return_flag: str
    instruction: str
    mode: str
    comment: str

    @property
    def price(self) -> int:
        """Cents of all pieces, before discount and tax."""
        return self.quantity * retail_price(self.part)

    @property
    def charge(self) -> int:
        """Cents with discount and tax, rounded down twice."""
        return self.price * (100 - self.discount) // 100 * (100 + self.tax) // 100

    @property
    def status(self) -> str:
        """`O` for what is not shipped yet, else `F`."""
        return "O" if self.shipped > CURRENT else "F"

    def columns(self, order: int, number: int) -> list[str]:
        """Returns the columns of a line item as they stand in the table; number: of the position, from 1."""
        dates = (self.shipped, self.committed, self.received)
        return [
            *map(str, (order, self.part, self.supplier, number, self.quantity)),
            *map(decimal, (self.price, self.discount, self.tax)),
            *(self.return_flag, self.status, *map(date.isoformat, dates)),
            *(self.instruction, self.mode, self.comment),
        ]


@dataclass(frozen=True)
class Order:
    """A new order with its positions."""

    key: int
    customer: int
    placed: date
    priority: str
    clerk: int
    comment: str
    lines: Sequence[LineItem]

    @property
    def status(self) -> str:
        """That of all positions, or `P`."""
        statuses = {line.status for line in self.lines}
        return statuses.pop() if len(statuses) == 1 else "P"

    def columns(self) -> list[str]:
        """Returns the columns of an order as they stand in the table."""
        total = sum(line.charge for line in self.lines)
        return [
            *(str(self.key), str(self.customer), self.status, decimal(total), self.placed.isoformat()),
            *(self.priority, f"Clerk#{self.clerk:09d}", "0", self.comment),
        ]


def decimal(hundredths: int) -> str:
    """Returns a number of hundredths with its two digits."""
    return f"{hundredths // 100}.{hundredths % 100:02d}"


@dataclass(frozen=True)
class Population:
    """What new orders refer to: how many there are of each, and comments."""

    customers: int
    parts: int
    suppliers: int
    clerks: int
    order_comments: Sequence[str]
    line_comments: Sequence[str]


def orders(scale: float, population: Population) -> Iterator[Order]:
    """Yields the new orders of a scale factor, the same ones each time."""
    dice = random.Random(f"tpch refresh/{scale:g}")
    for index in range(1, new_orders(scale) + 1):
        yield _order(dice, order_key(index, 1), population)


def _order(dice: random.Random, key: int, population: Population) -> Order:
    customer = dice.randint(1, population.customers)
    while customer % 3 == 0:  # a third of the customers orders nothing
        customer = dice.randint(1, population.customers)
    placed = FIRST + timedelta(days=dice.randint(0, ORDER_DAYS))
    return Order(
        key=key,
        customer=customer,
        placed=placed,
        priority=dice.choice(PRIORITIES),
        clerk=dice.randint(1, population.clerks),
        comment=dice.choice(population.order_comments),
        lines=[_line(dice, placed, population) for _ in range(dice.randint(1, 7))],
    )


def _line(dice: random.Random, placed: date, population: Population) -> LineItem:
    part = dice.randint(1, population.parts)
    shipped = placed + timedelta(days=dice.randint(1, 121))
    received = shipped + timedelta(days=dice.randint(1, 30))
    return LineItem(
        part=part,
        supplier=supplier_of(part, dice.randint(0, 3), population.suppliers),
        quantity=dice.randint(1, 50),
        discount=dice.randint(0, 10),
        tax=dice.randint(0, 8),
        shipped=shipped,
        committed=placed + timedelta(days=dice.randint(30, 90)),
        received=received,
        return_flag=dice.choice("RA") if received <= CURRENT else "N",
        instruction=dice.choice(INSTRUCTIONS),
        mode=dice.choice(MODES),
        comment=dice.choice(population.line_comments),
    )


def population_of(folder: Path, about: Mapping[str, Any]) -> Population:
    """Returns the population of the generator's rows in a folder. Raises OSError."""
    rows = {table: int(facts["rows"]) for table, facts in about["tables"].items()}
    return Population(
        rows["customer"],
        rows["part"],
        rows["supplier"],
        max(1000, round(1000 * about["scale"])),
        _comments(folder / "orders.dat"),
        _comments(folder / "lineitem.dat"),
    )


def _comments(file: Path) -> list[str]:
    with file.open(encoding="ascii") as lines:
        return [line.rstrip("\n").rpartition("|")[2] for line in islice(lines, _COMMENTS)]


def file_stem(table: str) -> str:
    """Returns the stem of the file with the new rows of a table, which is also the name of the table that
    holds them for RF1."""
    return f"refresh_{table}"


def write(folder: Path, about: Mapping[str, Any], check: Callable[[], None]) -> Mapping[str, Any]:
    """Writes the new rows into files beside the generator's. Raises OSError."""
    population = population_of(folder, about)
    counts = dict.fromkeys(KEYS, 0)
    names = [folder / f"{file_stem(table)}.dat" for table in KEYS]
    with names[0].open("w", encoding="ascii") as heads, names[1].open("w", encoding="ascii") as lines:
        for order in orders(about["scale"], population):
            check()
            heads.write("|".join(order.columns()) + "\n")
            for number, line in enumerate(order.lines, 1):
                lines.write("|".join(line.columns(order.key, number)) + "\n")
            counts["orders"] += 1
            counts["lineitem"] += len(order.lines)
    return {"refresh": counts}


__all__ = ["EDITION", "KEYS", "deleted_keys", "file_stem", "new_orders", "order_key", "orders", "write"]

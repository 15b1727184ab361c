"""Rows of the tables drawn from a seed by the rules of clause 4.3.3: a folder of files for each warehouse.

They are kept in the cache and read by COPY. A warehouse has a random stream of its own, so runs with other
numbers of warehouses share it. The stream is that of numpy's RandomState, which is frozen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pgstrata.files import digests
from pgstrata.server.find.cache import cache_folder, keeping, use
from pgstrata.tproc_c.rules import (
    DISTRICTS,
    FEWEST_LINES,
    FIRST_PAYMENT_CENTS,
    LOAD_QUANTITY,
    MOST_LINES,
    NAME_LOADED,
    Sizes,
    last_name,
)
from pgstrata.tproc_c.text import (
    Column,
    Numbers,
    constant,
    decimals,
    digits,
    integers,
    letters,
    one_of,
    rows_text,
    with_word,
)

FOLDER = "tproc-c"
"""Of the cache."""

FORMAT = 1
"""Another one for data that is made in another way."""

LOADED_AT = "2026-01-01 00:00:00+00"
"""Date of everything that is loaded; the specification has the time of the load, which no two runs share."""

ORIGINAL_SHARE = 0.1
"""Items and stocks whose data have the word ORIGINAL in them."""

BAD_CREDIT_SHARE = 0.1

_CAPITALS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NAMES = [last_name(number) for number in range(1000)]


@dataclass(frozen=True)
class Rows:
    """The rows of one seed and size, and where they lie."""

    seed: int
    sizes: Sizes

    def folder(self, warehouse: int) -> Path:
        """Returns where the rows of a warehouse lie, or will lie; those of the items are warehouse 0's."""
        made_of = json.dumps([FORMAT, asdict(self)], sort_keys=True)
        return cache_folder(FOLDER) / f"{digests.of(made_of)[:24]}-w{warehouse}"

    def file(self, table: str, warehouse: int) -> Path:
        """Returns the file of COPY of one table."""
        return self.folder(warehouse) / f"{table}.copy"

    @property
    def warehouse_bytes(self) -> int:
        """About the size of the rows of one warehouse as text."""
        return self.sizes.items * 310 + DISTRICTS * self.sizes.customers * (580 + 40 + 30 + 10 * 60)

    def make(self, warehouses: int, check: Callable[[], None]) -> None:
        """Makes what is missing. check: called often, may raise to give up. Raises ServerError."""
        for number in range(warehouses + 1):
            check()
            folder = self.folder(number)
            if not folder.exists():
                what = f"warehouse {number}" if number else "the items"
                with keeping(folder, what, self.warehouse_bytes, "take fewer warehouses, ") as place:
                    self._make(place, number, check)
            use(folder)

    def _make(self, place: Path, number: int, check: Callable[[], None]) -> None:
        draw = np.random.RandomState([self.seed % 2**32, self.seed >> 32, number])
        if not number:
            (place / "item.copy").write_bytes(rows_text(items(draw, self.sizes)))
            return
        (place / "warehouse.copy").write_bytes(rows_text(warehouse(draw, self.sizes, number)))
        check()
        (place / "stock.copy").write_bytes(rows_text(stock(draw, self.sizes, number)))
        names = ("district", "customer", "history", "orders", "order_line", "new_order")
        texts: dict[str, list[bytes]] = {name: [] for name in names}
        for district_number in range(1, DISTRICTS + 1):
            check()
            where = (number, district_number)
            orders_made, lines = orders(draw, self.sizes, where)
            tables = (
                district(draw, self.sizes, where),
                customers(draw, self.sizes, where),
                history(draw, self.sizes, where),
                orders_made,
                lines,
                new_orders(self.sizes, where),
            )
            for name, columns in zip(names, tables, strict=True):
                texts[name].append(rows_text(columns))
        for name, parts in texts.items():
            (place / f"{name}.copy").write_bytes(b"".join(parts))


def _counted(first: int, last: int) -> Numbers:
    return np.arange(first, last + 1, dtype=np.int64)


def _drawn(draw: np.random.RandomState, low: int, high: int, rows: int) -> Numbers:
    return draw.randint(low, high + 1, size=rows).astype(np.int64)


def _address(draw: np.random.RandomState, rows: int) -> list[Column]:
    zip_code = np.hstack([digits(draw, rows, 4), constant("11111", rows)])
    lines = [letters(draw, rows, 10, 20) for _ in range(3)]
    return [*lines, letters(draw, rows, 2, 2, _CAPITALS), zip_code]


def _data(draw: np.random.RandomState, rows: int) -> Column:
    return with_word(draw, letters(draw, rows, 26, 50), ORIGINAL_SHARE)


def items(draw: np.random.RandomState, sizes: Sizes) -> list[Column]:
    """Returns the columns of the items."""
    n = sizes.items
    return [
        integers(_counted(1, n)),
        integers(_drawn(draw, 1, 10_000, n)),
        letters(draw, n, 14, 24),
        decimals(_drawn(draw, 100, 10_000, n), 2),
        _data(draw, n),
    ]


def warehouse(draw: np.random.RandomState, sizes: Sizes, number: int) -> list[Column]:
    """Returns the columns of a warehouse, whose payments to date are those of its districts."""
    return [
        constant(str(number), 1),
        letters(draw, 1, 6, 10),
        *_address(draw, 1),
        decimals(_drawn(draw, 0, 2_000, 1), 4),
        decimals(np.array([DISTRICTS * sizes.customers * FIRST_PAYMENT_CENTS]), 2),
    ]


def stock(draw: np.random.RandomState, sizes: Sizes, number: int) -> list[Column]:
    """Returns the columns of what a warehouse has of each item."""
    n = sizes.items
    zero = constant("0", n)
    return [
        constant(str(number), n),
        integers(_counted(1, n)),
        integers(_drawn(draw, 10, 100, n)),
        *(letters(draw, n, 24, 24) for _ in range(DISTRICTS)),
        zero,
        zero,
        zero,
        _data(draw, n),
    ]


def _in(where: tuple[int, int], rows: int) -> list[Column]:
    return [constant(str(number), rows) for number in where]


def district(draw: np.random.RandomState, sizes: Sizes, where: tuple[int, int]) -> list[Column]:
    """Returns the columns of a district."""
    return [
        *_in(where, 1),
        letters(draw, 1, 6, 10),
        *_address(draw, 1),
        decimals(_drawn(draw, 0, 2_000, 1), 4),
        decimals(np.array([sizes.customers * FIRST_PAYMENT_CENTS]), 2),
        constant(str(sizes.customers + 1), 1),
    ]


def _last_names(draw: np.random.RandomState, sizes: Sizes) -> Column:
    """Returns last names: the first customers have each another, the others one that is drawn."""
    rest = sizes.customers - sizes.last_names
    low = _drawn(draw, 0, NAME_LOADED.a, rest) | _drawn(draw, 0, sizes.last_names - 1, rest)
    drawn = (low + NAME_LOADED.constant) % sizes.last_names
    return one_of(_NAMES, np.concatenate([_counted(0, sizes.last_names - 1), drawn]))


def customers(draw: np.random.RandomState, sizes: Sizes, where: tuple[int, int]) -> list[Column]:
    """Returns the columns of the customers of a district."""
    n = sizes.customers
    credit = np.ones(n, dtype=np.int64)
    credit[draw.permutation(n)[: round(BAD_CREDIT_SHARE * n)]] = 0
    return [
        *_in(where, n),
        integers(_counted(1, n)),
        letters(draw, n, 8, 16),
        constant("OE", n),
        _last_names(draw, sizes),
        *_address(draw, n),
        digits(draw, n, 16),
        constant(LOADED_AT, n),
        one_of(("BC", "GC"), credit),
        constant("50000.00", n),
        decimals(_drawn(draw, 0, 5_000, n), 4),
        constant("-10.00", n),
        constant("10.00", n),
        constant("1", n),
        constant("0", n),
        letters(draw, n, 300, 500),
    ]


def history(draw: np.random.RandomState, sizes: Sizes, where: tuple[int, int]) -> list[Column]:
    """Returns the columns of the payments that the customers of a district have made."""
    n = sizes.customers
    warehouse_number, district_number = _in(where, n)
    return [
        integers(_counted(1, n)),
        district_number,
        warehouse_number,
        district_number,
        warehouse_number,
        constant(LOADED_AT, n),
        decimals(np.full(n, FIRST_PAYMENT_CENTS), 2),
        letters(draw, n, 12, 24),
    ]


def orders(
    draw: np.random.RandomState, sizes: Sizes, where: tuple[int, int]
) -> tuple[Sequence[Column], Sequence[Column]]:
    """Returns the columns of the orders of a district, one for each customer, and of their lines."""
    n = sizes.customers
    number = _counted(1, n)
    lines = _drawn(draw, FEWEST_LINES, MOST_LINES, n)
    carrier = integers(_drawn(draw, 1, 10, n))
    columns = [
        *_in(where, n),
        integers(number),
        integers(draw.permutation(n).astype(np.int64) + 1),
        constant(LOADED_AT, n),
        _null_unless(carrier, number <= sizes.delivered),
        integers(lines),
        constant("1", n),
    ]
    order = np.repeat(number, lines)
    delivered = order <= sizes.delivered
    total = len(order)
    begins = np.repeat(np.cumsum(lines) - lines, lines)
    amounts = np.where(delivered, 0, _drawn(draw, 1, 999_999, total))
    return columns, [
        *_in(where, total),
        integers(order),
        integers(np.arange(total) - begins + 1),
        integers(_drawn(draw, 1, sizes.items, total)),
        constant(str(where[0]), total),
        _null_unless(constant(LOADED_AT, total), delivered),
        constant(str(LOAD_QUANTITY), total),
        decimals(amounts, 2),
        letters(draw, total, 24, 24),
    ]


def _null_unless(column: Column, there: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Column:
    """Returns the column with NULL, as COPY writes it, in the other rows."""
    padded = np.zeros((len(column), max(2, column.shape[1])), dtype=np.uint8)
    padded[:, : column.shape[1]] = column
    padded[~there] = 0
    padded[~there, :2] = np.frombuffer(b"\\N", dtype=np.uint8)
    return padded


def new_orders(sizes: Sizes, where: tuple[int, int]) -> list[Column]:
    """Returns the columns of the orders of a district that wait for delivery."""
    return [*_in(where, sizes.undelivered), integers(_counted(sizes.delivered + 1, sizes.customers))]


__all__ = ["FOLDER", "Rows"]

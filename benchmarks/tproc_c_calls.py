"""Single calls of the transactions of TPROC-C as HammerDB and pgstrata have them in the server."""

from __future__ import annotations

import random
from collections.abc import Mapping

from pgstrata.tproc_c.rules import WEIGHTS, Transaction, last_name

HAMMERDB, OURS = "hammerdb", "ours"
"""The databases, and the sides."""

NAMES: Mapping[str, Mapping[str, Transaction]] = {
    HAMMERDB: {
        "neword": "new-order",
        "payment": "payment",
        "ostat": "order-status",
        "delivery": "delivery",
        "slev": "stock-level",
    },
    OURS: {f"{kind.replace('-', '_')}_transaction": kind for kind in WEIGHTS},
}
"""Functions and procedures by side."""


def _customer(draw: random.Random) -> tuple[int, str]:
    """Returns a number of a customer, or 0 and a last name in 60 of 100 cases."""
    if draw.randint(1, 100) <= 60:
        return 0, last_name(((draw.randint(0, 255) | draw.randint(0, 999)) + 67) % 1000)
    return draw.randint(1, 3000), ""


def lines_of(number: int) -> int:
    """Returns the lines of an order: 5 to 15 in turn, so that both sides have as many."""
    return 5 + number % 11


def theirs(kind: Transaction, number: int, draw: random.Random, warehouses: int) -> str:
    """Returns a call of one of HammerDB's procedures with drawn values. number: of the call, from 0."""
    w, d, now = draw.randint(1, warehouses), draw.randint(1, 10), "now()::timestamp"
    c, name = _customer(draw)
    by_number = c or draw.randint(1, 3000)
    match kind:
        case "new-order":
            c, lines = draw.randint(1, 3000), lines_of(number)
            return f"CALL neword({w},{warehouses},{d},{c},{lines},0.0,'','',0.0,0.0,0,{now})"
        case "payment":
            blanks = ",".join(["''"] * 18)
            head = f"{w},{d},{w},{d},{int(not c)},{draw.randint(1, 5000)},'0','{name}',{by_number}"
            return f"CALL payment({head},{blanks},{now},0.0,0.0,0.0,'',{now})"
        case "order-status":
            return f"CALL ostat({w},{d},{by_number},{int(not c)},'{name}','','',0.0,0,{now},0,'')"
        case "delivery":
            return f"CALL delivery({w},{draw.randint(1, 10)},{now})"
        case "stock-level":
            return f"CALL slev({w},{d},{draw.randint(10, 20)},0)"


def ours(kind: Transaction, number: int, draw: random.Random, warehouses: int) -> str:
    """Returns a call of one of our functions with drawn values. number: of the call, from 0."""
    w, d = draw.randint(1, warehouses), draw.randint(1, 10)
    c, _ = _customer(draw)
    asked = draw.randint(0, 999) if not c else 0
    match kind:
        case "new-order":
            lines, c = lines_of(number), draw.randint(1, 3000)
            arrays = [
                [draw.randint(1, 100_000) for _ in range(15)],
                [w] * 15,
                [draw.randint(1, 10) for _ in range(15)],
            ]
            texts = ", ".join(f"ARRAY{array}" for array in arrays)
            return f"SELECT * FROM new_order_transaction({w}, {d}, {c}, {lines}, {texts})"
        case "payment":
            cents = draw.randint(100, 500_000)
            return f"SELECT * FROM payment_transaction({w}, {d}, {w}, {d}, {c}, {asked}, {cents})"
        case "order-status":
            return f"SELECT * FROM order_status_transaction({w}, {d}, {c}, {asked})"
        case "delivery":
            return f"SELECT * FROM delivery_transaction({w}, {draw.randint(1, 10)})"
        case "stock-level":
            return f"SELECT * FROM stock_level_transaction({w}, {d}, {draw.randint(10, 20)})"


CALLS = {HAMMERDB: theirs, OURS: ours}

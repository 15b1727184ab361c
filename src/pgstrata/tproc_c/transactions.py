"""The five transactions as scripts: their values drawn by the client, then one call or single statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgstrata.tproc_c.options import TprocCOptions
from pgstrata.tproc_c.rules import (
    BY_NAME_PERCENT,
    CUSTOMER,
    DISTRICTS,
    FEWEST_LINES,
    ITEM,
    KEYING_SECONDS,
    MOST_LINES,
    MOST_QUANTITY,
    NAME_ASKED,
    REMOTE_LINE_PERCENT,
    REMOTE_PAYMENT_PERCENT,
    ROLLBACK_PERCENT,
    SIZES,
    THINKING_SECONDS,
    WEIGHTS,
    Sizes,
    Transaction,
)
from pgstrata.workload.core.language import Expr, If, Op, Script, Set, Sleep, Sql, Value, Var

_LINES = range(1, MOST_LINES + 1)


@dataclass(frozen=True)
class Terminal:
    """What decides the values that a virtual user draws. clients: virtual users of the step."""

    options: TprocCOptions
    warehouses: int
    clients: int

    @property
    def sizes(self) -> Sizes:
        """Rows of a warehouse."""
        return SIZES[self.options.size]

    def home(self) -> list[Op]:
        """Returns what a virtual user sets once: its warehouse, and the district of its stock levels."""
        return [
            Set("w", f":client_id % {self.warehouses} + 1"),
            Set("home_d", f":client_id / {self.warehouses} % {DISTRICTS} + 1"),
        ]

    def begin(self) -> list[Op]:
        """Returns what draws the warehouse of a transaction, where it is not the same for all."""
        first = f":client_id % {self.warehouses}"
        if not self.options.all_warehouses or self.clients >= self.warehouses:
            return []
        further = f"random(0, ({self.warehouses} - 1 - {first}) / {self.clients})"
        return [Set("w", f"{first} + {self.clients} * {further} + 1")]

    def elsewhere(self, percent: int) -> str:
        """Returns an expression: the warehouse, or in so many per cent of all cases another one."""
        if self.warehouses == 1:
            return ":w"
        other = f"(:w + random(0, {self.warehouses - 2})) % {self.warehouses} + 1"
        return f"case when random(1, 100) <= {percent} then {other} else :w end"

    def customer(self) -> list[Op]:
        """Returns what draws a customer: a number in `c`, or 0 and the number of a last name in `name`."""
        by_number = CUSTOMER.expression(1, self.sizes.customers)
        return [
            Set("c", f"case when random(1, 100) <= {BY_NAME_PERCENT} then 0 else {by_number} end"),
            Set("name", NAME_ASKED.expression(0, self.sizes.last_names - 1)),
        ]

    def item(self, line: int) -> str:
        """Returns an expression: the item of a line, unused in the last line of an order that fails."""
        fails = f":failing <= {ROLLBACK_PERCENT} and :lines = {line}"
        return (
            f"case when {fails} then {self.sizes.items + 1} else {ITEM.expression(1, self.sizes.items)} end"
        )


_DISTRICT = Set("d", f"random(1, {DISTRICTS})")


def _call(transaction: Transaction, arguments: str, expressions: Mapping[str, Value] | None = None) -> Sql:
    """Returns the call of a transaction's function. Names in braces are variables, or these expressions."""
    function = f"{transaction.replace('-', '_')}_transaction"
    text = f"SELECT * FROM {function}({arguments})"
    return Sql(text, name=transaction, values={**_variables(text), **(expressions or {})})


def _variables(text: str) -> dict[str, Value]:
    """Returns the variables that a statement names in braces."""
    return {name: Var(name) for name in re.findall(r"\{(\w+)\}", text)}


def _many(name: str) -> str:
    return f"ARRAY[{', '.join(f'{{{name}{line}}}' for line in _LINES)}]"


# --- what is drawn, and the call ------------------------------------------------------------------


def _new_order(terminal: Terminal, statements: bool) -> list[Op]:
    drawn: list[Op] = [
        _DISTRICT,
        Set("c", CUSTOMER.expression(1, terminal.sizes.customers)),
        Set("lines", f"random({FEWEST_LINES}, {MOST_LINES})"),
        Set("failing", "random(1, 100)"),
    ]
    by_line: Mapping[str, Callable[[int], str]] = {
        "item": terminal.item,
        "supply": lambda line: terminal.elsewhere(REMOTE_LINE_PERCENT),
        "quantity": lambda line: f"random(1, {MOST_QUANTITY})",
    }
    values = {f"{name}{line}": of(line) for name, of in by_line.items() for line in _LINES}
    if statements:
        return [*drawn, *(Set(name, expression) for name, expression in values.items()), *_order_statements()]
    arguments = ", ".join(["{w}, {d}, {c}, {lines}", *map(_many, by_line)])
    expressions = {name: Expr(expression, "int4") for name, expression in values.items()}
    return [*drawn, _call("new-order", arguments, expressions)]


def _payment(terminal: Terminal, statements: bool) -> list[Op]:
    district = f"case when :cw = :w then :d else random(1, {DISTRICTS}) end"
    drawn = [
        _DISTRICT,
        Set("cw", terminal.elsewhere(REMOTE_PAYMENT_PERCENT)),
        Set("cd", district),
        *terminal.customer(),
        Set("cents", "random(100, 500000)"),
    ]
    if statements:
        return [*drawn, *_payment_statements()]
    return [*drawn, _call("payment", "{w}, {d}, {cw}, {cd}, {c}, {name}, {cents}")]


def _order_status(terminal: Terminal, statements: bool) -> list[Op]:
    drawn: list[Op] = [_DISTRICT, *terminal.customer()]
    if statements:
        return [*drawn, *_status_statements()]
    return [*drawn, _call("order-status", "{w}, {d}, {c}, {name}")]


def _delivery(terminal: Terminal, statements: bool) -> list[Op]:
    drawn = Set("carrier", "random(1, 10)")
    if statements:
        return [drawn, *_delivery_statements()]
    return [drawn, _call("delivery", "{w}, {carrier}")]


def _stock_level(terminal: Terminal, statements: bool) -> list[Op]:
    drawn = Set("threshold", "random(10, 20)")
    if statements:
        return [drawn, *_level_statements()]
    return [drawn, _call("stock-level", "{w}, {home_d}, {threshold}")]


_MAKE: Mapping[Transaction, Callable[[Terminal, bool], list[Op]]] = {
    "new-order": _new_order,
    "payment": _payment,
    "order-status": _order_status,
    "delivery": _delivery,
    "stock-level": _stock_level,
}


def script(terminal: Terminal, transaction: Transaction) -> Script:
    """Returns one transaction, with its weight in the mix."""
    o = terminal.options
    before: list[Op] = terminal.begin()
    if o.keying:
        keying, mean = KEYING_SECONDS[transaction] * 1000, THINKING_SECONDS[transaction] * 1000
        thinking = f"least(int(-ln(random(1, 1000000) / 1000000.0) * {mean}), {10 * mean})"
        before += [Set("pause", f"{keying} + {thinking}"), Sleep(":pause", "ms")]
    ops = _MAKE[transaction](terminal, o.code == "statements")
    return Script(*ops, before=before, weight=WEIGHTS[transaction], name=transaction)


# --- single statements --------------------------------------------------------------------------------


def _named(transaction: Transaction) -> Callable[..., Sql]:
    """Returns what makes a statement of a transaction. Names in braces are variables."""

    def make(name: str, text: str, into: Sequence[str] = ()) -> Sql:
        return Sql(text, name=f"{transaction}: {name}", into=into, values=_variables(text))

    return make


def _transaction(sql: Callable[..., Sql], *ops: Op) -> list[Op]:
    return [sql("begin", "BEGIN"), *ops, sql("commit", "COMMIT")]


def _customer_by_name(sql: Callable[..., Sql], w: str, d: str) -> If:
    those = f"FROM customer WHERE c_w_id = {{{w}}} AND c_d_id = {{{d}}} AND c_last = last_name({{name}})"
    middle = f"OFFSET (SELECT (count(*) - 1) / 2 {those}) LIMIT 1"
    search = sql("customer by name", f"SELECT c_id {those} ORDER BY c_first {middle}", ["c"])
    return If((":c = 0", [search]))


def _order_statements() -> list[Op]:
    sql = _named("new-order")
    pairs = ", ".join(f"({{supply{n}}}, {{item{n}}}, {n})" for n in _LINES)
    all_local = " AND ".join(f"({n} > {{lines}} OR {{supply{n}}} = {{w}})" for n in _LINES)
    # Stocks are locked in one order, so that orders of equal items never wait for each other in a circle.
    lock = (
        "SELECT s_i_id, s_w_id, s_quantity, s_data FROM stock WHERE (s_w_id, s_i_id) IN "
        f"(SELECT supply, item FROM (VALUES {pairs}) line (supply, item, number) WHERE number <= {{lines}}) "
        "ORDER BY s_w_id, s_i_id FOR UPDATE"
    )
    ops: list[Op] = [
        sql(
            "select customer",
            "SELECT w_tax, c_discount, c_last, c_credit FROM warehouse, customer "
            "WHERE w_id = {w} AND c_w_id = {w} AND c_d_id = {d} AND c_id = {c}",
        ),
        sql(
            "update district",
            "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = {w} AND d_id = {d} "
            "RETURNING d_next_o_id - 1, d_tax",
            ["o", "tax"],
        ),
        sql(
            "insert order",
            "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES "
            f"({{w}}, {{d}}, {{o}}, {{c}}, now(), {{lines}}, CASE WHEN {all_local} THEN 1 ELSE 0 END)",
        ),
        sql("insert new order", "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ({w}, {d}, {o})"),
        sql("lock stocks", lock),
        *(If((f":lines >= {line}", _line_statements(sql, line))) for line in _LINES),
    ]
    fails = f":failing <= {ROLLBACK_PERCENT}"
    end = If((fails, [sql("rollback", "ROLLBACK")]), otherwise=[sql("commit", "COMMIT")])
    return [sql("begin", "BEGIN"), *ops, end]


def _line_statements(sql: Callable[..., Sql], line: int) -> list[Op]:
    item, supply, quantity = f"{{item{line}}}", f"{{supply{line}}}", f"{{quantity{line}}}"
    stock = f"s_w_id = {supply} AND s_i_id = {item}"
    info = " ".join(f"WHEN {n} THEN s_dist_{n:02}" for n in range(1, DISTRICTS + 1))
    return [
        sql("select item", f"SELECT i_price, i_name, i_data FROM item WHERE i_id = {item}"),
        sql(
            "update stock",
            f"UPDATE stock SET s_quantity = s_quantity - {quantity} "
            f"+ CASE WHEN s_quantity >= {quantity} + 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + {quantity}, "
            f"s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + "
            f"CASE WHEN {supply} = {{w}} THEN 0 ELSE 1 END WHERE {stock}",
        ),
        sql(
            "insert order line",
            "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, "
            f"ol_quantity, ol_amount, ol_dist_info) SELECT {{w}}, {{d}}, {{o}}, {line}, {item}, {supply}, "
            f"{quantity}, {quantity} * i_price, CASE {{d}} {info} END "
            f"FROM item, stock WHERE i_id = {item} AND {stock}",
        ),
    ]


def _payment_statements() -> list[Op]:
    sql = _named("payment")
    amount = "round({cents} / 100.0, 2)"
    place = "w_id = {w} AND d_w_id = {w} AND d_id = {d}"
    return _transaction(
        sql,
        sql(
            "update warehouse",
            f"UPDATE warehouse SET w_ytd = w_ytd + {amount} WHERE w_id = {{w}} "
            "RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
        ),
        sql(
            "update district",
            f"UPDATE district SET d_ytd = d_ytd + {amount} WHERE d_w_id = {{w}} AND d_id = {{d}} "
            "RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
        ),
        _customer_by_name(sql, "cw", "cd"),
        sql(
            "update customer",
            f"UPDATE customer SET c_balance = c_balance - {amount}, "
            f"c_ytd_payment = c_ytd_payment + {amount}, c_payment_cnt = c_payment_cnt + 1, "
            "c_data = CASE WHEN c_credit = 'BC' THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, "
            f"{{d}}::int, {{w}}::int, {amount}, c_data), 500) ELSE c_data END "
            "WHERE c_w_id = {cw} AND c_d_id = {cd} AND c_id = {c} "
            "RETURNING c_balance, c_credit, CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END",
        ),
        sql(
            "insert history",
            "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) "
            f"SELECT {{c}}, {{cd}}, {{cw}}, d_id, w_id, now(), {amount}, w_name || '    ' || d_name "
            f"FROM warehouse, district WHERE {place}",
        ),
    )


def _status_statements() -> list[Op]:
    sql = _named("order-status")
    return _transaction(
        sql,
        _customer_by_name(sql, "w", "d"),
        sql(
            "select customer",
            "SELECT c_balance, c_first, c_middle, c_last FROM customer "
            "WHERE c_w_id = {w} AND c_d_id = {d} AND c_id = {c}",
        ),
        sql(
            "select order",
            "SELECT o_id, o_carrier_id, extract(epoch FROM o_entry_d) FROM orders "
            "WHERE o_w_id = {w} AND o_d_id = {d} AND o_c_id = {c} ORDER BY o_id DESC LIMIT 1",
            ["o", "carrier", "entered"],
        ),
        sql(
            "select order lines",
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line "
            "WHERE ol_w_id = {w} AND ol_d_id = {d} AND ol_o_id = {o}",
        ),
    )


def _delivery_statements() -> list[Op]:
    sql = _named("delivery")
    ops: list[Op] = []
    for d in range(1, DISTRICTS + 1):
        order = f"ol_w_id = {{w}} AND ol_d_id = {d} AND ol_o_id = {{o}}"
        delivery: list[Op] = [
            sql(
                "delete new order",
                f"DELETE FROM new_order WHERE no_w_id = {{w}} AND no_d_id = {d} AND no_o_id = {{o}}",
            ),
            sql(
                "update order",
                f"UPDATE orders SET o_carrier_id = {{carrier}} "
                f"WHERE o_w_id = {{w}} AND o_d_id = {d} AND o_id = {{o}} RETURNING o_c_id",
                ["c"],
            ),
            sql("update order lines", f"UPDATE order_line SET ol_delivery_d = now() WHERE {order}"),
            sql(
                "update customer",
                f"UPDATE customer SET c_balance = c_balance + (SELECT sum(ol_amount) FROM order_line WHERE "
                f"{order}), c_delivery_cnt = c_delivery_cnt + 1 "
                f"WHERE c_w_id = {{w}} AND c_d_id = {d} AND c_id = {{c}}",
            ),
        ]
        oldest = (
            f"SELECT no_o_id FROM new_order WHERE no_w_id = {{w}} AND no_d_id = {d} "
            "ORDER BY no_o_id LIMIT 1 FOR UPDATE"
        )
        ops += [sql("select new order", oldest, ["o"]), If((":o > 0", delivery))]
    return _transaction(sql, *ops)


def _level_statements() -> list[Op]:
    sql = _named("stock-level")
    return _transaction(
        sql,
        sql(
            "select district",
            "SELECT d_next_o_id FROM district WHERE d_w_id = {w} AND d_id = {home_d}",
            ["next"],
        ),
        sql(
            "count items",
            "SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = {w} "
            "AND ol_d_id = {home_d} AND ol_o_id >= {next} - 20 AND ol_o_id < {next} AND s_w_id = {w} "
            "AND s_i_id = ol_i_id AND s_quantity < {threshold}",
        ),
    )


__all__ = ["Terminal", "script"]

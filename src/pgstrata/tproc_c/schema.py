"""The nine tables of clause 1.3, their keys, and the two further indexes that the transactions need."""

from __future__ import annotations

from collections.abc import Mapping

from pgstrata.tproc_c.rules import DISTRICTS

_ADDRESS = (
    "{0}_street_1 varchar(20) NOT NULL, {0}_street_2 varchar(20) NOT NULL, "
    "{0}_city varchar(20) NOT NULL, {0}_state char(2) NOT NULL, {0}_zip char(9) NOT NULL"
)
_DISTS = ", ".join(f"s_dist_{n:02} char(24) NOT NULL" for n in range(1, DISTRICTS + 1))

COLUMNS: Mapping[str, str] = {
    "item": "i_id int NOT NULL, i_im_id int NOT NULL, i_name varchar(24) NOT NULL, "
    "i_price numeric(5,2) NOT NULL, i_data varchar(50) NOT NULL",
    "warehouse": f"w_id int NOT NULL, w_name varchar(10) NOT NULL, {_ADDRESS.format('w')}, "
    "w_tax numeric(4,4) NOT NULL, w_ytd numeric(16,2) NOT NULL",
    "district": f"d_w_id int NOT NULL, d_id int NOT NULL, d_name varchar(10) NOT NULL, "
    f"{_ADDRESS.format('d')}, d_tax numeric(4,4) NOT NULL, d_ytd numeric(16,2) NOT NULL, "
    "d_next_o_id int NOT NULL",
    "customer": "c_w_id int NOT NULL, c_d_id int NOT NULL, c_id int NOT NULL, c_first varchar(16) NOT NULL, "
    f"c_middle char(2) NOT NULL, c_last varchar(16) NOT NULL, {_ADDRESS.format('c')}, "
    "c_phone char(16) NOT NULL, c_since timestamptz NOT NULL, c_credit char(2) NOT NULL, "
    "c_credit_lim numeric(12,2) NOT NULL, c_discount numeric(4,4) NOT NULL, "
    "c_balance numeric(12,2) NOT NULL, c_ytd_payment numeric(12,2) NOT NULL, c_payment_cnt int NOT NULL, "
    "c_delivery_cnt int NOT NULL, c_data varchar(500) NOT NULL",
    "history": "h_c_id int NOT NULL, h_c_d_id int NOT NULL, h_c_w_id int NOT NULL, h_d_id int NOT NULL, "
    "h_w_id int NOT NULL, h_date timestamptz NOT NULL, h_amount numeric(6,2) NOT NULL, "
    "h_data varchar(24) NOT NULL",
    "stock": f"s_w_id int NOT NULL, s_i_id int NOT NULL, s_quantity int NOT NULL, {_DISTS}, "
    "s_ytd int NOT NULL, s_order_cnt int NOT NULL, s_remote_cnt int NOT NULL, s_data varchar(50) NOT NULL",
    "orders": "o_w_id int NOT NULL, o_d_id int NOT NULL, o_id int NOT NULL, o_c_id int NOT NULL, "
    "o_entry_d timestamptz NOT NULL, o_carrier_id int, o_ol_cnt int NOT NULL, o_all_local int NOT NULL",
    "new_order": "no_w_id int NOT NULL, no_d_id int NOT NULL, no_o_id int NOT NULL",
    "order_line": "ol_w_id int NOT NULL, ol_d_id int NOT NULL, ol_o_id int NOT NULL, ol_number int NOT NULL, "
    "ol_i_id int NOT NULL, ol_supply_w_id int NOT NULL, ol_delivery_d timestamptz, ol_quantity int NOT NULL, "
    "ol_amount numeric(6,2) NOT NULL, ol_dist_info char(24) NOT NULL",
}
"""Columns by table, in the order of the rows that are loaded."""

KEYS: Mapping[str, str] = {
    "item": "i_id",
    "warehouse": "w_id",
    "district": "d_w_id, d_id",
    "customer": "c_w_id, c_d_id, c_id",
    "stock": "s_w_id, s_i_id",
    "orders": "o_w_id, o_d_id, o_id",
    "new_order": "no_w_id, no_d_id, no_o_id",
    "order_line": "ol_w_id, ol_d_id, ol_o_id, ol_number",
}
"""Primary keys; the history has none."""

TABLES = list(COLUMNS)


def create() -> list[str]:
    """Returns the statements that make the tables, without keys; older ones of the same names go."""
    statements = [f"CREATE TABLE {table} ({columns})" for table, columns in COLUMNS.items()]
    return [f"DROP TABLE IF EXISTS {', '.join(TABLES)}", *statements]


def indexes(table: str) -> list[str]:
    """Returns the statements that make the primary key of a table, and its further index."""
    statements = [f"ALTER TABLE {table} ADD PRIMARY KEY ({KEYS[table]})"] if table in KEYS else []
    if table == "customer":
        statements.append("CREATE INDEX customer_last_name ON customer (c_w_id, c_d_id, c_last, c_first)")
    if table == "orders":
        statements.append("CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)")
    return statements


__all__ = ["COLUMNS", "KEYS", "TABLES", "create", "indexes"]

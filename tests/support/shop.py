"""A database as people have them: foreign keys, triggers, partitions, a view, a sequence; any size."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.initdb import USER

SCHEMA = r"""
CREATE SCHEMA audit;
CREATE TYPE state AS ENUM ('open', 'paid', 'sent');
CREATE TABLE customers (
    id int PRIMARY KEY, name text NOT NULL, email text UNIQUE, orders int NOT NULL DEFAULT 0
);
CREATE TABLE products (
    id int PRIMARY KEY, name text NOT NULL, price numeric(10,2) NOT NULL CHECK (price > 0)
);
CREATE TABLE orders (
    id bigint NOT NULL, customer_id int NOT NULL REFERENCES customers,
    product_id int NOT NULL REFERENCES products,
    amount int NOT NULL, state state NOT NULL DEFAULT 'open', day date NOT NULL, note text
) PARTITION BY RANGE (day);
CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM ('2024-01-01') TO ('2024-07-01');
CREATE TABLE orders_2 PARTITION OF orders FOR VALUES FROM ('2024-07-01') TO ('2025-01-01');
CREATE TABLE orders_rest PARTITION OF orders DEFAULT;
ALTER TABLE orders ADD PRIMARY KEY (id, day);
CREATE INDEX orders_customer ON orders (customer_id);
CREATE SEQUENCE audit.numbers;
CREATE TABLE audit.changes (
    id bigint PRIMARY KEY DEFAULT nextval('audit.numbers'), customer_id int, at timestamptz DEFAULT now()
);
CREATE FUNCTION count_order() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    UPDATE customers SET orders = orders + 1 WHERE id = NEW.customer_id; -- a semicolon; and a 'quote
    INSERT INTO audit.changes (customer_id) VALUES (NEW.customer_id);
    RETURN NEW;
END $body$;
CREATE VIEW turnover AS
    SELECT p.name, sum(o.amount * p.price) AS total
    FROM orders o JOIN products p ON p.id = o.product_id GROUP BY 1;
CREATE MATERIALIZED VIEW days AS SELECT day, count(*) FROM orders GROUP BY 1 WITH NO DATA;
CREATE UNIQUE INDEX days_day ON days (day);
"""

TRIGGER = "CREATE TRIGGER count AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION count_order()"

FILL = """
INSERT INTO customers SELECT g, 'customer ' || g, 'c' || g || E'@example\\t.com'
    FROM generate_series(1, {customers}) g;
INSERT INTO products SELECT g, 'product ' || g, 1 + g % 100 + 0.99 FROM generate_series(1, 100) g;
INSERT INTO orders SELECT g, 1 + (g * 7919::bigint) % {customers}, 1 + g % 100, 1 + g % 5, 'paid',
    date '2024-01-01' + (g % 400)::int, md5(g::text) || repeat(md5((g * 3)::text), 3)
    FROM generate_series(1, {orders}) g;
INSERT INTO audit.changes (customer_id) SELECT 1 FROM generate_series(1, 3);
REFRESH MATERIALIZED VIEW days;
SELECT lo_from_bytea(4242, 'a large object');
"""

FILES = {
    "buy.sql": (
        "\\set customer random(1, :customers)\n\\set number random(1000000000, 9000000000000)\n"
        "INSERT INTO orders (id, customer_id, product_id, amount, day)\n"
        "VALUES (:number, :customer, 1 + :customer % 100, 2, '2024-08-01');\n"
    ),
    "look.sql": (
        "\\set customer random(1, :customers)\n"
        "SELECT count(*), sum(amount) FROM orders WHERE customer_id = :customer;\n"
    ),
    "queries/q1.sql": "SELECT state, count(*), avg(amount) FROM orders GROUP BY state;\n",
    "queries/q2.sql": "-- the best customers\nSELECT * FROM turnover ORDER BY total DESC, name LIMIT 10;\n",
    "queries/q10.sql": "SELECT name, day FROM customers c, orders WHERE customer_id = c.id AND c.id = 7;\n",
    "queries/broken.sql": "SELECT 1;\nSELECT 2;\n",
    "queries/lacking.sql": "SELECT * FROM nowhere;\n",
}


def write_files(folder: Path) -> None:
    """The scripts and queries of the shop."""
    (folder / "queries").mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)


def fill_shop(connection: psycopg.Connection[Any], customers: int, orders: int) -> None:
    """Makes the shop in an empty database; its triggers come last, as nobody would fill it through them."""
    connection.execute(SCHEMA.encode())
    # Rows that refer to each other by how they are made need not be looked up one by one.
    connection.execute(b"SET session_replication_role = replica")
    connection.execute(FILL.format(customers=customers, orders=orders).encode())
    connection.execute(b"RESET session_replication_role")
    connection.execute(TRIGGER.encode())


def pg_dump() -> str | None:
    """The system's newest."""
    there = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_dump"), key=lambda p: float(p.parts[-3]))
    return str(there[-1]) if there else shutil.which("pg_dump")


def dump(cluster: Cluster, database: str, to: Path, *how: str) -> Path:
    """A dump by the system's pg_dump, of which the account of servers may be another than ours."""
    program = pg_dump()
    assert program is not None, "apt install postgresql-client"
    address = ["-h", str(cluster.socket_dir), "-p", str(cluster.port), "-U", USER, "-d", database]
    subprocess.run([program, *address, *how, "-f", str(to)], check=True, env={**os.environ, "LC_ALL": "C"})
    return to

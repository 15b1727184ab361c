"""An application whose log is captured: several statement shapes, prepared and not, transactions, think times
and errors on purpose. What it leaves depends on the order within each session only."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.traffic.shapes import shape

SETTINGS: Mapping[str, str] = {
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql",
    "log_destination": "csvlog,jsonlog",
    "log_min_duration_statement": "0",
    "log_parameter_max_length_on_error": "-1",
    "log_connections": "on",
    "log_disconnections": "on",
}

SCHEMA = """
CREATE TABLE accounts (id int PRIMARY KEY, owner text NOT NULL, balance bigint NOT NULL DEFAULT 0);
CREATE TABLE orders (
    id bigserial PRIMARY KEY, account int NOT NULL REFERENCES accounts, amount int NOT NULL,
    note text, placed timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX orders_account ON orders (account);
CREATE TABLE counters (name text PRIMARY KEY, value bigint NOT NULL);
INSERT INTO accounts SELECT g, 'owner ' || g, 1000 FROM generate_series(1, 500) g;
INSERT INTO orders (account, amount, note)
    SELECT 1 + g % 500, g % 90, md5(g::text) FROM generate_series(1, 5000) g;
INSERT INTO counters VALUES ('all', 0), ('failed', 0);
"""

STATE = """
SELECT 'accounts', count(*), sum(balance), md5(string_agg(id || owner || balance, ',' ORDER BY id))
    FROM accounts
UNION ALL SELECT 'orders', count(*), sum(amount + id),
    md5(string_agg(account || ':' || amount || coalesce(note, '-'), ',' ORDER BY account, amount, note))
    FROM orders
UNION ALL SELECT 'counters', count(*), sum(value), md5(string_agg(name || value, ',' ORDER BY name))
    FROM counters
ORDER BY 1
"""


class Shop:
    """Sessions that work at the same time, each on accounts of its own."""

    def __init__(self, cluster: Cluster, database: str, *, sessions: int, rounds: int, think: float) -> None:
        self._cluster, self._database = cluster, database
        self._sessions, self._rounds, self._think = sessions, rounds, think
        self._errors: list[BaseException] = []

    def work(self) -> None:
        threads = [threading.Thread(target=self._session, args=(n,)) for n in range(self._sessions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _session(self, number: int) -> None:
        try:
            time.sleep(self._think * number)
            with self._cluster.connect(self._database) as connection:
                dice = random.Random(number)
                for turn in range(self._rounds):
                    self._turn(connection, dice, number, turn)
        except BaseException as error:
            self._errors.append(error)

    def _turn(self, connection: psycopg.Connection[Any], dice: random.Random, number: int, turn: int) -> None:
        account = 1 + number + self._sessions * dice.randrange(500 // self._sessions)
        connection.execute(
            "SELECT id, amount, note FROM orders WHERE account = %s AND amount >= %s ORDER BY id",
            (account, dice.randrange(50)),
            prepare=True,
        )
        with connection.transaction():
            connection.execute(
                "INSERT INTO orders (account, amount, note) VALUES (%s, %s, %s)",
                (account, dice.randrange(100), dice.choice([None, f'it\'s\n{turn}\t"ü"', "plain"])),
            )
            connection.execute(f"UPDATE accounts SET balance = balance - {1 + turn} WHERE id = {account}")
            time.sleep(dice.random() * self._think)
            connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'all'", prepare=True)
        connection.execute(f"SELECT owner, balance FROM accounts WHERE id IN ({account}, {account + 1}, 7)")
        if turn % 5 == number % 5:
            self._fails(connection, account)
        if turn % 7 == 3:
            connection.execute(
                "UPDATE accounts SET owner = %s WHERE id = %s", (f"owner {number}/{turn}", account)
            )
            connection.execute("DEALLOCATE ALL")
            connection._prepared.clear()  # what the client has prepared is gone
        time.sleep(dice.random() * self._think)

    def _fails(self, connection: psycopg.Connection[Any], account: int) -> None:
        for text, values in (
            ("INSERT INTO accounts (id, owner) VALUES (%s, %s)", (account, "again")),
            ("SELECT nothing FROM accounts", None),
            ("SELECT balance / (balance - balance) FROM accounts WHERE id = %s", (account,)),
        ):
            try:
                with connection.transaction():
                    connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'failed'")
                    connection.execute(text, values)
            except psycopg.Error:
                continue
            raise AssertionError(f"{text} has not failed")


def state(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    """Row counts, sums and contents of every table; orders without the numbers that a sequence gave them."""
    return connection.execute(STATE.encode()).fetchall()


def take_logs(cluster: Cluster, folder: Path) -> None:
    """Copies the logs of a server that has been stopped."""
    for file in (cluster.data_folder.path / "log").iterdir():
        shutil.copyfile(file, folder / file.name)


class Calls(NamedTuple):
    """How often a statement was called, and how many milliseconds each call took."""

    calls: int
    each: float


def counted(connection: psycopg.Connection[Any]) -> dict[str, Calls]:
    """What pg_stat_statements has of a database, by shape."""
    old = connection.info.server_version < 130000
    name = "total_time" if old else "total_exec_time"
    where = "AND toplevel" if connection.info.server_version >= 140000 else ""
    rows = connection.execute(
        f"SELECT query, calls, {name} FROM pg_stat_statements WHERE dbid = "
        f"(SELECT oid FROM pg_database WHERE datname = current_database()) {where}".encode()
    ).fetchall()
    by_text: dict[str, tuple[int, float]] = {}
    for text, calls, took in rows:
        text = shape(text).text
        before = by_text.get(text, (0, 0.0))
        by_text[text] = before[0] + calls, before[1] + took
    return {text: Calls(calls, took / calls) for text, (calls, took) in by_text.items()}

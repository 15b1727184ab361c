"""The transactions on real servers: what each does to the rows, conditions that fail, whole runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.errors import ServerError
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST, Features
from pgstrata.store import Results
from pgstrata.store.read import MeasuredStep
from pgstrata.tproc_c import schema
from pgstrata.tproc_c.conditions import check, queries
from pgstrata.tproc_c.options import TprocCOptions
from pgstrata.tproc_c.report import new_orders
from pgstrata.tproc_c.rules import WEIGHTS
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Phase, WorkContext
from pgstrata.workload.core.options import NotInVersionError
from support.program import Program, Running, living_in
from support.queries import step_of, until
from support.steps import database, run_step

TPROC_C = catalog.find("tproc-c")

CODES = ("functions", "sets", "statements")


def phases(**options: Any) -> list[Phase]:
    usual = {"size": "tiny", "warehouses": 2, "clients": 1, "seconds": 1, "warmup": 0, "conditions": "none"}
    return TPROC_C.phases(TprocCOptions.model_validate(usual | options), NEWEST)


@pytest.fixture
def loaded(own_cache: None, cluster: Cluster, code: str) -> Iterator[psycopg.Connection[Any]]:
    """A database with two tiny warehouses."""
    with database(cluster, "shop") as connection:
        until(cluster, "shop", phases(code=code), "checkpoint")
        connection.execute("ANALYZE")
        yield connection


@pytest.fixture
def code() -> str:
    """How transactions are written, unless a test asks for others."""
    return "functions"


def context(cluster: Cluster) -> WorkContext:
    return WorkContext(lambda: cluster.connect("shop"), lambda text: None, lambda: None)


def number(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("code", ["functions", "sets"])
def test_what_each_transaction_does(loaded: psycopg.Connection[Any], cluster: Cluster) -> None:
    check(context(cluster), "load", list(queries()))
    stock = (
        "SELECT (s_quantity, s_ytd, s_order_cnt, s_remote_cnt)::text FROM stock "
        "WHERE s_w_id = 1 AND s_i_id = 7"
    )
    loaded.execute("UPDATE stock SET s_quantity = 15 WHERE s_w_id = 1 AND s_i_id = 7")
    # Item 7 twice in one order: 15 − 6 would leave less than ten, so 91 come in; then 4 more go.
    call = "SELECT * FROM new_order_transaction(1, 3, 5, 5, '{9,7,7,8,10}', '{1,1,1,2,1}', '{1,6,4,1,10}')"
    row = loaded.execute(call.encode()).fetchone()
    price = (
        "SELECT sum(ol_amount) * (1 - c_discount) * (1 + w_tax + d_tax) "
        "FROM order_line, customer, warehouse, district "
        "WHERE (ol_w_id, ol_d_id, ol_o_id) = (1, 3, 101) AND (c_w_id, c_d_id, c_id) = (1, 3, 5) "
        "AND w_id = 1 AND d_w_id = 1 AND d_id = 3 GROUP BY c_discount, w_tax, d_tax"
    )
    assert row == (101, number(loaded, price))
    assert number(loaded, stock) == "(96,10,2,0)"
    assert number(loaded, "SELECT s_remote_cnt FROM stock WHERE s_w_id = 2 AND s_i_id = 8") == 1
    assert number(loaded, "SELECT o_all_local FROM orders WHERE (o_w_id, o_d_id, o_id) = (1, 3, 101)") == 0
    lines = loaded.execute(
        "SELECT ol_i_id, ol_dist_info = s_dist_03, ol_amount = ol_quantity * i_price "
        "FROM order_line, stock, item WHERE (ol_w_id, ol_d_id, ol_o_id) = (1, 3, 101) "
        "AND s_w_id = ol_supply_w_id AND s_i_id = ol_i_id AND i_id = ol_i_id ORDER BY ol_number"
    )
    assert lines.fetchall() == [(item, True, True) for item in (9, 7, 7, 8, 10)]
    # An item that there is none of: everything is rolled back.
    before = number(loaded, stock)
    failing = call.replace("8,10}", "8,1001}")
    assert loaded.execute(failing.encode()).fetchall() == []
    assert number(loaded, stock) == before
    assert number(loaded, "SELECT max(o_id) FROM orders") == 101
    # The customer in the middle of those with the name, by first name; 500 letters of bad credit at most.
    loaded.execute(
        "UPDATE customer SET c_last = 'BAROUGHTBAR', c_first = c_id WHERE c_id IN (10, 11, 12, 13)"
    )
    loaded.execute("UPDATE customer SET c_credit = 'BC', c_data = repeat('x', 500) WHERE c_id = 11")
    paid = loaded.execute("SELECT * FROM payment_transaction(1, 3, 2, 4, 0, 10, 12345)").fetchone()
    assert paid is not None and (paid[0], float(paid[1]), paid[2]) == (11, -133.45, "BC")
    assert paid[3].startswith("11 4 2 3 1 123.45 xxx") and len(paid[3]) == 200
    status = loaded.execute(
        "SELECT count(*), sum(r_amount) FROM order_status_transaction(1, 3, 5, 0)"
    ).fetchone()
    assert status is not None and status[0] == 5
    delivered = loaded.execute("SELECT * FROM delivery_transaction(1, 9)").fetchall()
    assert delivered == [(district, 71) for district in range(1, 11)]
    assert number(loaded, "SELECT count(*) FROM orders WHERE o_id = 71 AND o_carrier_id = 9") == 10
    low = (
        "SELECT count(DISTINCT s_i_id) FROM stock, order_line WHERE s_w_id = 1 AND s_quantity < 60 "
        "AND ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id BETWEEN 82 AND 101 AND ol_i_id = s_i_id"
    )
    assert number(loaded, "SELECT stock_level_transaction(1, 3, 60)") == number(loaded, low) > 0
    check(context(cluster), "all", list(queries()))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("mode", ["simple", "prepared"])
def test_the_mix_holds_all_conditions_with_many_users(
    loaded: psycopg.Connection[Any], cluster: Cluster, code: str, mode: str
) -> None:
    more = {"all_warehouses": True} if mode == "simple" else {}
    step = step_of(phases(code=code, mode=mode, clients=6, seconds=1, **more), "mix")
    outcome = run_step(cluster, "shop", step)
    role = outcome.role("query")
    assert role["errors"] == 0
    scripts = {script["name"]: script for script in role["scripts"]}
    assert list(scripts) == list(WEIGHTS)
    total = sum(script["transactions"] for script in scripts.values())
    assert total == role["transactions"] > 100
    for name, weight in WEIGHTS.items():
        wanted = weight / sum(WEIGHTS.values())
        assert abs(scripts[name]["transactions"] / total - wanted) < 5 * (wanted / total) ** 0.5 + 0.02
        latency = scripts[name]["latency"]
        assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["max"] * 1.001
    check(context(cluster), "mix", list(queries()))
    placed = number(loaded, "SELECT sum(d_next_o_id - 101) FROM district")
    assert 0.9 * scripts["new-order"]["transactions"] < placed <= scripts["new-order"]["transactions"] + 6
    used = loaded.execute("SELECT DISTINCT o_w_id FROM orders WHERE o_id > 100 ORDER BY 1").fetchall()
    assert used == [(1,), (2,)]


def test_all_codes_do_the_same_to_the_rows(own_cache: None, cluster: Cluster) -> None:
    """The same seed: the same operations, and the same rows after them."""

    def sums(code: str) -> list[Any]:
        with database(cluster, "shop") as connection:
            all_phases = phases(code=code, transactions="new-order payment delivery order-status stock-level")
            until(cluster, "shop", all_phases, "checkpoint")
            totals = []
            for name in ("new-order", "payment", "delivery"):
                step = step_of(all_phases, name)
                counted = [replace(role, operations=30) for role in step.roles]
                run_step(cluster, "shop", replace(step, roles=counted, seconds=None))
                totals += [_sum(connection, table) for table in schema.TABLES]
            return totals

    assert sums("functions") == sums("statements") == sums("sets")


def _sum(connection: psycopg.Connection[Any], table: str) -> Any:
    """A digest of a table without the times at which rows were written."""
    times = {
        "customer": ["c_since"],
        "history": ["h_date"],
        "orders": ["o_entry_d"],
        "order_line": ["ol_delivery_d"],
    }
    names = connection.execute(
        "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute "
        "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attname = ANY (%s)",
        (table, times.get(table, [])),
    ).fetchone()
    assert names is not None
    return number(
        connection,
        f"SELECT md5(string_agg(r::text, ',' ORDER BY r::text)) FROM (SELECT {names[0]} FROM {table}) r",
    )


PLANTED = {
    1: "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2",
    2: "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 4",
    3: "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 2 AND no_o_id = 90",
    4: "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 9 AND ol_o_id = 3 AND ol_number = 2",
    5: "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 5",
    6: "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 5",
    7: "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 5",
    8: "UPDATE history SET h_amount = h_amount + 1 WHERE h_w_id = 1 AND h_d_id = 1 AND h_c_id = 7",
    9: "UPDATE history SET h_d_id = 2 WHERE h_w_id = 1 AND h_d_id = 1 AND h_c_id = 7",
    10: "UPDATE customer SET c_balance = 0 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 9",
    12: "UPDATE customer SET c_ytd_payment = 0 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 9",
}  # fmt: skip


def test_every_condition_finds_its_corruption(loaded: psycopg.Connection[Any], cluster: Cluster) -> None:
    assert list(PLANTED) == list(queries())
    for condition, statement in PLANTED.items():
        table = statement.split()[1 if statement.startswith("UPDATE") else 2]
        loaded.execute(f"CREATE TABLE kept AS TABLE {table}".encode())
        done = loaded.execute(statement.encode())
        assert done.rowcount >= 1
        with pytest.raises(
            ServerError, match=rf"after step mix condition {condition} of TPC-C is violated: \w+ \d+"
        ):
            check(context(cluster), "mix", [condition])
        loaded.execute(f"TRUNCATE {table}".encode())
        loaded.execute(f"INSERT INTO {table} SELECT * FROM kept".encode())
        loaded.execute("DROP TABLE kept")
    facts = check(context(cluster), "mix", list(queries()))
    assert facts == {"conditions": list(queries()), "districts_without_new_orders": 0}
    loaded.execute("DELETE FROM new_order WHERE no_d_id = 1")
    assert check(context(cluster), "mix", [1, 3])["districts_without_new_orders"] == 2
    loaded.execute("DROP TABLE history")
    with pytest.raises(ServerError, match=r"could not be checked after step mix: .*history"):
        check(context(cluster), "mix", [8])


CORRUPTING = """from pgstrata.server.features import Features
from pgstrata.tproc_c.steps import TprocC
from pgstrata.workload.core.language import Admin


class Corrupting(TprocC):
    name = "corrupting"

    def phases(self, options, server):
        server = server if isinstance(server, Features) else Features(server)
        *phases, last = super().phases(options, server)
        return [*phases, Admin("corrupt", ["UPDATE warehouse SET w_ytd = w_ytd + 1"]), last]
"""


def test_a_violated_condition_fails_the_run(place: Path, pgstrata: Program) -> None:
    (place / "corrupting.py").write_text(CORRUPTING)
    done = pgstrata(
        "run", "--server", "pg:17", "--workload", "corrupting.py:Corrupting", "--set", "size=tiny",
        "--set", "clients=1", "--set", "seconds=1", "--set", "warmup=0", "--set", "warehouses=1",
    )  # fmt: skip
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert "condition 1 of TPC-C is violated: warehouse 1 has w_ytd" in output and "Traceback" not in output
    (run,) = Results(place / "results").runs()
    assert run.record.status == "failed"


def test_old_servers_are_left_out() -> None:
    options = TprocCOptions(size="tiny")
    with pytest.raises(NotInVersionError, match=r"tproc-c needs PostgreSQL 9\.1 or later"):
        TPROC_C.phases(options, Features(90_022))
    assert TPROC_C.phases(options, Features(90_600))


@pytest.mark.parametrize("turns", ["frozen", "rounds"])
def test_two_versions_take_turns(place: Path, pgstrata: Program, turns: str) -> None:
    file = place / "campaign.toml"
    file.write_text(
        f'servers = ["pg:13", "pg:17"]\norder = "interleaved"\nturns = "{turns}"\n'
        'until = "time"\nrounds = 2\nplacement = "free"\n[[workloads]]\nname = "tproc-c"\n'
        'options = { size = "tiny", warehouses = 2, '
        'clients = 2, transactions = "mix order-status", seconds = 1, warmup = 0.2 }\n'
    )
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    old, new = Results(place / "results").runs()
    for run in (old, new):
        mix, status = (step for step in run.steps if step.measured)
        assert mix.turns == turns and mix.slices and status.slices
        assert list(mix.headline.scripts) == list(WEIGHTS)
        for script in mix.headline.scripts.values():
            assert script.latency.p50 is not None and script.latency.p99 is not None
        facts = run.record.facts["tproc_c"]
        assert facts["mix"]["conditions"] == [1, 2, 3, 4]
        assert facts["order-status"]["conditions"] == list(queries())
    page = next((place / "results").rglob("*.html")).read_text()
    assert "New orders and transactions (tproc-c)" in page
    rows = next((place / "results").rglob("tproc-c.csv")).read_text().splitlines()
    assert len(rows) == 5 and "nopm" in rows[0]


@pytest.mark.program
def test_ctrl_c_leaves_nothing(place: Path) -> None:
    running = Running(
        place,
        ["run", "--server", "pg:17", "--workload", "tproc-c", "--set", "size=tiny", "--set", "seconds=30"],
    )
    running.wait_for_text("  keys")
    time.sleep(1)
    running.process.send_signal(2)
    assert running.end() == 130
    assert not living_in(place)
    assert not [run for run in Results(place / "results").runs() if run.done]


def test_new_orders_are_counted_without_those_rolled_back(place: Path, pgstrata: Program) -> None:
    for code in CODES:
        done = pgstrata(
            "run", "--server", "pg:17", "--workload", "tproc-c", "--scale", "count", "--results", code,
            "--set", f"code={code}", "--set", "transactions=new-order", "--set", "seconds=2",
            "--set", "warmup=0", "--no-report",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        (run,) = Results(place / code).runs()
        (step,) = (step for step in run.steps if step.measured)
        placed = new_orders(MeasuredStep(run, step))
        assert placed is not None
        assert 0.95 * step.operations < placed < step.operations

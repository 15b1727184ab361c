"""TPROC-C by HammerDB and by pgstrata taken apart: how much of the difference is the client's?

    .venv/bin/python benchmarks/hammerdb_apart.py ~/HammerDB --seconds 4 --slice 2 --out apart.jsonl

The sides lie between HammerDB and pgstrata, each one step from the side before:

- hammerdb: HammerDB, as in hammerdb.py;
- text: pgstrata's driver sends HammerDB's own calls, as text, to HammerDB's procedures and database;
- pausing: the same, and 200 µs of sleep before each transaction, about what HammerDB's client takes longer;
- prepared: the calls of `text`, prepared once by each connection;
- drawn: its procedure of new orders takes items, warehouses and quantities, which the driver draws;
- sets, functions: pgstrata's TPROC-C with its own tables and functions, `code` of either kind.

All stay connected and take turns in slices, forth and back. HammerDB and `text` send the same calls to the
same procedures: what differs between these two is the client's doing, or comes of it. With --pin clients and
server processes have a CPU each, so that no client empties the caches of a server process.
Needs what hammerdb.py needs. Each round is a line of --out; the same command goes on with the next.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from hammerdb import TITLES, Json, add_pairs, options, ratio, run
from hammerdb_sides import Connection, Side, numbers_of, serving, steps, working
from sensitivity.measure import begun
from tproc_c_calls import HAMMERDB, OURS

from pgstrata.tproc_c.options import TprocCOptions
from pgstrata.tproc_c.rules import SYLLABLES, WEIGHTS, NonUniform
from pgstrata.tproc_c.transactions import Terminal
from pgstrata.workload.core.language import (
    Expr,
    Headline,
    If,
    Op,
    Role,
    Script,
    Set,
    Sleep,
    Sql,
    Step,
    Value,
    Var,
)

TEXT, PAUSING, PREPARED, DRAWN = "text", "pausing", "prepared", "drawn"
SETS = "ours_sets"
SIDES = (HAMMERDB, TEXT, PAUSING, PREPARED, DRAWN, "sets", "functions")
SAME = ("server", "warehouses", "users", "seconds", "slice", "pin", "sides")

NAME = NonUniform(255, 123)
"""Numbers of last names as HammerDB draws them."""

TIME = "TO_TIMESTAMP('20261127190000','YYYYMMDDHH24MISS')::timestamp without time zone"
LINES = range(1, 16)


def last_name(number: int) -> str:
    """Returns the last name of a number from 0 to 999."""
    return "".join(SYLLABLES[int(digit)] for digit in f"{number:03}")


def call(text: str, expressions: dict[str, Value] | None = None) -> Sql:
    """Returns a call of a procedure. Names in braces are variables, or these expressions."""
    values: dict[str, Value] = {name: Var(name) for name in re.findall(r"\{(\w+)\}", text)}
    return Sql(f"call {text}", name=text.partition("(")[0], values=values | (expressions or {}))


def by_name(text: str, low: int = 0, high: int = 1000) -> Op:
    """Returns the call whose text has the last name of the number in `name`: variables hold numbers only."""
    if high - low == 1:
        return call(text.replace("NAME", last_name(low)))
    middle = (low + high) // 2
    lower, upper = by_name(text, low, middle), by_name(text, middle, high)
    return If((f":name < {middle}", [lower]), otherwise=[upper])


def by_name_or_number(text: str) -> list[Op]:
    """Returns what draws a customer, and the call with its last name or number."""
    return [
        Set("c", "random(1, 3000)"),
        Set("name", NAME.expression(0, 999)),
        If(
            ("random(1, 100) <= 60", [by_name(text.replace("BYNAME", "1"))]),
            otherwise=[call(text.replace("BYNAME", "0").replace("NAME", ""))],
        ),
    ]


def step(arguments: argparse.Namespace, side: str) -> Step:
    """Returns HammerDB's five transactions with its own calls, as a step of the driver."""
    warehouses = arguments.warehouses
    terminal = Terminal(TprocCOptions(warehouses=(warehouses,)), warehouses, arguments.users)
    order = f"{{w}},{warehouses},{{d}},{{c}},{{lines}},0.0,'','',0.0,0.0,0,{TIME}"
    by_line = {
        "item": "case when :failing = 1 and :lines = {line} then 100001 else random(1, 100000) end",
        "supply": terminal.elsewhere(1),
        "quantity": "random(1, 10)",
    }
    new_order = call(f"neword({order})")
    if side == DRAWN:
        arrays = [f"ARRAY[{','.join(f'{{{name}{line}}}' for line in LINES)}]" for name in by_line]
        drawn: dict[str, Value] = {
            f"{name}{line}": Expr(text.replace("{line}", str(line)), "int4")
            for name, text in by_line.items()
            for line in LINES
        }
        new_order = call(f"neword_drawn({order},{','.join(arrays)}::smallint[])", drawn)
    blanks = ",".join(["''"] * 18)
    customer = "payment({w},{d},{cw},{cd},BYNAME,{amount},'0','NAME',{c}"
    payment = f"{customer},{blanks},{TIME},0.0,0.0,0.0,'',{TIME})"
    status = f"ostat({{w}},{{d}},{{c}},BYNAME,'NAME','','',0.0,0,{TIME},0,'')"
    district = Set("d", "random(1, 10)")
    ops: dict[str, list[Op]] = {
        "new-order": [
            district,
            Set("c", "random(1, 3000)"),
            Set("lines", "random(5, 15)"),
            Set("failing", "random(1, 100)"),
            new_order,
        ],
        "payment": [
            district,
            Set("cw", terminal.elsewhere(15)),
            Set("cd", "case when :cw = :w then :d else random(1, 10) end"),
            Set("amount", "random(1, 5000)"),
            *by_name_or_number(payment),
        ],
        "order-status": [district, *by_name_or_number(status)],
        "delivery": [Set("carrier", "random(1, 10)"), call(f"delivery({{w}},{{carrier}},{TIME})")],
        "stock-level": [Set("threshold", "random(10, 20)"), call("slev({w},{home_d},{threshold},0)")],
    }
    pause = [Sleep("200", "us")] if side == PAUSING else []
    role = Role(
        "query",
        arguments.users,
        [Script(*ops[kind], before=pause, weight=weight, name=kind) for kind, weight in WEIGHTS.items()],
        mode="simple" if side in (TEXT, PAUSING) else "prepared",
        declare_types=True,
        start=terminal.home(),
    )
    return Step(side, [role], Headline("query", "operations", "transactions/min"), seconds=86_400)


def make_drawn(rows: Connection) -> None:
    """Makes a procedure of new orders that takes what HammerDB's draws, and is the same otherwise."""
    text = numbers_of(rows, "SELECT pg_get_functiondef('neword'::regproc)")[0]
    given = ("item_id_array integer[]", "supply_wid_array integer[]", "quantity_array smallint[]")
    drawn = """
    no_o_all_local := CASE WHEN no_w_id = ALL (supply_wid_array[1:no_o_ol_cnt]) THEN 1 ELSE 0 END;
    item_id_array := item_id_array[1:no_o_ol_cnt];
    supply_wid_array := supply_wid_array[1:no_o_ol_cnt];
    quantity_array := quantity_array[1:no_o_ol_cnt];
    order_line_array := (ARRAY[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15])[1:no_o_ol_cnt];
    UPDATE district SET"""
    for pattern, instead, count in (
        (r"\.neword\(", ".neword_drawn(", 1),
        (r"(tstamp timestamp without time zone)\)", rf"\1, IN {', IN '.join(given)})", 1),
        (r"(?m)^\s*(item_id_array|supply_wid_array|quantity_array)\s+\w+\[\];", "", 3),
        (r"(?s)--#2\.4\.1\.4.*?UPDATE district SET", drawn, 1),
    ):
        text, times = re.subn(pattern, instead, text)
        if times != count:
            raise SystemExit(f"HammerDB's procedure neword is another: {pattern} is there {times} times")
    rows.execute(text.encode())


def pin(sides: Iterable[Side]) -> None:
    """Lets clients run on the first CPU, and their server processes on the second."""
    for side in sides:
        for client in side.pids:
            for thread in Path(f"/proc/{client}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {0})
        for backend in side.backends:
            os.sched_setaffinity(backend, {1})


def measure(arguments: argparse.Namespace) -> None:
    """Makes what the file lacks, until the time is over."""
    until = time.monotonic() + arguments.hours * 3600
    missing = arguments.pairs - sum("nopm" in line for line in begun(arguments, SAME, lambda: {}))
    if missing <= 0:
        return
    with serving(arguments) as (cluster, scratch):
        with cluster.connect(HAMMERDB) as rows:
            make_drawn(rows)
        with cluster.connect() as admin:
            admin.execute(f"CREATE DATABASE {SETS} TEMPLATE {OURS}".encode())
        phases = ["create functions"]
        of_driver = {
            **{side: (HAMMERDB, step(arguments, side)) for side in (TEXT, PAUSING, PREPARED, DRAWN)},
            "sets": (SETS, steps(arguments, cluster, phases, code="sets", database=SETS)),
            "functions": (OURS, steps(arguments, cluster, phases)),
        }
        chosen = {side: of_driver[side] for side in arguments.sides if side != HAMMERDB}
        with working(arguments, cluster, chosen, scratch) as sides:
            if arguments.pin:
                pin(sides.values())
            add_pairs(arguments, sides, missing, until)


def table(lines: Sequence[Json]) -> str:
    """Returns medians by side, and ratios to HammerDB and to its calls by the driver, as Markdown."""
    rounds = [line for line in lines if "nopm" in line]
    if len(rounds) < 2:
        return ""
    rows = ["| | side | median | ÷ HammerDB | 95 % interval | ÷ text | 95 % interval |"]
    rows += ["|---|---|---:|---:|---:|---:|---:|"]
    for key, title in TITLES.items():
        for side in rounds[0][key]:
            median = statistics.median(line[key][side] for line in rounds)
            ratios = " | ".join(ratio(rounds, key, side, to) for to in (HAMMERDB, TEXT))
            rows.append(f"| {title} | {side} | {median:,.0f} | {ratios} |")
    return "\n".join([*rows, f"\n{len(rounds)} rounds"])


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--pin", action="store_true", help="clients on one CPU, server processes on another")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES, help="of the driver, by name")
    run(parser.parse_args(), measure, table)


if __name__ == "__main__":
    main()

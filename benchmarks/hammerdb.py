"""TPROC-C by HammerDB and by pgstrata on one server, in turns: is it the same work, at the same rate?

    .venv/bin/python benchmarks/hammerdb.py ~/HammerDB --out hammerdb.jsonl [--hours 1]
    .venv/bin/python benchmarks/hammerdb.py ~/HammerDB --out hammerdb.jsonl --print

HammerDB is its source, version 4 (5 needs Tcl 9), with Debian's packages tcl, tcl-thread, libpgtcl and
libsqlite3-tcl. Both sides have a database of their own on the same server with the same settings: HammerDB's
made by HammerDB, with its stored procedures, as its own scripts take them; it makes one warehouse, which is
copied to the others. As root HammerDB runs as the account of the servers.

First what each transaction is: each kind is called --calls times by SQL on either side, and the server says
which statements were executed for it and which rows were touched (pg_stat_statements, pg_stat_user_tables).
Then the mix: calls of each kind while each side works for a while (pg_stat_user_functions). Then pairs:
both clients stay connected; one is stopped (SIGSTOP) while the other works, in slices of --slice seconds, A
B B A, until each has worked --seconds. NOPM are orders that were placed, by the districts' own numbers; the
client's CPU is that of all its threads, the server's that of the processes of its connections (schedstat).
Reported are the geometric mean of the ratios pgstrata ÷ HammerDB of the pairs with Student's 95 % interval.

Each pair is a line of --out, written when it has ended; the same command goes on with the next.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hammerdb_sides import Side, numbers_of, serving, steps, working
from scipy.stats import t as student
from sensitivity.measure import append, begun, read
from tproc_c_calls import CALLS, HAMMERDB, NAMES, OURS

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.tproc_c.rules import WEIGHTS

Json = dict[str, Any]

SAME = ("server", "warehouses", "users", "seconds", "slice", "code")
"""Arguments that all lines of a file have in common."""

# --- what is measured --------------------------------------------------------------------------


def executed(arguments: argparse.Namespace, cluster: Cluster, name: str) -> dict[str, dict[str, float]]:
    """Returns statements and rows for one transaction of each kind, by what was done to which table."""
    draw = random.Random(1)
    by_kind: dict[str, dict[str, float]] = {}
    for kind in WEIGHTS:
        with cluster.connect(name) as admin:
            admin.execute("SELECT pg_stat_statements_reset()")
            admin.execute("SELECT pg_stat_reset()")
        with cluster.connect(name) as session:
            session.execute("SET pg_stat_statements.track = 'all'")
            for number in range(arguments.calls):
                session.execute(CALLS[name](kind, number, draw, arguments.warehouses).encode())
        with cluster.connect(name) as admin:
            statements = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE NOT toplevel"
            seen = {"statements": float(numbers_of(admin, statements)[0])}
            rows = admin.execute(
                "SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0), n_tup_ins, "
                "n_tup_upd, n_tup_del FROM pg_stat_user_tables ORDER BY 1"
            )
            for table, *numbers in rows.fetchall():
                verbs = zip(("read", "insert", "update", "delete"), numbers, strict=True)
                seen |= {f"{verb} {table}": float(n) for verb, n in verbs if n}
        by_kind[kind] = {what: round(number / arguments.calls, 3) for what, number in seen.items()}
    return by_kind


def mix(sides: Mapping[str, Side], seconds: float) -> dict[str, dict[str, int]]:
    """Returns how often each kind of transaction was called while each side worked for some seconds."""
    calls: dict[str, dict[str, int]] = {}
    for name, side in sides.items():
        query = "SELECT funcname, calls FROM pg_stat_user_functions"
        before = dict(side.database.execute(query).fetchall())
        side.go()
        time.sleep(seconds)
        side.stop()
        time.sleep(12)  # until idle sessions have told the server what they counted
        after = dict(side.database.execute(query).fetchall())
        calls[name] = {
            kind: after.get(function, 0) - before.get(function, 0) for function, kind in NAMES[name].items()
        }
    return calls


def pair(arguments: argparse.Namespace, sides: dict[str, Side]) -> Json:
    """Returns NOPM and CPU per order of all sides, measured in slices of equal length."""
    seconds, orders, client, server = (dict.fromkeys(sides, 0.0) for _ in range(4))
    for number in range(max(2, round(arguments.seconds / arguments.slice))):
        for name in sides if number % 2 == 0 else reversed(sides):
            side = sides[name]
            side.go()
            time.sleep(0.2)
            before = reading(side)
            time.sleep(arguments.slice)
            after = reading(side)
            side.stop()
            if after[1] == before[1] or side.connections() != arguments.users:
                working = f"{after[1] - before[1]:.0f} orders, {side.connections()} connections"
                raise SystemExit(f"{name} has stopped working ({working}):\n{side.last_words()}")
            for total, first, last in zip((seconds, orders, client, server), before, after, strict=True):
                total[name] += last - first
    return {
        "nopm": {name: 60 * orders[name] / seconds[name] for name in sides},
        "client": {name: 1e6 * client[name] / orders[name] for name in sides},
        "server": {name: 1e6 * server[name] / orders[name] for name in sides},
    }


def reading(side: Side) -> tuple[float, float, float, float]:
    """Returns the time, the orders, and the CPU of client and server."""
    return time.monotonic(), side.orders(), side.client_seconds(), side.server_seconds()


def add_pairs(arguments: argparse.Namespace, sides: dict[str, Side], missing: int, until: float) -> None:
    """Measures pairs and adds them to the file, until none is missing or the time is over."""
    for _ in range(missing):
        if time.monotonic() > until:
            print("its time is over; the same command goes on")
            return
        append(arguments.out, line := pair(arguments, sides))
        print(", ".join(f"{name} {line['nopm'][name]:,.0f} NOPM" for name in sides), flush=True)


def measure(arguments: argparse.Namespace) -> None:
    """Makes what the file lacks, until the time is over."""
    until = time.monotonic() + arguments.hours * 3600
    lines = begun(arguments, SAME, lambda: {})
    missing = arguments.pairs - sum("nopm" in line for line in lines)
    if missing <= 0:
        return
    with serving(arguments) as (cluster, scratch):
        step = steps(arguments, cluster, ["create functions"], code=arguments.code)
        ours = {OURS: (OURS, step)}
        if not any("executed" in line for line in lines):
            by_name = {name: executed(arguments, cluster, name) for name in (HAMMERDB, OURS)}
            append(arguments.out, {"executed": by_name})
        if not any("mix" in line for line in lines):
            with cluster.connect() as admin:
                admin.execute("ALTER SYSTEM SET track_functions = 'pl'")
                admin.execute("SELECT pg_reload_conf()")
            with working(arguments, cluster, ours, scratch) as sides:
                append(arguments.out, {"mix": mix(sides, arguments.slice * 2)})
            with cluster.connect() as admin:
                admin.execute("ALTER SYSTEM RESET track_functions")
                admin.execute("SELECT pg_reload_conf()")
        with working(arguments, cluster, ours, scratch) as sides:
            add_pairs(arguments, sides, missing, until)


# --- what is said ------------------------------------------------------------------------------

TITLES = {
    "nopm": "NOPM",
    "client": "CPU of the client per order, µs",
    "server": "CPU of its server processes per order, µs",
}


def table(lines: Sequence[Json]) -> str:
    """Returns what is there, as Markdown."""
    rows: list[str] = []
    for line in lines:
        if "executed" in line:
            rows += _executed(line["executed"])
        if "mix" in line:
            rows += _mix(line["mix"])
    pairs = [line for line in lines if "nopm" in line]
    return "\n".join([*rows, *(_pairs(pairs) if len(pairs) > 1 else [])])


def _executed(by_name: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[str]:
    yield "| transaction | | HammerDB | pgstrata |\n|---|---|---:|---:|"
    for kind, their_own in by_name[HAMMERDB].items():
        our_own = by_name[OURS][kind]
        for what in dict.fromkeys([*their_own, *our_own]):
            yield f"| {kind} | {what} | {their_own.get(what, 0):g} | {our_own.get(what, 0):g} |"


def _mix(by_name: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    yield "\n| transaction | share, HammerDB | share, pgstrata |\n|---|---:|---:|"
    for kind in WEIGHTS:
        shares = [100 * by_name[name][kind] / sum(by_name[name].values()) for name in (HAMMERDB, OURS)]
        yield f"| {kind} | {shares[0]:.1f} % | {shares[1]:.1f} % |"


def _pairs(pairs: Sequence[Json]) -> Iterator[str]:
    yield "\n| | HammerDB, median | pgstrata, median | pgstrata ÷ HammerDB | 95 % interval | pairs |"
    yield "|---|---:|---:|---:|---:|---:|"
    for key, title in TITLES.items():
        medians = [statistics.median(line[key][name] for line in pairs) for name in (HAMMERDB, OURS)]
        both = " | ".join(f"{median:,.0f}" for median in medians)
        yield f"| {title} | {both} | {ratio(pairs, key, OURS)} | {len(pairs)} |"


def ratio(pairs: Sequence[Json], key: str, name: str, to: str = HAMMERDB) -> str:
    """Returns the geometric mean of a side's ratios to another side, and its interval, as columns."""
    logs = [math.log(line[key][name] / line[key][to]) for line in pairs]
    middle = statistics.fmean(logs)
    reach = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(middle):.3f} | {math.exp(middle - reach):.3f} – {math.exp(middle + reach):.3f}"


def options(text: str | None) -> argparse.ArgumentParser:
    """Returns the options of what measures beside HammerDB. text: its description."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hammerdb", type=Path, help="folder of HammerDB's source")
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--warehouses", type=int, default=10)
    parser.add_argument("--users", type=int, default=2, help="virtual users of each side")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60, help="of each side in a pair")
    parser.add_argument("--slice", type=float, default=5, help="seconds of a slice")
    parser.add_argument("--keep", type=Path, help="folder for the loaded data, which the next call takes")
    parser.add_argument("--hours", type=float, default=2, help="no pair is begun later")
    parser.add_argument("--out", type=Path, default=Path("hammerdb.jsonl"))
    parser.add_argument("--print", action="store_true", help="only the tables of what is there")
    return parser


def run(
    arguments: argparse.Namespace,
    measure: Callable[[argparse.Namespace], None],
    table: Callable[[Sequence[Json]], str],
) -> None:
    """Measures what the file lacks, unless --print is given, and prints its table."""
    arguments.hammerdb = arguments.hammerdb.resolve()
    if not arguments.print:
        if not shutil.which("tclsh") or not (arguments.hammerdb / "hammerdbcli").is_file():
            raise SystemExit("this needs tclsh and a folder with hammerdbcli")
        measure(arguments)
    print(table(read(arguments.out)))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--code", default="functions", help="of pgstrata's transactions")
    parser.add_argument("--calls", type=int, default=55, help="of each kind, to see what is executed")
    run(parser.parse_args(), measure, table)


if __name__ == "__main__":
    main()

"""The same workload by pgbench or sysbench and by pgstrata on one server: is it the same load?

    .venv/bin/python benchmarks/paired_rates.py               every pair, about ten minutes
    .venv/bin/python benchmarks/paired_rates.py --pairs tpcb  only those whose name contains `tpcb`

One server, one database. Both sides have one thread and one connection, on which they wait for each answer,
so neither can be ahead by its engine: what differs is the work of the client, which is in every round trip.
Slices alternate, A B B A, so what drifts on the machine is on both sides. First each side runs a fixed
number of events: the normalised statements with their calls per event in pg_stat_statements must be the
same, and the rows they touch must be, within a tenth; the column says so. Then the ratio pgstrata/peer of
the rates: geometric mean over the pairs of neighbouring slices with the 95 % interval of Student's t over
the logarithms. Beside it the ratio to be expected from the client's CPU alone: 1 + what pgstrata uses less
per operation, in parts of the peer's round trip. A pair is `same` where the interval reaches into the
range from 1 to that ratio; nothing is said where it is wider than 20 %: more rounds, or a quieter machine.
"""

from __future__ import annotations

import math
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psycopg
from client_cpu import Sample, Target, drive, pgbench, sysbench
from peers import ROWS, options, serving
from scipy.stats import t as student

from pgstrata.driver.message import document
from pgstrata.driver.path import find_driver
from pgstrata.server.features import NEWEST
from pgstrata.server.find.acquire import acquire
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step

SCALE, EVENTS = 10, 200

CONFIG = """
shared_buffers = 1GB
max_wal_size = 8GB
checkpoint_timeout = 3600s
synchronous_commit = off
autovacuum = off
shared_preload_libraries = pg_stat_statements
"""

SYSBENCH = {
    "point-query": ("oltp_point_select",),
    "read-only=100": ("oltp_read_only", "--range-size=100"),
    **{
        f"read-only-{kind}": (
            "oltp_read_only",
            "--range-size=1000",
            *(f"--{other}-ranges={int(other == kind)}" for other in ("simple", "sum", "order", "distinct")),
        )
        for kind in ("simple", "sum", "order", "distinct")
    },
    "read-write=10": ("oltp_read_write", "--range-size=10"),
    "write-only": ("oltp_write_only",),
    "update-index": ("oltp_update_index",),
    "update-nonindex": ("oltp_update_non_index",),
    "delete": ("oltp_delete",),
    "insert": ("oltp_insert",),
}
"""Microbenchmark: the script of Debian's package, and its options."""


@dataclass(frozen=True)
class Pair:
    """theirs: a slice of the peer with so many clients. theirs_fixed: its command for EVENTS events."""

    name: str
    peer: str
    step: Step
    theirs: Callable[[Target, int], Sample]
    theirs_fixed: Callable[[Target], list[str]]


def pgbench_command(target: Target, builtin: str) -> list[str]:
    where = ["-h", target.host, "-p", str(target.port), "-U", "postgres"]
    return ["pgbench", *where, "-n", "-M", "prepared", "-b", builtin, "-t", str(EVENTS), "bench"]


def sysbench_command(target: Target, script: Sequence[str]) -> list[str]:
    where = [f"--pgsql-host={target.host}", f"--pgsql-port={target.port}", "--pgsql-user=postgres"]
    many = ["--tables=1", f"--table-size={ROWS}", "--rand-type=uniform", "--time=0", f"--events={EVENTS}"]
    return ["sysbench", script[0], "--db-driver=pgsql", "--pgsql-db=bench", *where, *many, *script[1:], "run"]


def pairs() -> Iterator[Pair]:
    """Every built-in script of pgbench, and the scripts sysbench and the suite have in common."""
    built_in = {"modes": ["prepared"], "clients": [1], "scale": SCALE, "initialise": False}
    for step in steps("pgbench", built_in):
        name = step.name.removesuffix("-prepared-c1")
        yield Pair(name, "pgbench", step, pgbench(name), partial(pgbench_command, builtin=name))
    suite = {"tables": 1, "rows": ROWS, "clients": 1, "steps": list(SYSBENCH)}
    for step in steps("sysbench", suite):
        script = SYSBENCH[step.name]
        yield Pair(step.name, "sysbench", step, sysbench(*script), partial(sysbench_command, script=script))


def steps(workload: str, options: dict[str, Any]) -> list[Step]:
    """The measured steps of a workload, as a campaign would run them."""
    chosen = catalog.find(workload)
    phases = chosen.phases(chosen.Options.model_validate(options), NEWEST)
    return [phase for phase in phases if isinstance(phase, Step) and phase.measured]


def ours(pair: Pair, target: Target, seed: int) -> Sample:
    spec = replace(pair.step, seconds=target.seconds, warmup=0).spec()
    return drive(target, {**document(spec), "seed": seed})


def ours_fixed(pair: Pair, target: Target) -> None:
    roles = [replace(role, operations=EVENTS) for role in pair.step.roles]
    spec = replace(pair.step, roles=roles, seconds=None, warmup=0).spec()
    drive(target, document(spec))


def calls(admin: psycopg.Connection[Any], run: Callable[[], object]) -> tuple[dict[str, float], float]:
    """Statement → calls per event, of what the server saw while this ran; and rows of all of them."""
    admin.execute("SELECT pg_stat_statements_reset()")
    run()
    rows = admin.execute(
        "SELECT query, sum(calls), sum(rows) FROM pg_stat_statements WHERE query ~ 'sbtest1|pgbench_' "
        "AND query !~ 'count\\(|pg_stat|pg_catalog|information_schema' GROUP BY query"
    ).fetchall()
    return {query: float(number) / EVENTS for query, number, _ in rows}, sum(float(r[2]) for r in rows)


@dataclass(frozen=True)
class Compared:
    """Rates per second, their ratio pgstrata/peer with its interval, the ratio expected from client CPU."""

    alike: bool
    statements: int
    their_rate: float
    our_rate: float
    ratio: float
    low: float
    high: float
    expected: float

    @property
    def word(self) -> str:
        if self.high > 1.2 * self.low:
            return "too noisy to say"
        same = self.low <= max(1.0, self.expected) and self.high >= min(1.0, self.expected)
        return "same" if same else "differs"


def compare(pair: Pair, target: Target, admin: psycopg.Connection[Any], rounds: int) -> Compared:
    def peer_fixed() -> None:
        subprocess.run(pair.theirs_fixed(target), check=True, capture_output=True)

    seen, their_rows = calls(admin, peer_fixed)
    also_seen, our_rows = calls(admin, lambda: ours_fixed(pair, target))
    # keys that are not there would make a peer look fast
    alike = seen == also_seen and abs(their_rows - our_rows) <= 0.1 * max(their_rows, our_rows)
    mine: list[Sample] = []
    peers: list[Sample] = []
    for i in range(rounds):
        for side in "ab" if i % 2 == 0 else "ba":
            if side == "a":
                peers.append(pair.theirs(target, 1))
            else:
                mine.append(ours(pair, target, i + 1))
    logs = [math.log(m.rate / p.rate) for m, p in zip(mine, peers, strict=True)]
    middle = statistics.fmean(logs)
    reach = float(student.ppf(0.975, rounds - 1)) * statistics.stdev(logs) / math.sqrt(rounds)
    # a round trip of the one connection takes 1 ÷ rate; the client's part of it is its CPU
    saved = [(p.cpu - m.cpu) * p.rate / 1e6 for m, p in zip(mine, peers, strict=True)]
    return Compared(
        alike,
        len(seen),
        statistics.median(p.rate for p in peers),
        statistics.median(m.rate for m in mine),
        math.exp(middle),
        math.exp(middle - reach),
        math.exp(middle + reach),
        1 + statistics.median(saved),
    )


def main() -> None:
    args = options(__doc__ or "", seconds=2, rounds=8).parse_args()
    with (
        serving(acquire(args.server), CONFIG, SCALE) as cluster,
        cluster.connect("bench") as admin,
    ):
        admin.execute("CREATE EXTENSION pg_stat_statements")
        target = Target(str(cluster.socket_dir), cluster.port, args.seconds, args.engine, find_driver())
        print("| work | peer | statements | peer/s | pgstrata/s | ratio | 95 % interval | by client CPU | |")
        print("|---|---|---|---:|---:|---:|---:|---:|---|", flush=True)
        for pair in pairs():
            if args.pairs not in pair.name:
                continue
            admin.execute("VACUUM ANALYZE")
            admin.execute("CHECKPOINT")
            r = compare(pair, target, admin, args.rounds)
            print(
                f"| {pair.name} | {pair.peer} | {r.statements}, {'alike' if r.alike else 'NOT ALIKE'} "
                f"| {r.their_rate:,.0f} | {r.our_rate:,.0f} | {r.ratio:.3f} | {r.low:.3f} – {r.high:.3f} "
                f"| {r.expected:.3f} | {r.word} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

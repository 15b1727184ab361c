"""The Insert Benchmark: a table used as a queue, written at its head and deleted at its tail.

The pattern is hard on the planner (the smallest key sits behind dead index entries), on vacuum and
on checkpoints. docs/reference/insert-benchmark.md explains each step and where it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pgstrata.driver.spec import LockstepSpec
from pgstrata.server.features import NEWEST, Feature, Features
from pgstrata.step_names import point_name
from pgstrata.workload.core.curve import curve_phases
from pgstrata.workload.core.language import (
    Admin,
    Every,
    Expr,
    Fill,
    FixedRate,
    Headline,
    Mode,
    Now,
    Op,
    Phase,
    Pick,
    Repeat,
    Role,
    Script,
    Set,
    Settle,
    Sleep,
    Sql,
    Step,
    Uniform,
    Value,
    Var,
)
from pgstrata.workload.core.options import NotInVersionError, RunCost, WorkloadOptions, need_feature
from pgstrata.workload.insert.options import ROWS_BEFORE_INDEXES, InsertOptions

#: Inserts and deletes of one client are never further apart than this many statements.
AHEAD = 8
_WRITERS = LockstepSpec(roles=["insert", "delete"], ahead=AHEAD)
#: More statements than any step has.
_NEVER = 2**31 - 1


# --- the table ---------------------------------------------------------------------------------


def create_table(table: str, partitions: int, rows_per_partition: int) -> list[str]:
    """Returns the statements that make one table; ids are handed out to a connection 1000 at a time."""
    by_range = " PARTITION BY RANGE (transactionid)" if partitions else ""
    statements = [
        f"CREATE TABLE {table} ("
        "transactionid bigserial PRIMARY KEY, "
        "dateandtime timestamp without time zone, "
        "cashregisterid int NOT NULL, "
        "customerid int NOT NULL, "
        "productid int NOT NULL, "
        "price int NOT NULL, "
        f"data varchar(4000)){by_range}",
        f"ALTER SEQUENCE {table}_transactionid_seq CACHE 1000",
    ]
    for n in range(partitions):
        end = (n + 1) * rows_per_partition if n < partitions - 1 else "MAXVALUE"
        statements.append(
            f"CREATE TABLE {table}_p{n} PARTITION OF {table} "
            f"FOR VALUES FROM ({n * rows_per_partition}) TO ({end})"
        )
    return statements


#: Name after the table's, and columns, of the secondary indexes, in the order they are made.
SECONDARY_INDEXES = (
    ("marketsegment", "productid, customerid, price"),
    ("registersegment", "cashregisterid, customerid, price"),
    ("pdc", "price, dateandtime, customerid"),
)


def _table(o: InsertOptions) -> dict[str, Value]:
    """Returns the value of {t}: the number in the table's name, the client's own or 1."""
    return {"t": Pick("client" if o.tables == "per-client" else "1", 1, o.table_count)}


def _insert(o: InsertOptions, rows: int) -> Sql:
    return Sql(
        "INSERT INTO pi{t} (dateandtime,cashregisterid,customerid,productid,price,data) VALUES {rows}",
        name="insert",
        values=_table(o),
        rows=Repeat(
            rows,
            "({now},{cashregister},{customer},{product},{price}.00,{data})",
            now=Now(),
            cashregister=Uniform(0, o.cashregisters - 1),
            customer=Uniform(0, o.customers - 1),
            product=Uniform(0, o.products - 1),
            # The original formats the price as a decimal, and the server casts it to the column's int.
            price=Uniform(0, o.prices - 1),
            # 0.75 as in the original, whose random characters were base64 of that many bytes
            data=Fill(o.data_length_min, o.data_length_max, 0.75 * o.data_random),
        ),
    )


# --- roles -------------------------------------------------------------------------------------


def _inserter(
    o: InsertOptions, clients: int, batch: int, *, operations: int | None, rate: int | None
) -> Role:
    return Role(
        "insert",
        clients,
        [Script(_insert(o, batch))],
        operations=operations,
        rate=None if rate is None else FixedRate(math.ceil(rate / batch)),
        target_rows=None if rate is None else float(rate * clients),
    )


def _read_min(o: InsertOptions, into: str = "min_id") -> Sql:
    return Sql(
        "SELECT min(transactionid) FROM pi{t}",
        name="min",
        counted=False,
        into=[into],
        mode="simple",
        values=_table(o),
    )


def _find_tail(o: InsertOptions, clients: int, batch: int) -> tuple[list[Op], list[Op]]:
    """Returns how deleters of `batch` rows find the tail of the queue: before the step, and within it.

    Clients that share a table delete stripes of it, else all of them would want the same rows and wait
    for each other's locks: of each `clients × batch` ids behind where the step began, client i takes
    the i-th `batch`. A client that is ahead of the slowest stays where it is when it reads the tail.
    """
    if o.tables == "per-client" or clients == 1:
        return [], [_read_min(o)]
    stripe, offset = clients * batch, f":client_id * {batch}"
    tail = f":begin + (:tail - :begin) / {stripe} * {stripe} + {offset}"
    return (
        [_read_min(o, "begin"), Set("min_id", f":begin + {offset}")],
        [_read_min(o, "tail"), Set("min_id", f"greatest(:min_id, {tail})")],
    )


def _deleter(o: InsertOptions, clients: int, batch: int, *, operations: int | None, rate: int | None) -> Role:
    stride = batch * (clients if o.tables == "shared" else 1)
    begin, find_tail = _find_tail(o, clients, batch)
    return Role(
        "delete",
        clients,
        [
            Script(
                # Simple protocol with literals: the planner must see each MIN anew.
                Sql(
                    "DELETE FROM pi{t} WHERE transactionid IN (SELECT transactionid FROM pi{t} "
                    f"WHERE transactionid >= {{min}} ORDER BY transactionid ASC LIMIT {batch})",
                    name="delete",
                    values=_table(o),
                    min=Var("min_id", "int8"),
                ),
                Set("min_id", f":min_id + {stride}"),
                # The first read belongs to the step: finding the tail is what the benchmark shows.
                before=[Every(o.min_refresh or _NEVER, *find_tail, first=True)],
            )
        ],
        operations=operations,
        rate=None if rate is None else FixedRate(math.ceil(rate / batch)),
        target_rows=None if rate is None else float(rate * clients),
        start=begin,
    )


@dataclass(frozen=True)
class _Query:
    """A prepared query of n ints, all drawn alike, {ids} in its text. statement: what PREPARE calls it."""

    name: str
    statement: str
    text: str
    value: Expr
    n: int = 1

    def ops(self, o: InsertOptions) -> tuple[list[Sql], Sql]:
        """Returns how the query is prepared before the step, and how it is sent, as option query_protocol
        says."""
        if o.query_protocol == "extended":
            values = Repeat(self.n, "{id}", id=self.value)
            return [], Sql(self.text, name=self.name, values=_table(o), ids=values)
        numbered = ",".join(f"${i}" for i in range(1, self.n + 1))
        types = ",".join(["int"] * self.n)
        prepare = f"PREPARE {self.statement} ({types}) AS {self.text.replace('{ids}', numbered)}"
        arguments = Repeat(self.n, "{id}", id=self.value)
        return (
            [Sql(prepare, name="prepare", counted=False, values=_table(o))],
            Sql(f"execute {self.statement} ({{ids}})", name=self.name, ids=arguments),
        )


def _query_mode(o: InsertOptions) -> Mode:
    return "prepared" if o.query_protocol == "extended" else "simple"


def _range_queries(o: InsertOptions, clients: int) -> Role:
    def query(name: str, statement: str, columns: str, first: str, comparison: str, values: int) -> _Query:
        text = f"SELECT {columns} FROM pi{{t}} WHERE {first} {comparison} {{ids}} ORDER BY {columns}"
        return _Query(name, statement, f"{text} LIMIT {o.limit}", Uniform(0, values - 1))

    prices = query("pdc", "pdc_query_ps", "price,dateandtime,customerid", "price", ">=", o.prices)
    products = query(
        "marketsegment", "market_query_ps", "productid,customerid,price", "productid", ">=", o.products
    )
    registers = query(
        "registersegment",
        "register_query_ps",
        "cashregisterid,customerid,price",
        "cashregisterid",
        ">",
        o.cashregisters,
    )
    start: list[Op] = []
    scripts = []
    for range_query in (prices, products, registers):
        prepare, send = range_query.ops(o)
        start += prepare
        scripts.append(Script(send, name=range_query.name))
    return Role("query", clients, scripts, mode=_query_mode(o), reads_only=True, start=start)


def _point_queries(o: InsertOptions, clients: int, *, deleted: bool) -> Role:
    """Returns the role that sends point queries. deleted: a role that deletes keeps min_id; else this role
    reads it, once."""
    read_max = Sql(
        "SELECT max(transactionid) FROM pi{t}",
        name="max",
        counted=False,
        into=["max_id"],
        mode="simple",
        values=_table(o),
    )
    # Until the deleter has found the tail, where it must be about; reading it here as well would
    # leave the deleter an index that was just cleaned of its dead entries.
    about = Set("min_id", f"greatest(1, :max_id - {o.loaded_rows() // o.table_count})")
    # The largest id is not drawn, as in the original. Where the queue is empty there is no id to draw.
    expr = Expr("random(:min_id, greatest(:max_id - 1, :min_id))", "int8")
    text = "SELECT transactionid,productid,data FROM pi{t} WHERE transactionid IN ({ids})"
    prepare, send = _Query("point", "pk_query_ps", text, expr, o.point_ids).ops(o)
    before = [Every(o.max_refresh, read_max)] if o.max_refresh else []
    return Role(
        "query",
        clients,
        [Script(send, before=before, name="point")],
        mode=_query_mode(o),
        reads_only=True,
        start=[*prepare, read_max, about if deleted else _read_min(o)],
    )


def _htap(o: InsertOptions, clients: int) -> list[Role]:
    if not o.htap_seconds:
        return []
    return [
        Role(
            "htap",
            clients,
            [
                Script(
                    Sql("BEGIN"),
                    Sql("SELECT * FROM pi{t} LIMIT 1", name="htap", values=_table(o)),
                    # microseconds, because the sleep takes an integer
                    Sleep(str(round(o.htap_seconds * 1e6)), "us"),
                    Sql("COMMIT"),
                )
            ],
        )
    ]


# --- steps -------------------------------------------------------------------------------------


def _recorded_tables(o: InsertOptions) -> list[str]:
    return [
        name for table in o.table_names for name in (table, *(f"{table}_p{n}" for n in range(o.partitions)))
    ]


def l_i0(o: InsertOptions) -> Step:
    return Step(
        "l.i0",
        [_inserter(o, o.most_clients, o.batch_i0, operations=o.statements(o.rows, o.batch_i0), rate=None)],
        Headline("insert", "rows", "rows/s"),
        tables=_recorded_tables(o),
        group="load",
        load=True,
        estimated_seconds=o.rows / _ROWS_PER_SECOND["l.i0"],
        summary="Loads the rows into tables without secondary indexes.",
    )


def l_x(o: InsertOptions) -> Step:
    """Returns the step l.x: one connection for each table; with one shared table its indexes are made
    once."""
    indexes = [
        Sql(f"CREATE INDEX pi{{t}}_{name} ON pi{{t}} ({columns})", name=name, values=_table(o))
        for name, columns in SECONDARY_INDEXES
    ]
    return Step(
        "l.x",
        [Role("index", o.table_count, [Script(_insert(o, ROWS_BEFORE_INDEXES), *indexes)], operations=1)],
        Headline("index", "operations", "indexed rows/s", fixed=float(o.loaded_rows())),
        tables=_recorded_tables(o),
        group="load",
        load=True,
        estimated_seconds=o.rows / _ROWS_PER_SECOND["l.x"],
        summary="Creates the secondary indexes.",
    )


def l_i(o: InsertOptions, name: str, rows: int, batch: int) -> Step:
    """Returns the steps l.i1 and l.i2: inserts and deletes until the rows are in."""
    operations = o.statements(rows, batch)
    return Step(
        name,
        [
            _inserter(o, o.most_clients, batch, operations=operations, rate=None),
            _deleter(o, o.most_clients, batch, operations=operations, rate=None),
            *_htap(o, o.most_clients),
        ],
        Headline("insert", "rows", "rows/s"),
        lockstep=[_WRITERS],
        shared=["min_id"],
        tables=_recorded_tables(o),
        group="write",
        estimated_seconds=rows / _ROWS_PER_SECOND[name],
        summary=f"Inserts rows and deletes as many, {batch} in each transaction.",
    )


def queries(o: InsertOptions, name: str, kind: str, rate: int, clients: int) -> Step:
    """Returns the steps qr… and qp…: queries as fast as possible in front of inserts and deletes at a fixed
    rate."""
    writers = (
        [
            _inserter(o, clients, o.batch_q, operations=None, rate=rate),
            _deleter(o, clients, o.batch_q, operations=None, rate=rate),
        ]
        if rate
        else []
    )
    reader = _range_queries(o, clients) if kind == "range" else _point_queries(o, clients, deleted=rate > 0)
    return Step(
        point_name(name, clients) if len(o.clients) > 1 else name,
        [reader, *writers, *_htap(o, clients)],
        Headline("query", "operations", "queries/s"),
        seconds=o.seconds,
        lockstep=[_WRITERS] if rate else [],
        shared=["min_id"],
        tables=_recorded_tables(o),
        group="range queries" if kind == "range" else "point queries",
        reads_only=not rate,
        summary=f"{'Range' if kind == 'range' else 'Point'} queries"
        + (f" while {rate} rows/s are inserted and deleted for each client." if rate else ", nothing else."),
    )


def _query_phases(o: InsertOptions) -> list[Phase]:
    phases: list[Phase] = []
    seen: dict[str, int] = {}
    for text in o.steps:
        rate, kind = text.split(":")
        name = f"q{kind[0]}{int(rate)}"
        seen[name] = seen.get(name, 0) + 1
        # A step asked for twice gets a name of its own: names tell steps apart in results.
        name = name if seen[name] == 1 else f"{name}-{seen[name]}"
        at = partial(_query_phase, o, name, kind, int(rate))
        phases += curve_phases(name, o.clients, o.refine, at)
    return phases


def _query_phase(o: InsertOptions, name: str, kind: str, rate: int, clients: int) -> list[Phase]:
    return [queries(o, name, kind, rate, clients)]


#: Rows per second over all clients, a small current server on two cores: for estimates only.
_ROWS_PER_SECOND: Mapping[str, float] = {"l.i0": 150e3, "l.x": 500e3, "l.i1": 25e3, "l.i2": 12e3}


class InsertBenchmark:
    """The Insert Benchmark, steps l.i0, l.x, l.i1, l.i2 and the query steps."""

    name = "insert"
    summary = "Insert Benchmark: load, index, insert and delete, then queries with writes behind them"
    Options: type[WorkloadOptions] = InsertOptions
    scales: Mapping[str, Mapping[str, Any]] = {
        "count": {"rows": 20_000, "rows_i1": 5_000, "rows_i2": 1_000, "seconds": 1, "settle_base": 0},
        "quick": {"rows": 100_000, "rows_i1": 20_000, "rows_i2": 5_000, "seconds": 2, "settle_base": 1},
        "demo": {"rows": 500_000, "rows_i1": 200_000, "rows_i2": 50_000, "seconds": 10, "settle_base": 5},
        "small": {
            "rows": 1_000_000,
            "rows_i1": 400_000,
            "rows_i2": 100_000,
            "seconds": 60,
            "settle_base": 20,
        },
        "medium": {"rows": 20_000_000},
        "large": {"rows": 800_000_000, "rows_i1": 4_000_000, "rows_i2": 1_000_000},
    }

    def phases(self, options: InsertOptions, server: Features) -> list[Phase]:
        o = options
        need_feature(server, Feature.MULTIROW_VALUES, "insert", "older ones insert one row per statement")
        if o.partitions and not server.has(Feature.PARTITIONED_KEYS):
            raise NotInVersionError(
                f"Option partitions = {o.partitions} needs PostgreSQL 11 or later "
                f"(older versions have no primary keys on partitioned tables).",
                "Leave out this version, or set partitions = 0.",
            )
        per_partition = o.rows_per_partition or math.ceil(o.rows / o.table_count / max(o.partitions, 1))
        create = [s for t in o.table_names for s in create_table(t, o.partitions, per_partition)]
        if o.indexes == "before-load":
            create += [
                f"CREATE INDEX {t}_{name} ON {t} ({columns})"
                for t in o.table_names
                for name, columns in SECONDARY_INDEXES
            ]
        phases: list[Phase] = [Admin("create tables", create), l_i0(o)]
        if o.indexes == "after-load":
            phases.append(l_x(o))
        if o.i1_rows:
            phases.append(l_i(o, "l.i1", o.i1_rows, o.batch_i1))
        if o.i2_rows:
            phases.append(l_i(o, "l.i2", o.i2_rows, o.batch_i2))
        phases.append(Settle(o.table_names, o.settle_seconds))
        phases += _query_phases(o)
        return phases

    def estimate(self, options: InsertOptions) -> RunCost:
        """Returns the cost: seconds from typical rates; bytes from the widths of rows and index entries.

        A row takes 24 bytes of header, 4 of line pointer, 32 of fixed columns and its data; entries of
        the primary key 20 bytes, of the secondary indexes 24 to 28, in pages about 70 % full once
        entries were inserted out of order. Dead rows that wait for vacuum: as much as l.i1 writes, but
        at most half the table. Write-ahead log: 1 GiB, or what the load writes if that is less.
        """
        o = options
        steps: Sequence[Phase] = self.phases(o, NEWEST)
        seconds = sum(
            (p.seconds or p.estimated_seconds or 0.0) if isinstance(p, Step) else p.seconds
            for p in steps
            if isinstance(p, Step | Settle)
        )
        per_row = 24 + 4 + 32 + (o.data_length_min + o.data_length_max) / 2 + 4 + 20 / 0.9 + 3 * 26 / 0.7
        table = (o.rows + min(o.i1_rows, o.rows / 2)) * per_row
        return RunCost(seconds, int(table + min(2**30, 3 * table) + 40e6))

"""The sysbench microbenchmarks: most of them one SQL statement, all against the same tables.

`PRE`, `WRITES`, `POST`, `EXTRAS` and `LAST` below are the suite; each entry is what one event of a
microbenchmark does. docs/reference/sysbench.md explains them. As with sysbench integers are declared as int8
although the columns are int4, and texts as varchar although they are char: with long IN lists it decides
between a generic and a custom plan, and an update converts the text.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import model_validator

from pgstrata.numbers import counted
from pgstrata.server.features import NEWEST, Feature, Features
from pgstrata.step_names import CLIENTS, point_name
from pgstrata.suggest import nearest
from pgstrata.workload.core.curve import curve_phases
from pgstrata.workload.core.language import (
    Expr,
    Headline,
    Op,
    Phase,
    Pick,
    Repeat,
    Role,
    Script,
    Set,
    Settle,
    Sql,
    Step,
    Value,
    Var,
)
from pgstrata.workload.core.options import RunCost, WorkloadOptions, need_feature
from pgstrata.workload.sysbench.load import PAD, C, key, load
from pgstrata.workload.sysbench.options import TableOptions

#: Errors after which sysbench starts the event again: deadlock, serialization failure, and the
#: unique violation of two clients that delete and insert the same id.
RETRIED = ("40P01", "40001", "23505")

# --- what events are made of -------------------------------------------------------------------


def _on_a_table(o: TableOptions, *statements: Callable[[dict[str, Value]], Sequence[Op]]) -> list[Op]:
    """Returns statements that share one table, drawn uniformly; {t} in their text is its number."""
    ops: list[Op] = [Set("t", f"random(1, {o.tables})")] if o.tables > 1 else []
    table: dict[str, Value] = {"t": Pick("t" if o.tables > 1 else "1", 1, o.tables)}
    for statement in statements:
        ops += statement(table)
    return ops


def points(o: TableOptions, n: int) -> list[Op]:
    """Returns n point selects."""
    text = "SELECT c FROM sbtest{t} WHERE id={id}"
    return _on_a_table(o, *[lambda t: [Sql(text, name="point-select", values=t, id=key(o))]] * n)


def in_list(o: TableOptions, columns: str, column: str, n: int, keys: Value | None = None) -> list[Op]:
    """Returns one select of n keys, uniform unless given."""
    sql = f"SELECT {columns} FROM sbtest{{t}} WHERE {column} IN ({{keys}})"
    many = keys or Repeat(n, "{key}", ", ", key=key(o))
    return _on_a_table(o, lambda t: [Sql(sql, name="select", values=t, keys=many)])


def hot_points(o: TableOptions, n: int) -> list[Op]:
    """Returns one select of n keys that are always the same: consecutive ones in the middle of the table."""
    keys = {f"key{i}": Expr(str(o.rows // 2 + i)) for i in range(1, n + 1)}
    in_braces = ", ".join(f"{{{name}}}" for name in keys)
    sql = f"SELECT c FROM sbtest{{t}} WHERE id IN ({in_braces})"
    return _on_a_table(o, lambda t: [Sql(sql, name="select", values={**t, **keys})])


def between(
    o: TableOptions, select: str, column: str, width: int, after: str = "", name: str = "select"
) -> list[Op]:
    """Returns one select of the range [low, low + width], low uniform."""
    sql = f"SELECT {select} FROM sbtest{{t}} WHERE {column} BETWEEN {{low}} AND {{high}}{after}"
    low, high = Var("low", "int8"), Expr(f":low + {width}")
    return _on_a_table(
        o,
        lambda t: [Set("low", f"random(1, {o.rows})"), Sql(sql, name=name, values=t, low=low, high=high)],
    )


# The four ranges of the read-only family, and the count: [id, id + size − 1].


def simple_range(o: TableOptions, size: int) -> list[Op]:
    return between(o, "c", "id", size - 1, name="simple-range")


def sum_range(o: TableOptions, size: int) -> list[Op]:
    return between(o, "SUM(k)", "id", size - 1, name="sum-range")


def order_range(o: TableOptions, size: int) -> list[Op]:
    return between(o, "c", "id", size - 1, " ORDER BY c", name="order-range")


def distinct_range(o: TableOptions, size: int) -> list[Op]:
    return between(o, "DISTINCT c", "id", size - 1, " ORDER BY c", name="distinct-range")


def count_range(o: TableOptions, size: int) -> list[Op]:
    return between(o, "count(c)", "id", size - 1, name="count-range")


def reads(o: TableOptions, size: int) -> list[Op]:
    """Returns the ops of read-only between BEGIN and COMMIT."""
    ranges = (simple_range, sum_range, order_range, distinct_range)
    return points(o, 10) + [op for range_ops in ranges for op in range_ops(o, size)]


def update_inlist(o: TableOptions, n: int) -> list[Op]:
    sql = "UPDATE sbtest{t} SET c={c} WHERE id IN ({keys})"
    keys = Repeat(n, "{key}", ", ", key=key(o))
    return _on_a_table(o, lambda t: [Sql(sql, name="update", values=t, c=C, keys=keys)])


def update_index(o: TableOptions) -> list[Op]:
    sql = "UPDATE sbtest{t} SET k=k+1 WHERE id={id}"
    return _on_a_table(o, lambda t: [Sql(sql, name="update-index", values=t, id=key(o))])


def update_nonindex(o: TableOptions, only: Expr | None = None) -> list[Op]:
    sql = "UPDATE sbtest{t} SET c={c} WHERE id={id}"
    return _on_a_table(o, lambda t: [Sql(sql, name="update-nonindex", values=t, c=C, id=only or key(o))])


def delete(o: TableOptions) -> list[Op]:
    sql = "DELETE FROM sbtest{t} WHERE id={id}"
    return _on_a_table(o, lambda t: [Sql(sql, name="delete", values=t, id=key(o))])


def delete_insert(o: TableOptions) -> list[Op]:
    """Deletes a row and puts one with its id back, in one table."""
    gone = "DELETE FROM sbtest{t} WHERE id={id}"
    back = "INSERT INTO sbtest{t} (id, k, c, pad) VALUES ({id}, {k}, {c}, {pad})"
    return _on_a_table(
        o,
        lambda t: [
            Set("id", f"random(1, {o.rows})"),
            Sql(gone, name="delete", values=t, id=Var("id", "int8")),
            Sql(back, name="insert", values=t, id=Var("id", "int8"), k=key(o), c=C, pad=PAD),
        ],
    )


def writes(o: TableOptions) -> list[Op]:
    """Returns the ops of write-only between BEGIN and COMMIT."""
    return update_index(o) + update_nonindex(o) + delete_insert(o)


def insert(o: TableOptions) -> list[Op]:
    sql = "INSERT INTO sbtest{t} (k, c, pad) VALUES ({k}, {c}, {pad})"
    return _on_a_table(
        o, lambda t: [Sql(sql, name="insert", mode="simple", values=t, k=key(o), c=C, pad=PAD)]
    )


def scan(o: TableOptions) -> list[Op]:
    """Reads all rows and returns none; each connection has its own table."""
    table = Pick(f":client_id % {o.tables} + 1", 1, o.tables)
    return [Sql("SELECT * FROM sbtest{t} WHERE LENGTH(c) < 0", name="scan", mode="simple", t=table)]


def transaction(ops: Sequence[Op]) -> list[Op]:
    return [Sql("BEGIN", name="begin"), *ops, Sql("COMMIT", name="commit")]


# --- the suite ---------------------------------------------------------------------------------

_POINT = "point queries"
_RANGE = "range queries without aggregation"
_AGGREGATE = "range queries with aggregation"
_WRITE = "writes"


@dataclass(frozen=True)
class Microbenchmark:
    """One microbenchmark: its name in results, its heading, and what one event of it does."""

    name: str
    group: str
    event: Callable[[TableOptions], list[Op]]

    @property
    def summary(self) -> str:
        """One sentence about what it does; `name=number` and `name.pre` share that of the name."""
        name, is_before, _ = self.name.partition(".pre")
        family, _, number = name.partition("=")
        text = SUMMARIES.get(family, "").replace("{n}", number)
        return f"{text.removesuffix('.')}, before the writes." if is_before and text else text


def _read_only(n: int) -> Microbenchmark:
    return Microbenchmark(f"read-only={n}", _AGGREGATE, lambda o: transaction(reads(o, n)))


def _one_range(name: str, range_: Callable[[TableOptions, int], list[Op]]) -> Microbenchmark:
    """Returns read-only with all of its point selects and one of its ranges."""
    return Microbenchmark(name, _AGGREGATE, lambda o: transaction(points(o, 10) + range_(o, 1000)))


def _random_points(n: int) -> Microbenchmark:
    return Microbenchmark(f"random-points={n}", _POINT, lambda o: in_list(o, "c", "id", n))


_READ_ONLY = (_read_only(10), _read_only(100), _read_only(10000))
_POINT_QUERY = (Microbenchmark("point-query", _POINT, lambda o: points(o, 1)),)
_RANDOM_POINTS = (_random_points(10), _random_points(100), _random_points(1000))
_POINTS_PK = (
    Microbenchmark("points-covered-pk", _POINT, lambda o: in_list(o, "id", "id", 100)),
    Microbenchmark("points-notcovered-pk", _POINT, lambda o: in_list(o, "id, c", "id", 100)),
)
_POINTS_SI = (
    Microbenchmark("points-covered-si", _POINT, lambda o: in_list(o, "k", "k", 100)),
    Microbenchmark("points-notcovered-si", _POINT, lambda o: in_list(o, "k, c", "k", 100)),
)
_RANGE_PK = (
    Microbenchmark("range-covered-pk", _RANGE, lambda o: between(o, "id", "id", 100)),
    Microbenchmark("range-notcovered-pk", _RANGE, lambda o: between(o, "id, c", "id", 100)),
)
_RANGE_SI = (
    Microbenchmark("range-covered-si", _RANGE, lambda o: between(o, "k", "k", 100)),
    Microbenchmark("range-notcovered-si", _RANGE, lambda o: between(o, "k, c", "k", 100)),
)
_SCAN = (Microbenchmark("scan", _RANGE, scan),)

#: Reads before the writes; their names in results end in `.pre`.
PRE = tuple(
    Microbenchmark(f"{m.name}.pre", m.group, m.event)
    for m in (
        *_POINT_QUERY,
        *_RANDOM_POINTS,
        *_READ_ONLY,
        *_POINTS_PK,
        *_POINTS_SI,
        *_RANGE_PK,
        *_RANGE_SI,
    )
)
WRITES = (
    Microbenchmark("update-inlist", _WRITE, lambda o: update_inlist(o, 10)),
    Microbenchmark("update-index", _WRITE, update_index),
    Microbenchmark("update-nonindex", _WRITE, update_nonindex),
    Microbenchmark("update-one", _WRITE, lambda o: update_nonindex(o, Expr("1"))),
    Microbenchmark(
        "update-zipf", _WRITE, lambda o: update_nonindex(o, Expr(f"sysbench_zipf(1, {o.rows}, 0.8)"))
    ),
    Microbenchmark("write-only", _WRITE, lambda o: transaction(writes(o))),
    Microbenchmark("read-write=10", _WRITE, lambda o: transaction(reads(o, 10) + writes(o))),
    Microbenchmark("read-write=100", _WRITE, lambda o: transaction(reads(o, 100) + writes(o))),
)
#: Run among the reads after the writes where they are asked for.
EXTRAS = (
    _one_range("read-only-simple", simple_range),
    _one_range("read-only-sum", sum_range),
    _one_range("read-only-order", order_range),
    _one_range("read-only-distinct", distinct_range),
    Microbenchmark("read-only-count", _AGGREGATE, lambda o: count_range(o, 1000)),
)
_AFTER_WRITES = (
    *_SCAN,
    *_READ_ONLY,
    *EXTRAS,
    *_POINT_QUERY,
    *_RANDOM_POINTS,
    Microbenchmark("hot-points", _POINT, lambda o: hot_points(o, 100)),
    *_POINTS_PK,
    *_RANGE_PK,
    *_POINTS_SI,
    *_RANGE_SI,
)
#: Reads after the writes and the settling.
POST = tuple(m for m in _AFTER_WRITES if m not in EXTRAS)
LAST = (
    Microbenchmark("delete", _WRITE, delete),
    Microbenchmark("insert", _WRITE, insert),
)
ALL = (*PRE, *WRITES, *_AFTER_WRITES, *LAST)
LISTS = {
    "full": (*PRE, *WRITES, *POST, *LAST),
    "standard": (*WRITES, *POST, *LAST),
    "extras": EXTRAS,
}


_READS = "A transaction of 10 point selects and"
SUMMARIES = {
    "point-query": "Selects one row by primary key.",
    "random-points": "Selects {n} rows by a list of random primary keys.",
    "hot-points": "Selects the same 100 rows by a list of primary keys.",
    "read-only": f"{_READS} four ranges of {{n}} rows: plain, summed, sorted, distinct.",
    "read-only-simple": f"{_READS} a plain range of 1000 rows.",
    "read-only-sum": f"{_READS} the sum of a range of 1000 rows.",
    "read-only-order": f"{_READS} a sorted range of 1000 rows.",
    "read-only-distinct": f"{_READS} the distinct values of a range of 1000 rows.",
    "read-only-count": "Counts a range of 1000 rows.",
    "points-covered-pk": "Selects 100 keys from the index of the primary key alone.",
    "points-notcovered-pk": "Selects 100 rows by primary key, with a column outside the index.",
    "points-covered-si": "Selects 100 keys from a secondary index alone.",
    "points-notcovered-si": "Selects 100 rows by a secondary index, with a column outside it.",
    "range-covered-pk": "Selects a range of 101 keys from the index of the primary key alone.",
    "range-notcovered-pk": "Selects a range of 101 rows by primary key, with a column outside the index.",
    "range-covered-si": "Selects a range of 101 keys from a secondary index alone.",
    "range-notcovered-si": "Selects a range of 101 keys by a secondary index, with a column outside it.",
    "scan": "Reads all rows of a table and returns none.",
    "update-inlist": "Updates 10 rows by a list of random primary keys.",
    "update-index": "Updates an indexed column of a random row.",
    "update-nonindex": "Updates a column without an index in a random row.",
    "update-one": "Updates the same row again and again.",
    "update-zipf": "Updates a row drawn by a Zipf distribution: few rows are updated often.",
    "write-only": "A transaction of two updates, a delete and an insert.",
    "read-write": "A transaction with the reads of read-only={n} and the writes of write-only.",
    "delete": "Deletes a random row.",
    "insert": "Inserts a row.",
}


def matches(m: Microbenchmark, pattern: str) -> bool:
    """Returns whether a list, name, family (`random-points`, `read-only.pre`) or glob means this
    microbenchmark."""
    if pattern in LISTS:
        return m in LISTS[pattern]
    name, _, pre = m.name.partition(".pre") if m.name.endswith(".pre") else (m.name, "", None)
    family = name.partition("=")[0] + (".pre" if pre is not None else "")
    return fnmatch.fnmatchcase(m.name, pattern) or family == pattern


class SysbenchOptions(TableOptions):
    """Options of the sysbench microbenchmarks."""

    @model_validator(mode="after")
    def _steps_exist(self) -> SysbenchOptions:
        for pattern in self.steps:
            if not any(matches(m, pattern) for m in ALL):
                near = nearest(pattern, [*LISTS, *(m.name for m in ALL)])
                advice = f"; did you mean {near}?" if near else "; pgstrata steps sysbench lists them"
                raise ValueError(f"no microbenchmark is called {pattern!r}{advice}")
        return self


# --- phases ---------------------------------------------------------------------------------------


def seconds_of(o: TableOptions, m: Microbenchmark) -> float:
    """Returns the seconds a microbenchmark is measured; write-only has those of a read, as in the original
    scripts."""
    return o.write_seconds if m.group == _WRITE and m.name != "write-only" else o.read_seconds


def sysbench_step(
    o: TableOptions,
    m: Microbenchmark,
    *,
    clients: int,
    seconds: float | None = None,
    measured: bool = True,
) -> Step:
    """Returns a microbenchmark with a number of clients, which is in its name where there are several."""
    mode: Literal["simple", "prepared"] = "prepared" if o.prepared else "simple"
    is_scan = m.event is scan
    by_count = is_scan and o.scans is not None
    seconds = seconds_of(o, m) if seconds is None else seconds
    is_point = measured and len(o.clients) > 1
    scans = (o.scans or 1) if measured else 1
    role = Role(
        "query",
        clients,
        [Script(*m.event(o), name=m.name)],
        mode=mode,
        declare_types=True,
        binary_results=True,
        counts="statements",
        operations=scans if by_count else None,
        retry_sqlstates=RETRIED if m.group == _WRITE else (),
        max_tries=1000,
    )
    return Step(
        point_name(m.name, clients) if is_point else m.name,
        [role],
        Headline("query", "operations", "rows scanned/s", factor=float(o.rows))
        if is_scan
        else Headline("query", "operations", "queries/s"),
        seconds=None if by_count else seconds,
        # What only fills caches is a warm-up itself.
        warmup=o.warmup if measured and not by_count else 0,
        tables=o.table_names,
        group=m.group,
        measured=measured,
        reads_only=m.group != _WRITE,
        estimated_seconds=scans * o.rows * clients / 2e6 if by_count else None,
        summary=f"{m.summary.removesuffix('.')}, {counted(clients, 'client')}." if is_point else m.summary,
    )


def points_of(o: TableOptions, m: Microbenchmark) -> Iterator[Phase]:
    """Yields a microbenchmark with each number of clients."""
    return curve_phases(m.name, o.clients, o.refine, lambda clients: [sysbench_step(o, m, clients=clients)])


def warm(o: TableOptions, name: str, m: Microbenchmark, *, clients: int | None = None) -> list[Step]:
    """Returns a step that fills caches, shown and in no comparison; none if nothing is to be warmed."""
    seconds = o.read_seconds if o.cache_seconds is None else o.cache_seconds
    if not seconds:
        return []
    seconds = o.warm_scan_seconds if m.event is scan else seconds
    named = Microbenchmark(name, m.group, m.event)
    return [sysbench_step(o, named, seconds=seconds, clients=clients or o.most_clients, measured=False)]


class Sysbench:
    """The 42 microbenchmarks and 5 extras."""

    name = "sysbench"
    summary = "sysbench microbenchmarks: point and range queries, aggregation, writes, one by one"
    Options: type[WorkloadOptions] = SysbenchOptions
    scales: Mapping[str, Mapping[str, Any]] = {
        "count": {"rows": 10_000, "steps": ("full", "extras"), "load_connections": 1, "settle_base": 0},
        "quick": {
            "rows": 100_000,
            "read_seconds": 2,
            "write_seconds": 2,
            "warmup": 0.5,
            "warm_scan_seconds": 0.5,
            "settle_base": 1,
        },
        "demo": {
            "rows": 300_000,
            "read_seconds": 5,
            "write_seconds": 5,
            "warmup": 1,
            "warm_scan_seconds": 2,
            "settle_base": 3,
        },
        "small": {
            "rows": 1_000_000,
            "read_seconds": 30,
            "write_seconds": 30,
            "warm_scan_seconds": 10,
            "settle_base": 10,
        },
        "medium": {"rows": 50_000_000},
        "large": {"tables": 8, "rows": 50_000_000, "clients": 8},
    }

    def phases(self, options: SysbenchOptions, server: Features) -> list[Phase]:
        o = options
        need_feature(server, Feature.MULTIROW_VALUES, "sysbench", "older ones insert one row per statement")

        def chosen(several: Sequence[Microbenchmark]) -> list[Microbenchmark]:
            return [m for m in several if any(matches(m, p) for p in o.steps)]

        settle = Settle(o.table_names, o.settle_seconds)
        before, writes, after, last = map(chosen, (PRE, WRITES, _AFTER_WRITES, LAST))
        # Without the vacuum no page is all-visible, and an index-only scan fetches every row.
        plan: list[Phase] = [
            *load(o),
            *warm(o, "point-query.warm", _POINT_QUERY[0], clients=o.tables),
            settle,
        ]
        if before or writes or not after:
            plan += warm(o, "scan.warmpre", _SCAN[0])
        plan += [point for m in (*before, *writes) for point in points_of(o, m)]
        if after:
            plan += [settle] if writes else []
            plan += warm(o, "scan.warm", _SCAN[0])
        by_index = [m for m in after if m in (*_POINTS_SI, *_RANGE_SI)]
        for m in after:
            if m in by_index[:1]:
                plan += warm(o, "points-covered-si.warm", _POINTS_SI[0])
            plan += points_of(o, m)
        plan += [point for m in last for point in points_of(o, m)]
        return plan

    def only(self, steps: Sequence[str], seconds: float) -> Mapping[str, Any]:
        """Returns the options for these steps: reads can be of any length; writes have the length that the
        data are made for."""
        alone = self.part(steps)
        known = steps and {m.name for m in ALL}.issuperset(alone["steps"])
        return {"read_seconds": seconds, **(alone if known else {})}

    def part(self, steps: Sequence[str]) -> Mapping[str, Any]:
        """Returns the options for these steps; a curve is measured as a whole."""
        return {"steps": list(dict.fromkeys(CLIENTS.sub("", name) for name in steps))}

    def estimate(self, options: SysbenchOptions) -> RunCost:
        """Returns the cost. A row takes 24 bytes of header, 4 of line pointer, 191 of columns; index entries
        20 bytes in pages 90 % full, those of k at most twice that after updates. Updated rows that wait for
        vacuum: half the table. Write-ahead log: 1 GiB, or what the load writes if that is less."""
        o = options
        seconds = 0.0
        for phase in self.phases(o, NEWEST):
            if isinstance(phase, Step):
                seconds += phase.expected_seconds
            elif isinstance(phase, Settle):
                seconds += phase.seconds
        table = o.tables * o.rows * (24 + 4 + 191 + 3 * 20 / 0.9) * 1.5
        return RunCost(seconds, int(table + min(2**30, table) + 40e6))

"""The tables of the sysbench microbenchmarks and how they are filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgstrata.workload.core.language import (
    Admin,
    CopyRows,
    Digits,
    Expr,
    Headline,
    If,
    Op,
    Phase,
    Role,
    Script,
    Sql,
    Step,
    Uniform,
)
from pgstrata.workload.sysbench.options import TableOptions

#: 10 and 5 groups of 11 random digits.
C = Digits("-".join(["#" * 11] * 10), "varchar")
PAD = Digits("-".join(["#" * 11] * 5), "varchar")


def key(o: TableOptions) -> Expr:
    """Returns an expression that draws a uniform id; column k holds such ids, too."""
    return Uniform(1, o.rows, "int8")


def _spread(o: TableOptions, ops: Callable[[int], Sequence[Op]]) -> list[Op]:
    """Returns the ops that each table needs, table n done by connection (n − 1) mod load_connections."""
    connections = min(o.tables, o.load_connections)
    if connections == 1:
        return [op for n in range(1, o.tables + 1) for op in ops(n)]
    return [
        If((f":client_id = {c}", [op for n in range(c + 1, o.tables + 1, connections) for op in ops(n)]))
        for c in range(connections)
    ]


def once(o: TableOptions, name: str, ops: Callable[[int], Sequence[Op]], unit: str, seconds: float) -> Step:
    """Returns a step outside the comparison that does something once to every table."""
    return Step(
        name,
        [Role("load", min(o.tables, o.load_connections), [Script(*_spread(o, ops))], operations=1)],
        Headline("load", "operations", unit, fixed=float(o.tables * o.rows)),
        tables=o.table_names,
        group="load",
        measured=False,
        estimated_seconds=seconds,
    )


def create(o: TableOptions) -> Admin:
    key = "" if o.secondary else ", PRIMARY KEY (id)"
    return Admin(
        "create tables",
        [
            f"CREATE TABLE {table} (id SERIAL, k INTEGER DEFAULT '0' NOT NULL, "
            f"c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL{key})"
            for table in o.table_names
        ],
    )


def load(o: TableOptions) -> list[Phase]:
    """Returns the phases of the load: rows by COPY, then the indexes; ids go on where the rows end."""
    rows = float(o.tables * o.rows)

    def copy(n: int) -> list[Op]:
        sql = f"COPY sbtest{n} (id, k, c, pad) FROM STDIN"
        row = "{row}\t{k}\t{c}\t{pad}"
        return [CopyRows(sql, o.rows, row, name="copy", k=key(o), c=C, pad=PAD)]

    def index(n: int) -> list[Op]:
        on_k = Sql(f"CREATE INDEX k_{n} ON sbtest{n}(k)", name="index-k")
        on_id = Sql(f"CREATE INDEX xid_{n} ON sbtest{n}(id)", name="index-id")
        return [on_k, on_id] if o.secondary else [on_k]

    return [
        create(o),
        once(o, "load", copy, "rows/s", rows / 300e3),
        once(o, "index", index, "indexed rows/s", rows / 1.5e6),
        Admin("continue ids", [f"SELECT setval('{t}_id_seq', {o.rows})" for t in o.table_names]),
    ]

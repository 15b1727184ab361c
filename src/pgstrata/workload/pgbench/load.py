"""pgbench's tables, as `pgbench -i` of version 17 makes and fills them.

Names, types, storage parameters and values are its, so that either tool can use the other's database.
"""

from __future__ import annotations

from pgstrata.server.features import Feature, Features
from pgstrata.workload.core.language import (
    Admin,
    CopyRows,
    Expr,
    Headline,
    Phase,
    Role,
    Script,
    Sql,
    Step,
)
from pgstrata.workload.core.options import NotInVersionError, need_feature
from pgstrata.workload.pgbench.options import PgbenchOptions

ACCOUNTS, BRANCHES, HISTORY, TELLERS = TABLES = [
    "pgbench_accounts",
    "pgbench_branches",
    "pgbench_history",
    "pgbench_tellers",
]
#: Rows for each unit of scale.
ACCOUNTS_PER_SCALE = 100_000
TELLERS_PER_SCALE = 10
#: From this scale on the numbers of accounts do not fit into an integer.
BIGINT_SCALE = 20_000


def check(o: PgbenchOptions, server: Features) -> None:
    """Raises NotInVersionError where a server cannot have these tables."""
    if o.fillfactor != 100:
        need_feature(
            server, Feature.FILLFACTOR, f"option fillfactor = {o.fillfactor}", "older ones fill every page"
        )
    if o.partitions and not server.has(Feature.PARTITIONED_KEYS):
        raise NotInVersionError(
            f"Option partitions = {o.partitions} needs PostgreSQL 11 or later "
            "(older versions have no primary keys on partitioned tables).",
            "Leave out this version, or set partitions = 0.",
        )
    if o.partitions and o.foreign_keys and not server.has(Feature.PARTITIONED_FOREIGN_KEYS):
        raise NotInVersionError(
            "Options partitions and foreign_keys together need PostgreSQL 12 or later "
            "(older versions have no foreign keys to partitioned tables).",
            "Leave out this version, or one of the options.",
        )


def create(o: PgbenchOptions, server: Features) -> Admin:
    aid = "bigint" if o.scale >= BIGINT_SCALE else "int"
    fill = f" with (fillfactor={o.fillfactor})" if server.has(Feature.FILLFACTOR) else ""
    by = f" partition by {o.partition_method} (aid)" if o.partitions else fill
    statements = [
        f"create table {HISTORY}(tid int,bid int,aid {aid},delta int,mtime timestamp,filler char(22))",
        f"create table {TELLERS}(tid int not null,bid int,tbalance int,filler char(84)){fill}",
        f"create table {ACCOUNTS}(aid {aid} not null,bid int,abalance int,filler char(84)){by}",
        f"create table {BRANCHES}(bid int not null,bbalance int,filler char(88)){fill}",
    ]
    size = -(-ACCOUNTS_PER_SCALE * o.scale // max(o.partitions, 1))
    for p in range(1, o.partitions + 1):
        if o.partition_method == "range":
            low = "minvalue" if p == 1 else str((p - 1) * size + 1)
            high = "maxvalue" if p == o.partitions else str(p * size + 1)
            values = f"from ({low}) to ({high})"
        else:
            values = f"with (modulus {o.partitions}, remainder {p - 1})"
        statements.append(f"create table {ACCOUNTS}_{p} partition of {ACCOUNTS} for values {values}{fill}")
    return Admin("create tables", statements)


def fill(o: PgbenchOptions, server: Features) -> Step:
    """Returns the step with one transaction that empties and fills the tables, rows frozen where the version
    can."""

    def copy(table: str, rows: int, row: str, **values: Expr) -> CopyRows:
        # The number by which pgbench itself decides; what it writes is understood since 9.3.
        frozen = server.version_num >= 140_000 and not (o.partitions and table == ACCOUNTS)
        sql = f"copy {table} from stdin{' with (freeze on)' if frozen else ''}"
        return CopyRows(sql, rows, row, name=f"copy {table}", **values)

    def parent(children: int) -> Expr:
        return Expr(f"(:row - 1) / {children} + 1", "int4")

    # Several tables at once are understood by those that have roles (8.1).
    emptied = [", ".join(TABLES)] if server.has(Feature.ROLES) else list(TABLES)
    script = Script(
        Sql("begin", name="begin"),
        *(Sql(f"truncate table {tables}", name="truncate") for tables in emptied),
        # The filler of branches and tellers is NULL, that of accounts is blank.
        copy(BRANCHES, o.scale, "{row}\t0\t\\N"),
        copy(
            TELLERS,
            o.scale * TELLERS_PER_SCALE,
            "{row}\t{bid}\t0\t\\N",
            bid=parent(TELLERS_PER_SCALE),
        ),
        copy(
            ACCOUNTS,
            o.scale * ACCOUNTS_PER_SCALE,
            "{row}\t{bid}\t0\t",
            bid=parent(ACCOUNTS_PER_SCALE),
        ),
        Sql("commit", name="commit"),
    )
    rows = o.scale * (1 + TELLERS_PER_SCALE + ACCOUNTS_PER_SCALE)
    return Step(
        "load",
        [Role("load", 1, [script], operations=1)],
        Headline("load", "operations", "rows/s", fixed=float(rows)),
        tables=TABLES,
        group="load",
        measured=False,
        estimated_seconds=rows / 700e3,
    )


def keys(o: PgbenchOptions) -> Step:
    """Returns the step that makes primary keys, and foreign keys if they are asked for."""
    statements = [
        f"alter table {BRANCHES} add primary key (bid)",
        f"alter table {TELLERS} add primary key (tid)",
        f"alter table {ACCOUNTS} add primary key (aid)",
    ]
    if o.foreign_keys:
        statements += [
            f"alter table {table} add constraint {table}_{column}_fkey "
            f"foreign key ({column}) references {other}"
            for table, column, other in (
                (TELLERS, "bid", BRANCHES),
                (ACCOUNTS, "bid", BRANCHES),
                (HISTORY, "bid", BRANCHES),
                (HISTORY, "tid", TELLERS),
                (HISTORY, "aid", ACCOUNTS),
            )
        ]
    rows = o.scale * (1 + TELLERS_PER_SCALE + ACCOUNTS_PER_SCALE)
    return Step(
        "keys",
        [Role("load", 1, [Script(*[Sql(s, name=s) for s in statements])], operations=1)],
        Headline("load", "operations", "indexed rows/s", fixed=float(rows)),
        tables=TABLES,
        group="load",
        measured=False,
        estimated_seconds=rows / 1.5e6,
    )


def initialise(o: PgbenchOptions, server: Features) -> list[Phase]:
    check(o, server)
    vacuum = [f"vacuum analyze {table}" for table in (BRANCHES, TELLERS, ACCOUNTS, HISTORY)]
    return [create(o, server), fill(o, server), Admin("vacuum", vacuum), keys(o)]

"""What PostgreSQL says about itself: its statistics views, sizes, WAL position, tables and indexes.

The views are read generically — every numeric column, whatever the version has — so that a new
version's counters need no change here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, LiteralString

from psycopg import Connection, Error, sql
from psycopg.rows import RowMaker, dict_row, scalar_row

from pgstrata.observe import old
from pgstrata.server.capabilities import catalog_of, column, function, setting
from pgstrata.server.connect.session import use_catalogs_only
from pgstrata.store.record import Bloat, Sizes, TableRecord, TableSizes

Session = Connection[Any]
Json = dict[str, Any]


@dataclass(frozen=True)
class View:
    """A statistics view: which columns name its objects (joined with `/`), which of its rows are read."""

    name: LiteralString
    object: Sequence[str] = ()
    where: LiteralString = "true"
    all_zero: bool = True  # False: objects whose counters are all zero, then and now, are left out


CLUSTER_VIEWS = (
    # Since 12 the row of database 0 counts what happens in the shared catalogs.
    View("pg_stat_database", ("datname",), "(datname = %(database)s OR datid = 0)"),
    View("pg_stat_bgwriter"),
    View("pg_stat_checkpointer"),
    View("pg_stat_wal"),
    View("pg_stat_io", ("backend_type", "object", "context"), all_zero=False),
)
DATABASE_VIEWS = (
    View("pg_stat_user_tables", ("schemaname", "relname")),
    View("pg_statio_user_tables", ("schemaname", "relname")),
    View("pg_stat_user_indexes", ("schemaname", "indexrelname")),
    View("pg_statio_user_indexes", ("schemaname", "indexrelname")),
)

Counters = dict[tuple[str, str], dict[str, float]]


def _dicts(session: Session, query: Any, parameters: Any = None) -> list[Json]:
    with session.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, parameters).fetchall()


def _value(session: Session, query: LiteralString, parameters: Any = None) -> Any:
    make: Any = scalar_row
    with session.cursor(row_factory=make) as cursor:
        return cursor.execute(query, parameters).fetchone()


_LOCK_TIMEOUT = setting("lock_timeout")
_SHARED_STATISTICS = setting("stats_fetch_consistency")
_BACKEND_TYPE = column("pg_stat_activity", "backend_type")
_INSERT_LSN = function("pg_current_wal_insert_lsn")
_TABLE_BY_NAME = function("to_regclass", "text")
_QUESTIONS = (
    _LOCK_TIMEOUT,
    _SHARED_STATISTICS,
    _BACKEND_TYPE,
    _INSERT_LSN,
    _TABLE_BY_NAME,
    old.ACTIVITY_PID,
    old.DATABASE_SIZE,
    old.RELATION_SIZE,
    old.IN_RECOVERY,
    old.XLOG_POSITION,
    old.XLOG_DIFFERENCE,
)


def prepare(session: Session) -> None:
    """Sets time limits, so that no statement of the observer hangs the run: locks 2 s, statements 60 s.

    Only functions of the server itself are called (`use_catalogs_only`).
    """
    use_catalogs_only(session)
    session.execute("SET statement_timeout = 60000", prepare=False)
    catalog = catalog_of(session)
    # All at once, here, so that nothing is asked when a step begins or ends.
    catalog.learn(_QUESTIONS)
    if catalog.has(_LOCK_TIMEOUT):
        session.execute("SET lock_timeout = 2000", prepare=False)


# --- counters ---------------------------------------------------------------------------------


def counters(session: Session, views: Iterable[View], database: str) -> Counters:
    """Returns every numeric column of the views that this server has, by view and object.

    Object is the name of the table or index (with its schema unless that is `public`), of the
    database, or backend/object/context in pg_stat_io; empty for views of one row. Columns that are
    NULL are left out, and so are oids.
    """
    views = list(views)
    present = {
        row["relname"]
        for row in _dicts(
            session,
            "SELECT c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
            " ON n.oid = c.relnamespace WHERE n.nspname = 'pg_catalog' AND c.relname::text = ANY(%s::text[])",
            ([view.name for view in views],),
        )
    }
    counts: Counters = {}
    for view in views:
        if view.name in present:
            _read_view(session, view, database, counts)
    return counts


def _read_view(session: Session, view: View, database: str, counts: Counters) -> None:
    query = sql.SQL("SELECT * FROM pg_catalog.{} WHERE " + view.where).format(sql.Identifier(view.name))

    def counted(cursor: Any) -> RowMaker[tuple[str, dict[str, float]]]:
        columns = cursor.description or []
        names = [c.name for c in columns]
        # Only counters: oids and transaction ids are numbers that mean nothing when subtracted.
        numeric = [i for i, c in enumerate(columns) if c.type_code in _NUMERIC]
        key = [names.index(column) for column in view.object]

        def make(row: Sequence[Any]) -> tuple[str, dict[str, float]]:
            words = [str(row[i]) if row[i] is not None else "(shared)" for i in key]
            if "schemaname" in view.object and words[0] == "public":
                words = words[1:]
            separator = "." if "schemaname" in view.object else "/"
            return separator.join(words), {names[i]: float(row[i]) for i in numeric if row[i] is not None}

        return make

    with session.cursor(row_factory=counted) as cursor:
        for object_, values in cursor.execute(query, {"database": database}):
            counts[view.name, object_] = values


_NUMERIC = {20, 21, 23, 700, 701, 1700}  # int8, int2, int4, float4, float8, numeric (pg_type.dat)
_SPARSE = {view.name for view in CLUSTER_VIEWS if not view.all_zero}


def differences(before: Counters, after: Counters) -> list[Json]:
    """Returns rows of the view pgstat: `view`, `object`, `counter`, `before`, `after`.

    What was not there before counted from 0 (a table made in between); what is gone is left out.
    """
    rows: list[Json] = []
    for (view, object_), values in after.items():
        old = before.get((view, object_), {})
        if view in _SPARSE and not any(values.values()) and not any(old.values()):
            continue
        for counter, value in values.items():
            rows.append(
                {
                    "view": view,
                    "object": object_,
                    "counter": counter,
                    "before": old.get(counter, 0.0),
                    "after": value,
                }
            )
    return rows


_COLLECTOR_SECONDS = 0.5  # PGSTAT_STAT_INTERVAL: how old a file the collector hands out


def wait_for_fresh(session: Session, data_dir: Path | None, limit: float = 2.0) -> bool:
    """Waits until this session sees the statistics sent before now; False after `limit` seconds.

    Where statistics live in shared memory, from 15 on, they are always fresh. Before, a collector writes them
    to one file per database when a backend asks for them, unless the last one is not older than 0.5 s:
    the time of the file tells. Where the file is out of sight the 0.5 s are waited for.
    """
    catalog = catalog_of(session)
    if catalog.has(_SHARED_STATISTICS):
        return True
    # A month after the files were divided by database, in the development of 9.3, there was lock_timeout.
    if not catalog.has(_LOCK_TIMEOUT):
        # One file for all databases, written on demand from 8.4 on and twice a second before.
        time.sleep(2 * _COLLECTOR_SECONDS + 0.1)
        return True
    ask: LiteralString = "SELECT pg_stat_get_live_tuples('pg_class'::regclass)"
    folder = None if data_dir is None else _value(session, "SELECT current_setting('stats_temp_directory')")
    if data_dir is None or folder is None:
        time.sleep(_COLLECTOR_SECONDS + 0.05)
        _value(session, ask)
        return True
    oid = _value(session, "SELECT oid::int8 FROM pg_catalog.pg_database WHERE datname = current_database()")
    file = data_dir / folder / f"db_{oid}.stat"
    # What was sent just now needs a moment to reach the collector.
    sent = time.time() + 0.01
    deadline = time.monotonic() + limit
    time.sleep(0.015)
    while True:
        # Every statement is a transaction, and every transaction reads the file anew.
        _value(session, ask)
        if file.exists() and file.stat().st_mtime >= sent:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)


def backends_present(session: Session, pids: Sequence[int]) -> int:
    """Returns how many of these backends are still connected."""
    query: LiteralString = (
        "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE "
        + old.pid_column(catalog_of(session))
        + " = ANY(%s::int4[])"
    )
    return int(_value(session, query, (list(pids),)))


def knows_states(session: Session) -> bool:
    """Returns True if the server shows states of backends apart from their statements, as from 9.2 on."""
    return catalog_of(session).has(old.ACTIVITY_PID)


def others_present(session: Session, pids: Sequence[int]) -> int:
    """Returns how many clients this session's database has beside the session and these backends: the changes
    of clients that are ending may not be counted yet. Needs a server for which `knows_states` is True."""
    client: LiteralString = "query NOT LIKE 'autovacuum: %%'"
    if catalog_of(session).has(_BACKEND_TYPE):
        client = "backend_type = 'client backend'"
    query: LiteralString = (
        "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND pid <> ALL(%s::int4[]) AND " + client
    )
    return int(_value(session, query, (list(pids),)))


# --- WAL and sizes ----------------------------------------------------------------------------


def wal_position(session: Session) -> int | None:
    """Returns the bytes of WAL inserted since the beginning of the cluster; None on a standby.

    The insert position counts records that are not written out yet, too.
    """
    if not catalog_of(session).has(_INSERT_LSN):
        return old.wal_position(session)
    query: LiteralString = (
        "SELECT CASE WHEN NOT pg_is_in_recovery()"
        " THEN (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::numeric END"
    )
    value: Decimal | None = _value(session, query)
    return None if value is None else int(value)


def folder_bytes(folder: Path) -> int:
    """Returns the bytes a folder occupies on disk, pg_wal and tablespaces behind symbolic links included.

    Allocated blocks, as `du` counts them. Files that vanish meanwhile are skipped.
    """
    total, todo = 0, [str(folder)]
    while todo:
        try:
            entries = list(os.scandir(todo.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=True):
                    todo.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
            except OSError:
                continue
    return total


# A partitioned table, or one with heirs, is the sum of its parts. pg_partition_tree came with 12 only.
_TREES = """
    WITH RECURSIVE tree(name, root, part) AS (
        SELECT name, root, root FROM unnest(%(names)s::text[], %(roots)s::int8[]::oid[]) AS t(name, root)
      UNION ALL
        SELECT name, root, inhrelid FROM tree JOIN pg_catalog.pg_inherits ON inhparent = part
    )
"""


def _roots(session: Session, tables: Sequence[str]) -> Json:
    """Returns the arguments of `_TREES`: the tables that exist, and their oids.

    Names without a schema are looked up as the statements of a workload find them, so the session's own
    search_path holds for one statement, in which every name has its schema.
    """
    path = _value(session, "SELECT pg_catalog.current_setting('search_path')")
    session.execute("RESET search_path", prepare=False)
    try:
        # to_regclass takes no text before 9.6, where this is not used.
        rows = session.execute(
            "SELECT t, pg_catalog.to_regclass(t)::pg_catalog.oid::pg_catalog.int8"
            " FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS t",
            (list(tables),),
        ).fetchall()
    finally:
        _value(session, "SELECT pg_catalog.set_config('search_path', %s, false)", (path,))
    there = [(name, oid) for name, oid in rows if oid is not None]
    return {"names": [name for name, _ in there], "roots": [oid for _, oid in there]}


def table_sizes(session: Session, tables: Sequence[str]) -> dict[str, TableSizes]:
    """Returns the sizes by table; TOAST and the maps count to the table, parts to the whole."""
    if not catalog_of(session).has(_TABLE_BY_NAME):
        return old.table_sizes(session, tables)
    query: LiteralString = (
        _TREES + "SELECT name, sum(pg_table_size(part))::int8 AS table_bytes,"
        " sum(pg_indexes_size(part))::int8 AS index_bytes FROM tree GROUP BY name"
    )
    return {
        row["name"]: TableSizes(table_bytes=row["table_bytes"], index_bytes=row["index_bytes"])
        for row in _dicts(session, query, _roots(session, tables))
    }


def sizes(session: Session, tables: Sequence[str], data_dir: Path | None) -> Sizes:
    """Returns the sizes of database, data folder and tables. `data_dir_bytes` is None for a server that is
    not managed by us."""
    return Sizes(
        database_bytes=old.database_bytes(session),
        data_dir_bytes=folder_bytes(data_dir) if data_dir is not None else None,
        tables=table_sizes(session, tables),
    )


# --- tables and indexes -----------------------------------------------------------------------


def describe(
    session: Session, tables: Sequence[str], bloat_bytes: int = 0, managed: bool = True
) -> dict[str, TableRecord]:
    """Describes the tables that exist, by name; `bloat` is measured for tables of at most `bloat_bytes` with
    their indexes."""
    if not catalog_of(session).has(_TABLE_BY_NAME):
        return old.describe(session, tables)
    table_records: dict[str, TableRecord] = {}
    query: LiteralString = (
        _TREES + "SELECT name, root, sum(pg_stat_get_live_tuples(part))::int8 AS rows_estimate,"
        " sum(pg_stat_get_dead_tuples(part))::int8 AS dead_estimate,"
        " sum(pg_total_relation_size(part))::int8 AS bytes FROM tree GROUP BY name, root"
    )
    for row in _dicts(session, query, _roots(session, tables)):
        indexes = _dicts(
            session,
            "SELECT c.relname, pg_get_indexdef(c.oid) AS definition FROM pg_catalog.pg_index"
            " JOIN pg_catalog.pg_class c ON c.oid = indexrelid WHERE indrelid = %s ORDER BY c.relname",
            (row["root"],),
        )
        measured = bloat(session, row["root"], managed) if 0 < row["bytes"] <= bloat_bytes else None
        table_records[row["name"]] = TableRecord(
            rows_estimate=row["rows_estimate"],
            dead_estimate=row["dead_estimate"],
            indexes={i["relname"]: i["definition"] for i in indexes},
            bloat=measured,
        )
    return table_records


_MAKE_PGSTATTUPLE: LiteralString = (
    "CREATE SCHEMA pgstrata_observer; CREATE EXTENSION IF NOT EXISTS pgstattuple SCHEMA pgstrata_observer"
)
_SCHEMA_OF_PGSTATTUPLE: LiteralString = (
    "SELECT nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
    " WHERE extname = 'pgstattuple'"
)


def bloat(session: Session, table: int, managed: bool) -> Bloat | None:
    """Returns the results of pgstattuple and pgstatindex for a table (oid) and its btree indexes; None
    without these functions.

    Reads the whole table. On our own servers the extension is created in a transaction that is rolled
    back, so nothing is left in the database; on others it is used only if it is there.
    """
    have = "pg_extension WHERE extname" if not managed else "pg_available_extensions WHERE name"
    if not _dicts(session, sql.SQL("SELECT 1 FROM pg_catalog." + have + " = 'pgstattuple'")):
        return None
    indexes = {}
    try:
        with session.transaction(force_rollback=managed):
            if managed:
                session.execute(_MAKE_PGSTATTUPLE)
            schema = sql.Identifier(_value(session, _SCHEMA_OF_PGSTATTUPLE))
            of_table = sql.SQL("SELECT * FROM {}.pgstattuple(%s::regclass)").format(schema)
            whole = _plain(_dicts(session, of_table, (table,))[0])
            query = sql.SQL(
                "SELECT c.relname, s.* FROM pg_catalog.pg_index i"
                " JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid AND c.relkind = 'i'"
                " JOIN pg_catalog.pg_am a ON a.oid = c.relam AND a.amname = 'btree',"
                " {}.pgstatindex(c.oid::regclass) s WHERE i.indrelid = %s"
            ).format(schema)
            for row in _dicts(session, query, (table,)):
                name = row.pop("relname")
                indexes[name] = _plain(row)
    except Error:
        return None  # no permission, a partitioned table, a file that the package lacks
    return Bloat(table=whole, indexes=indexes)


def _plain(row: Json) -> Json:
    return {key: float(v) if isinstance(v, Decimal) else v for key, v in row.items()}

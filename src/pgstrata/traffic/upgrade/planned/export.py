"""Writes the planner statistics of any server as `pg_dump --statistics-only` of 18 writes them.

Only catalogs are read. Sizes are those of pg_class, as of the last VACUUM or ANALYZE.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgstrata import numbers
from pgstrata.errors import ServerError, UsageError
from pgstrata.files.disk import replacing, storing
from pgstrata.files.user_files import shown
from pgstrata.server.capabilities import catalog_of, column
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.session import answering, use_catalogs_only
from pgstrata.traffic.account import MARK
from pgstrata.traffic.synthetic.statistics import SETTINGS
from pgstrata.traffic.upgrade.planned.calls import COLUMN
from pgstrata.workload.custom.sql import MOST_STATEMENT_BYTES

QUESTION_SECONDS, MOST_MEMORY = 600.0, 1 << 30

_VALUES = frozenset(
    (
        "most_common_vals",
        "most_common_freqs",
        "histogram_bounds",
        "most_common_elems",
        "most_common_elem_freqs",
        "range_length_histogram",
        "range_empty_frac",
        "range_bounds_histogram",
    )
)
"""Statistics that hold values of users, or belong to them."""

_ALL_SETTINGS = (
    *SETTINGS,
    f"SET {MARK} extra_float_digits = 3",
    f"SET {MARK} standard_conforming_strings = on",
)

_OWN = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"

_NEW = column("pg_stats", "range_bounds_histogram")

_UNREADABLE = f"""
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm') AND {_OWN} AND NOT has_table_privilege(c.oid, 'SELECT')
"""


def _relations() -> str:
    # A table that nobody has vacuumed or analyzed has 0 rows, or -1 where the server tells it from an empty
    # one: then its system views have -1, too.
    rows = (
        "CASE WHEN c.relpages = 0 AND c.reltuples = 0 "
        "AND NOT EXISTS (SELECT 1 FROM pg_class v WHERE v.reltuples < 0) THEN -1 ELSE c.reltuples END"
    )
    return f"""
SELECT 'SELECT * FROM pg_catalog.pg_restore_relation_stats(''schemaname'', '
    || quote_literal(n.nspname) || ', ''relname'', ' || quote_literal(c.relname)
    || ', ''relpages'', ''' || c.relpages || '''::integer, ''reltuples'', ''' || {rows}
    || '''::real, ''relallvisible'', ''' || c.relallvisible || '''::integer);'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm', 'i', 'I') AND {_OWN} ORDER BY n.nspname, c.relname"""


def _columns(*, ranges: bool, values: bool) -> str:
    """Returns the query that exports the statistics of columns. ranges: pg_stats tells of ranges; values:
    values are written, too."""
    names = [
        name
        for name in COLUMN
        if (ranges or not name.startswith("range_")) and (values or name not in _VALUES)
    ]
    parts = "".join(
        f"\n    || coalesce(', ''{name}'', ' || quote_literal(s.{name}::text) || '::{COLUMN[name]}', '')"
        for name in names
    )
    return f"""
SELECT 'SELECT * FROM pg_catalog.pg_restore_attribute_stats(''schemaname'', '
    || quote_literal(s.schemaname) || ', ''relname'', ' || quote_literal(s.tablename)
    || CASE WHEN c.relkind IN ('i', 'I') THEN ', ''attnum'', ''' || a.attnum || '''::smallint'
        ELSE ', ''attname'', ' || quote_literal(s.attname) END
    || ', ''inherited'', ''' || s.inherited || '''::boolean'{parts} || ');'
FROM pg_stats s JOIN pg_namespace n ON n.nspname = s.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname
WHERE {_OWN} ORDER BY s.schemaname, s.tablename, a.attnum, s.inherited"""


@dataclass(frozen=True)
class Exported:
    """What was written. unreadable: tables whose statistics this user may not see."""

    calls: int
    bytes: int
    unreadable: int


def export_statistics(source: str, to: Path, *, values: bool = True) -> Exported:
    """Writes the statistics of a server's database to a file of mode 0600. values: of users, too.

    Raises UsageError where the file is there or the database has no statistics, ServerError, StoreError.
    """
    if to.exists():
        raise UsageError(f"{shown(to)} is there already", "name another file, or remove it")
    conninfo = Conninfo.parse(source.removeprefix("dsn:"))
    with conninfo.connect() as session, answering(session, QUESTION_SECONDS, MOST_MEMORY):
        session.execute(b"SET default_transaction_read_only = on")
        for setting in _ALL_SETTINGS:
            session.execute(setting.encode())
        use_catalogs_only(session)
        ranges = catalog_of(session).has(_NEW)
        lines: list[str] = []
        for question in (_relations(), _columns(ranges=ranges, values=values)):
            lines += [str(row[0]) for row in session.execute(question.encode()).fetchall()]
        (unreadable,) = session.execute(_UNREADABLE.encode()).fetchone() or (0,)
    if not any("attribute_stats(" in line[:60] for line in lines):
        why = (
            f"; this user cannot see {numbers.counted(unreadable, 'table')}"
            if unreadable
            else ": run ANALYZE in it once"
        )
        raise UsageError(
            f"the database has no statistics{why}", "GRANT pg_read_all_data TO the user (since 14)"
        )
    data = "".join(f"{line}\n" for line in lines).encode()
    if len(data) > MOST_STATEMENT_BYTES:
        raise ServerError(
            f"the statistics have {numbers.size(len(data))}, more than {numbers.size(MOST_STATEMENT_BYTES)}",
            "--without-values writes what is shorter",
        )
    with storing("write the statistics", to), replacing(to) as file:
        file.write(data)
    return Exported(len(lines), len(data), int(unreadable))


def export_script(*, values: bool = True) -> str:
    """Returns a script for psql that writes stats.sql of the database it is connected to."""
    settings = "".join(f"{setting};\n" for setting in _ALL_SETTINGS)
    return f"""\\set ON_ERROR_STOP on
\\set QUIET on
SET default_transaction_read_only = on;
{settings}SET search_path = pg_catalog;
\\pset format unaligned
\\pset tuples_only on
SELECT count(*) > 0 AS ranges FROM pg_attribute
WHERE attrelid = 'pg_catalog.pg_stats'::regclass AND attname = '{_NEW.words[1]}' \\gset
\\! umask 077 && rm -f stats.sql && : > stats.sql
\\o stats.sql
{_relations()};
\\if :ranges
{_columns(ranges=True, values=values)};
\\else
{_columns(ranges=False, values=values)};
\\endif
\\o
"""


__all__ = ["Exported", "export_script", "export_statistics"]

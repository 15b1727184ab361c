"""Writes the planner statistics of any server as `pg_dump --statistics-only` of 19 writes them.

Only catalogs are read. Sizes are those of pg_class, as of the last VACUUM or ANALYZE.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgstrata import numbers
from pgstrata.errors import ServerError, UsageError
from pgstrata.files.disk import replacing, storing
from pgstrata.files.user_files import shown
from pgstrata.server.capabilities import Question, catalog_of, column, query_of, relation
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.session import answering, use_catalogs_only
from pgstrata.sql_text import literal
from pgstrata.traffic.account import MARK
from pgstrata.traffic.synthetic.statistics import SETTINGS
from pgstrata.traffic.upgrade.planned.calls import COLUMN, EXTENDED
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

_VALUES_OF_SEVERAL = frozenset(("most_common_vals", "most_common_freqs", "most_common_base_freqs"))
"""Those of extended statistics."""

_OF_RANGES = tuple(name for name in COLUMN if name.startswith("range_"))

_ALL_SETTINGS = (
    *SETTINGS,
    f"SET {MARK} extra_float_digits = 3",
    f"SET {MARK} standard_conforming_strings = on",
)

_OWN = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"

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
SELECT {MARK} 'SELECT * FROM pg_catalog.pg_restore_relation_stats(''schemaname'', '
    || quote_literal(n.nspname) || ', ''relname'', ' || quote_literal(c.relname)
    || ', ''relpages'', ''' || c.relpages || '''::integer, ''reltuples'', ''' || {rows}
    || '''::real, ''relallvisible'', ''' || c.relallvisible || '''::integer);'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm', 'i', 'I') AND {_OWN} ORDER BY n.nspname, c.relname"""


@dataclass(frozen=True)
class _Part:
    """A part of the queries that depends on what a server has: the text of the first thing it has, else
    `otherwise`. `:name` stands for it in the queries, as a variable of psql does."""

    texts: tuple[tuple[Question, str], ...]
    otherwise: str


def _argument(name: str, value: str, type_: str) -> str:
    """Returns what writes an argument of a call where its value is not null."""
    return f"\n    || coalesce(', ''{name}'', ' || quote_literal({value}) || '::{type_}', '')"


def _columns(*, values: bool) -> str:
    """Returns the query that exports the statistics of columns. values: they are written, too."""
    arguments = "".join(
        _argument(name, f"s.{name}::text", type_)
        for name, type_ in COLUMN.items()
        if name not in _OF_RANGES and (values or name not in _VALUES)
    )
    return f"""
SELECT {MARK} 'SELECT * FROM pg_catalog.pg_restore_attribute_stats(''schemaname'', '
    || quote_literal(s.schemaname) || ', ''relname'', ' || quote_literal(s.tablename)
    || CASE WHEN c.relkind IN ('i', 'I') THEN ', ''attnum'', ''' || a.attnum || '''::smallint'
        ELSE ', ''attname'', ' || quote_literal(s.attname) END
    || ', ''inherited'', ''' || s.inherited || '''::boolean'{arguments} :ranges || ');'
FROM pg_stats s JOIN pg_namespace n ON n.nspname = s.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname
WHERE {_OWN} ORDER BY s.schemaname, s.tablename, a.attnum, s.inherited"""


_EXTENDED = f"""
SELECT {MARK} 'SELECT * FROM pg_catalog.pg_restore_extended_stats(''schemaname'', '
    || quote_literal(x.schemaname) || ', ''relname'', ' || quote_literal(x.tablename)
    || ', ''statistics_schemaname'', ' || quote_literal(x.statistics_schemaname)
    || ', ''statistics_name'', ' || quote_literal(x.statistics_name)
    || ', ''inherited'', ''' || x.with_children || '''::boolean' || x.arguments || ');'
FROM (SELECT e.schemaname, e.tablename, e.statistics_schemaname, e.statistics_name,
        :extended_inherited AS with_children, ''::text :extended_arguments AS arguments
    FROM :extended_source e JOIN pg_namespace n ON n.nspname = e.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = e.tablename WHERE {_OWN}) x
WHERE x.arguments <> '' ORDER BY x.statistics_schemaname, x.statistics_name, x.with_children"""

_SOURCE_OF_10 = """(SELECT n.nspname AS schemaname, c.relname AS tablename,
        o.nspname AS statistics_schemaname, s.stxname AS statistics_name,
        s.stxndistinct AS n_distinct, s.stxdependencies AS dependencies
    FROM pg_statistic_ext s JOIN pg_class c ON c.oid = s.stxrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_namespace o ON o.oid = s.stxnamespace)"""

_NO_SOURCE = """(SELECT ''::name AS schemaname, ''::name AS tablename, ''::name AS statistics_schemaname,
        ''::name AS statistics_name WHERE false)"""

# 19 shows arrays of JSON, earlier ones `{"1, 2": 3}` and `{"1, 2 => 3": 1.000000}`. Columns get the numbers
# that they have in a table made anew, which lacks the dropped ones.
_COMBINATIONS = """(SELECT '[' || string_agg(format({form}), ', ') || ']'
    FROM (SELECT m.value, ARRAY(SELECT CASE WHEN a.number < 0 THEN a.number ELSE (SELECT count(*)
                FROM pg_attribute d
                WHERE d.attrelid = c.oid AND d.attnum BETWEEN 1 AND a.number AND NOT d.attisdropped) END
            FROM unnest(m.numbers) WITH ORDINALITY a(number, place) ORDER BY a.place) AS p
        FROM (SELECT ('{{' || replace(key, ' =>', ',') || '}}')::int[] AS numbers, value
            FROM json_each_text(CASE WHEN {shown} LIKE '{{%' THEN {shown} ELSE '{{}}' END::json)
            UNION ALL SELECT ('{{' || btrim(j.entry ->> 'attributes', '[]')
                || coalesce(', ' || (j.entry ->> 'dependency'), '') || '}}')::int[],
                coalesce(j.entry ->> 'ndistinct', j.entry ->> 'degree')
            FROM json_array_elements(CASE WHEN {shown} LIKE '[%' THEN {shown} ELSE '[]' END::json) j(entry)
            ) m) k)"""

_DISTINCT = _COMBINATIONS.format(
    shown="e.n_distinct::text",
    form="""'{"attributes": [%s], "ndistinct": %s}', array_to_string(k.p, ', '), k.value""",
)
_DEPENDENCIES = _COMBINATIONS.format(
    shown="e.dependencies::text",
    form="""'{"attributes": [%s], "dependency": %s, "degree": %s}',
        array_to_string(k.p[1 : cardinality(k.p) - 1], ', '), k.p[cardinality(k.p)], k.value""",
)


def _expressions(names: Sequence[str], *, inherited: bool) -> str:
    """Returns what writes the statistics of expressions. inherited: the view tells of children."""
    values = ", ".join(f"'{name}', v.{name}::text" for name in names)
    return f"""(SELECT jsonb_agg(nullif(jsonb_strip_nulls(jsonb_build_object({values})), '{{}}'))::text
    FROM pg_stats_ext_exprs v
    WHERE v.statistics_schemaname = e.statistics_schemaname AND v.statistics_name = e.statistics_name
    {"AND v.inherited = e.inherited" if inherited else ""})"""


def _parts(*, values: bool) -> Mapping[str, _Part]:
    """Returns what stands in the queries for `:name`. values: they are written, too."""
    names = [name for name in COLUMN if values or name not in _VALUES]
    without_ranges = [name for name in names if name not in _OF_RANGES]
    counts = _argument("n_distinct", _DISTINCT, EXTENDED["n_distinct"])
    counts += _argument("dependencies", _DEPENDENCIES, EXTENDED["dependencies"])
    common = counts + "".join(
        _argument(name, f"e.{name}::text", type_)
        for name, type_ in EXTENDED.items()
        if values and name in _VALUES_OF_SEVERAL
    )

    def whole(names: Sequence[str], *, inherited: bool) -> str:
        return common + _argument("exprs", _expressions(names, inherited=inherited), EXTENDED["exprs"])

    ranges = "".join(_argument(name, f"s.{name}::text", COLUMN[name]) for name in _OF_RANGES if values)
    of_expressions = "pg_stats_ext_exprs"
    return {
        "ranges": _Part(((column("pg_stats", "range_bounds_histogram"), ranges),), ""),
        "extended_source": _Part(
            (
                (relation("pg_stats_ext"), "pg_stats_ext"),
                (column("pg_statistic_ext", "stxndistinct"), _SOURCE_OF_10),
            ),
            _NO_SOURCE,
        ),
        # Earlier ones analyze a partitioned table with its partitions, and any other one alone.
        "extended_inherited": _Part(
            ((column("pg_stats_ext", "inherited"), "e.inherited"),), "(c.relkind = 'p')"
        ),
        "extended_arguments": _Part(
            (
                (column(of_expressions, "range_bounds_histogram"), whole(names, inherited=True)),
                (column(of_expressions, "inherited"), whole(without_ranges, inherited=True)),
                (relation(of_expressions), whole(without_ranges, inherited=False)),
                (column("pg_stats_ext", "most_common_vals"), common),
                (relation("pg_statistic_ext"), counts),
            ),
            "",
        ),
    }


_PART = re.compile(r"(?<!:):([a-z]+(?:_[a-z]+)?)\b")


def _questions(*, values: bool) -> tuple[str, ...]:
    return _relations(), _columns(values=values), _EXTENDED


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
        has = catalog_of(session).has
        parts = {
            name: next((text for question, text in part.texts if has(question)), part.otherwise)
            for name, part in _parts(values=values).items()
        }
        lines: list[str] = []
        for question in _questions(values=values):
            written = _PART.sub(lambda match: parts[match[1]], question)
            lines += [str(row[0]) for row in session.execute(written.encode()).fetchall()]
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


def _of_parts(*, values: bool) -> str:
    """Returns the query whose columns are the parts, for a script."""
    columns = (
        "CASE "
        + "".join(
            f"WHEN EXISTS ({query_of(question)}) THEN {literal(text)} " for question, text in part.texts
        )
        + f"ELSE {literal(part.otherwise)} END AS {name}"
        for name, part in _parts(values=values).items()
    )
    return f"SELECT {', '.join(columns)}"


def export_script(*, values: bool = True) -> str:
    """Returns a script for psql that writes stats.sql of the database it is connected to."""
    settings = "".join(f"{setting};\n" for setting in _ALL_SETTINGS)
    questions = "".join(f"{question};" for question in _questions(values=values))
    return f"""\\set ON_ERROR_STOP on
\\set QUIET on
SET default_transaction_read_only = on;
{settings}SET search_path = pg_catalog;
\\pset format unaligned
\\pset tuples_only on
{_of_parts(values=values)} \\gset
\\! umask 077 && rm -f stats.sql && : > stats.sql
\\o stats.sql
{questions}
\\o
"""


__all__ = ["Exported", "export_script", "export_statistics"]

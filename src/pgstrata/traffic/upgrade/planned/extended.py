"""Puts values of extended statistics (CREATE STATISTICS) into the catalogs of a server.

Types such as pg_ndistinct have no input function. So a superuser writes their bytes by casts that are there
for one transaction, and reads them back by the functions of the server: where they say something else than
was meant, the values are taken away again and listed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg

from pgstrata.server.capabilities import catalog_of, column, relation
from pgstrata.sql_text import identifier
from pgstrata.traffic.upgrade.planned.calls import ColumnCall, ExtendedCall
from pgstrata.traffic.upgrade.planned.catalogs import Catalogs, ColumnFacts
from pgstrata.traffic.upgrade.planned.extended_values import Combination, read_shown
from pgstrata.traffic.upgrade.planned.missing import Missing
from pgstrata.traffic.upgrade.planned.serialized import (
    Dimension,
    common_bytes,
    dependencies_bytes,
    distinct_bytes,
)
from pgstrata.traffic.upgrade.planned.slots import row_of, slots_of
from pgstrata.traffic.upgrade.planned.targets import Target, Unfit
from pgstrata.traffic.upgrade.schema import Schema, find_names_anywhere, said_plainly

_CASTS = (
    ("bytea", "pg_ndistinct", None),
    ("bytea", "pg_dependencies", None),
    ("bytea", "pg_mcv_list", column("pg_statistic_ext_data", "stxdmcv")),
    *((name, "bytea", None) for name in ("numeric", "inet", "cidr", "jsonb")),
)
"""Casts of the transaction, where the server has a column for them. All types of a cast are kept alike: with
their length before the bytes."""

_KNOWN_CASTS = """
SELECT s.typname::text, t.typname::text FROM pg_cast c
JOIN pg_type s ON s.oid = c.castsource JOIN pg_type t ON t.oid = c.casttarget
"""

# Types of pg_type.dat whose values are known as bytes: what makes them of `v`, and how many bytes the numbers
# have that the server sends with the highest byte first.
_BYTES = {
    16: ("bool", "boolsend(x.v)", (1,)),
    17: ("bytea", "x.v", ()),
    20: ("int8", "int8send(x.v)", (8,)),
    21: ("int2", "int2send(x.v)", (2,)),
    23: ("int4", "int4send(x.v)", (4,)),
    25: ("text", "convert_to(x.t, getdatabaseencoding())", ()),
    26: ("oid", "oidsend(x.v)", (4,)),
    650: ("cidr", "x.v::bytea", ()),
    700: ("float4", "float4send(x.v)", (4,)),
    701: ("float8", "float8send(x.v)", (8,)),
    869: ("inet", "x.v::bytea", ()),
    1042: ("bpchar", "convert_to(x.t, getdatabaseencoding())", ()),
    1043: ("varchar", "convert_to(x.t, getdatabaseencoding())", ()),
    1082: ("date", "date_send(x.v)", (4,)),
    1083: ("time", "time_send(x.v)", (8,)),
    1114: ("timestamp", "timestamp_send(x.v)", (8,)),
    1184: ("timestamptz", "timestamptz_send(x.v)", (8,)),
    1186: ("interval", "interval_send(x.v)", (8, 4, 4)),
    1700: ("numeric", "x.v::bytea", ()),
    2950: ("uuid", "uuid_send(x.v)", ()),
    3802: ("jsonb", "x.v::bytea", ()),
}

_VIEW = "pgstrata_expressions"


def write_extended(
    schema: Schema,
    session: psycopg.Connection[Any],
    targets: Sequence[tuple[ExtendedCall, Target]],
    missing: Missing,
    check: Callable[[], None],
) -> int:
    """Returns for how many objects values were written. session: of a superuser whose search_path is
    pg_catalog. Raises psycopg.Error where the server has ended."""
    if not targets:
        return 0
    expressions = _expressions(schema, [target for _, target in targets], missing)
    has = catalog_of(session).has
    known = set(session.execute(_KNOWN_CASTS.encode()).fetchall())
    casts = [
        (source, to)
        for source, to, needs in _CASTS
        if (needs is None or has(needs)) and (source, to) not in known
    ]
    written = set()
    with session.transaction():
        for source, to in casts:
            session.execute(f"CREATE CAST ({source} AS {to}) WITHOUT FUNCTION".encode())
        writer = _Writer(session, missing)
        for call, target in targets:
            check()
            if writer.write(call, target, expressions.get(target.oid, ())):
                written.add(target.oid)
        for source, to in casts:
            session.execute(f"DROP CAST ({source} AS {to})".encode())
    return len(written)


def _expressions(
    schema: Schema, targets: Sequence[Target], missing: Missing
) -> dict[int, Sequence[ColumnFacts]]:
    """Returns types and collations of the expressions of objects: those of a view's columns, which the owner
    of the tables makes."""
    facts: dict[int, Sequence[ColumnFacts]] = {}
    with schema.connect() as owner:
        if not catalog_of(owner).has(column("pg_statistic_ext", "stxexprs")):
            return facts
        find_names_anywhere(owner)
        for target in targets:
            if "e" not in target.kinds:
                continue
            (texts,) = owner.execute(
                b"SELECT pg_catalog.pg_get_statisticsobjdef_expressions(%s)", (target.oid,)
            ).fetchone() or ((),)
            columns = ", ".join(f"({text}) AS e{number}" for number, text in enumerate(texts or ()))
            table = f"{identifier(target.schema)}.{identifier(target.table)}"
            try:
                with owner.transaction(force_rollback=True):
                    owner.execute(f"CREATE TEMP VIEW {_VIEW} AS SELECT {columns} FROM {table}".encode())
                    rows = owner.execute(_FACTS.encode()).fetchall()
            except psycopg.Error as error:
                if owner.closed:
                    raise
                missing.add(f"{target.schema}.{target.table}, expressions", said_plainly(error))
                continue
            facts[target.oid] = [ColumnFacts(0, 0, *row) for row in rows]
    return facts


_FACTS = f"""
SELECT atttypid::bigint, attcollation::bigint FROM pg_catalog.pg_attribute
WHERE attrelid = 'pg_temp.{_VIEW}'::pg_catalog.regclass AND attnum > 0 ORDER BY attnum
"""


class _Writer:
    """Writes values of objects into the catalogs."""

    def __init__(self, session: psycopg.Connection[Any], missing: Missing) -> None:
        self._session, self._missing = session, missing
        self._catalogs = Catalogs(session)
        has = catalog_of(session).has
        self._has_data = has(relation("pg_statistic_ext_data"))
        self._has_inherited = has(column("pg_statistic_ext_data", "stxdinherit"))
        rows = session.execute(_STATISTIC.encode()).fetchall()
        self._statistic = [str(name) for (name,) in rows]
        self._key: tuple[object, ...] = ()

    def write(self, call: ExtendedCall, target: Target, expressions: Sequence[ColumnFacts]) -> bool:
        """Returns whether any values were written."""
        self._key = (target.oid, call.inherited) if self._has_inherited else (target.oid,)
        if not self._has_inherited and call.inherited != target.is_partitioned:
            self._missing.add(call.title, "this version keeps none of a table with its children")
            return False
        is_written = False
        for kind, name, is_given, write in (
            ("d", "n_distinct", call.distinct, self._distinct),
            ("f", "dependencies", call.dependencies, self._dependencies),
            ("m", "most_common_vals", call.common, self._common),
            ("e", "expressions", call.expressions, self._of_expressions),
        ):
            if not is_given:
                continue
            try:
                if kind not in target.kinds:
                    raise Unfit("they are not of this kind here")
                with self._session.transaction():
                    write(call, target, expressions)
                is_written = True
            except (Unfit, ValueError) as why:
                self._missing.add(f"{call.title}, {name}", str(why))
            except psycopg.Error as error:
                if self._session.closed:
                    raise
                self._missing.add(f"{call.title}, {name}", said_plainly(error))
        return is_written

    def _distinct(self, call: ExtendedCall, _: Target, expressions: Sequence[ColumnFacts]) -> None:
        _check(call.distinct, expressions)
        for combination in call.distinct:
            if combination.value < 1:
                raise Unfit(f"no number of distinct values: {combination.value:,}")
        shown = self._stored("ndistinct", distinct_bytes(call.distinct))
        _same(shown, call.distinct, lambda value: f"{value:.0f}")

    def _dependencies(self, call: ExtendedCall, _: Target, expressions: Sequence[ColumnFacts]) -> None:
        _check(call.dependencies, expressions)
        shown = self._stored("dependencies", dependencies_bytes(call.dependencies))
        _same(shown, call.dependencies, lambda value: f"{value:.6f}")

    def _stored(self, name: str, value: bytes) -> Sequence[Combination]:
        """Stores what was made, and returns what the server shows of it."""
        name_here = f"stxd{name}" if self._has_data else f"stx{name}"
        self._put(name_here, f"%s::bytea::pg_{name}", [value])
        ((text,),) = self._read(f"SELECT {name_here}::text FROM {self._table} WHERE {self._where}")
        return read_shown(text)

    def _common(self, call: ExtendedCall, target: Target, expressions: Sequence[ColumnFacts]) -> None:
        assert call.common is not None
        by_number = self._catalogs.by_number
        facts = [by_number[target.schema, target.table, number] for number in target.keys]
        facts += expressions
        rows = call.common.rows
        if len(facts) != len(rows[0]):
            raise Unfit(f"they are of {len(facts)} columns here")
        dimensions, shown = [], []
        for place, column_facts in enumerate(facts):
            texts = dict.fromkeys(row[place] for row in rows if row[place] is not None)
            dimension, shown_texts = self._dimension(column_facts.type, list(texts))
            dimensions.append(dimension)
            shown.append(shown_texts)
        self._put("stxdmcv", "%s::bytea::pg_mcv_list", [common_bytes(call.common, dimensions)])
        shown_rows = (
            [None if text is None else texts[text] for text, texts in zip(row, shown, strict=True)]
            for row in rows
        )
        meant = list(zip(shown_rows, call.common.frequencies, call.common.base_frequencies, strict=True))
        stored = self._read(
            "SELECT i.values, i.frequency, i.base_frequency "
            f"FROM {self._table}, pg_mcv_list_items(stxdmcv) i WHERE {self._where} ORDER BY i.index"
        )
        if stored != meant:
            raise Unfit(_DIFFERS)

    def _dimension(self, type_: int, texts: Sequence[str | None]) -> tuple[Dimension, dict[str, str]]:
        """Returns values of a type as bytes, in their order, and as the server shows each."""
        base = self._catalogs.base_of(type_)
        ((length, by_value, name),) = self._read(_TYPE, [base])
        if self._catalogs.type_of(base).kind == "e":
            rows = self._read(_LABELS, [base, list(texts)])
            words: Sequence[int] = (4,)
        elif base in _BYTES:
            cast, raw, words = _BYTES[base]
            rows = self._read(
                f"SELECT x.t, format('%%s', x.v), {raw} "
                f"FROM (SELECT t, t::{cast} AS v FROM unnest(%s::text[]) t) x ORDER BY x.v",
                [list(texts)],
            )
        else:
            raise Unfit(f"how values of type {name} are kept is not known to pgstrata")
        if len(rows) != len(texts):
            raise Unfit(f"the type {name} has other values here")
        values = {text: b"".join(_native(value, words)) for text, _, value in rows}
        dimension = Dimension(type_, length, by_value, values)
        return dimension, {text: shown for text, shown, _ in rows}

    def _of_expressions(self, call: ExtendedCall, target: Target, expressions: Sequence[ColumnFacts]) -> None:
        if len(expressions) != len(call.expressions):
            raise Unfit(f"they are of {len(expressions)} expressions here")
        rows, values = [], []
        for number, (statistics, facts) in enumerate(zip(call.expressions, expressions, strict=True), 1):
            if statistics is None:
                rows.append("NULL")
                continue
            column_call = ColumnCall(target.schema, target.table, number, False, statistics, call.line)
            slots = slots_of(column_call, facts, self._catalogs)
            kind = self._catalogs.type_of(self._catalogs.base_of(facts.type)).kind
            if kind in "rm" and "range_bounds_histogram" not in statistics:
                why = "a range: before 19 no view tells how its values are distributed"
                self._missing.add(f"{call.title}, expression {number}", why)
            for name, why in slots.missing.items():
                self._missing.add(f"{call.title}, expression {number}, {name}", why)
            row = row_of(column_call, facts, slots.slots, collations=True)
            row |= {"staattnum": ("0", ()), "stainherit": ("false", ())}
            cells = [row.get(name, ("NULL", ())) for name in self._statistic]
            rows.append(f"ROW({', '.join(place for place, _ in cells)})::pg_statistic")
            values += [value for _, cell_values in cells for value in cell_values]
        self._put("stxdexpr", f"ARRAY[{', '.join(rows)}]::pg_statistic[]", values)

    @property
    def _table(self) -> str:
        return "pg_statistic_ext_data" if self._has_data else "pg_statistic_ext"

    @property
    def _where(self) -> str:
        of_object = "stxoid" if self._has_data else "oid"
        return f"{of_object} = {self._key[0]}" + (
            f" AND stxdinherit = {self._key[1]}" if self._has_inherited else ""
        )

    def _put(self, name: str, place: str, values: Sequence[object]) -> None:
        updated = self._session.execute(
            f"UPDATE {self._table} SET {name} = {place} WHERE {self._where}".encode(), values
        )
        if updated.rowcount == 0:
            names = "stxoid, stxdinherit" if self._has_inherited else "stxoid"
            keys = ", ".join(map(str, self._key))
            self._session.execute(
                f"INSERT INTO {self._table} ({names}, {name}) VALUES ({keys}, {place})".encode(), values
            )

    def _read(self, question: str, values: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        return self._session.execute(question.encode(), values).fetchall()


_STATISTIC = """
SELECT attname::text FROM pg_attribute WHERE attrelid = 'pg_statistic'::regclass AND attnum > 0
ORDER BY attnum
"""
_TYPE = "SELECT typlen, typbyval, format_type(oid, NULL) FROM pg_type WHERE oid = %s"
_LABELS = """
SELECT enumlabel::text, enumlabel::text, oidsend(oid) FROM pg_enum
WHERE enumtypid = %s AND enumlabel = ANY (%s::text[]) ORDER BY enumsortorder
"""
_DIFFERS = "the server reads other values from the bytes than were meant"


def _check(combinations: Sequence[Combination], expressions: Sequence[ColumnFacts]) -> None:
    """Raises Unfit for numbers of expressions that there are not."""
    if any(number < -len(expressions) for c in combinations for number in c.attributes):
        raise Unfit(f"they are of more than {len(expressions)} expressions")


def _same(
    shown: Sequence[Combination], meant: Sequence[Combination], text_of: Callable[[float], str]
) -> None:
    """Raises Unfit where a server shows something else than was meant."""
    ours, theirs = (
        [(c.attributes, text_of(c.value)) for c in combinations] for combinations in (meant, shown)
    )
    if ours != theirs:
        raise Unfit(_DIFFERS)


def _native(value: bytes, words: Sequence[int]) -> Iterator[bytes]:
    """Yields numbers that were sent with the highest byte first as this machine keeps them."""
    at = 0
    for size in words or (len(value),):
        part = value[at : at + size]
        yield part[::-1] if words and sys.byteorder == "little" else part
        at += size


__all__ = ["write_extended"]

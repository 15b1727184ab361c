"""A file of statistics is read as calls with literals, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.sql_text import literal
from pgstrata.traffic.upgrade.planned.calls import COLUMN, EXTENDED, RELATION, read_statistics
from pgstrata.traffic.upgrade.planned.extended_values import Combination, CommonValues

HEAD = """
--
-- PostgreSQL database dump
--

SET statement_timeout = 0;
SET client_encoding = 'UTF8';
SELECT pg_catalog.set_config('search_path', '', false);
"""

RELATION_CALL = """
--
-- Statistics for Name: album; Type: STATISTICS DATA; Schema: public; Owner: -
--

SELECT * FROM pg_catalog.pg_restore_relation_stats(
\t'version', '180003'::integer,
\t'schemaname', 'public',
\t'relname', 'album',
\t'relpages', '12'::integer,
\t'reltuples', '23.5'::real,
\t'relallvisible', '0'::integer,
\t'relallfrozen', '0'::integer
);
"""
COLUMN_CALL = """
SELECT * FROM pg_catalog.pg_restore_attribute_stats(
\t'version', '180003'::integer,
\t'schemaname', 'public',
\t'relname', 'album',
\t'attname', 'title',
\t'inherited', 'f'::boolean,
\t'null_frac', '0'::real,
\t'avg_width', '4'::integer,
\t'n_distinct', '-1'::real,
\t'most_common_vals', '{"it''s; a \\"b\\"",c}'::text,
\t'most_common_freqs', '{0.5,0.25}'::real[],
\t'correlation', '0.9130435'::real
);
"""
EXTENDED_CALL = """
SELECT * FROM pg_catalog.pg_restore_extended_stats(
\t'version', '190000'::integer,
\t'schemaname', 'public',
\t'relname', 'album',
\t'statistics_schemaname', 'other',
\t'statistics_name', 'album_pairs',
\t'inherited', 'f'::boolean,
\t'n_distinct', '[{"attributes": [1, 2], "ndistinct": 7}]'::pg_ndistinct,
\t'dependencies', '[{"attributes": [1], "dependency": 2, "degree": 0.5}]'::pg_dependencies,
\t'most_common_vals', '{{1,NULL},{2,"a, b"}}'::text[],
\t'most_common_freqs', '{0.5,0.25}'::double precision[],
\t'most_common_base_freqs', '{0.3,0.1}'::double precision[],
\t'exprs', '[{"null_frac": "0", "most_common_vals": "{1,2}", "most_common_freqs": "{0.5,0.1}"}]'::jsonb
);
"""


def read(place: Path, text: str):  # type: ignore[no-untyped-def]
    file = place / "stats.sql"
    file.write_text(text)
    return read_statistics(file)


def test_the_form_of_pg_dump(tmp_path: Path) -> None:
    statistics = read(tmp_path, HEAD + RELATION_CALL + COLUMN_CALL)
    (relation,), (column,) = statistics.relations, statistics.columns
    assert (relation.schema, relation.name, relation.values["relpages"]) == ("public", "album", "12")
    assert relation.values.keys() == RELATION.keys()
    assert (column.column, column.inherited) == ("title", False)
    assert column.values["most_common_vals"] == '{"it\'s; a \\"b\\"",c}'
    assert column.values.keys() < COLUMN.keys()


def test_extended_statistics_in_the_form_of_pg_dump(tmp_path: Path) -> None:
    (call,) = read(tmp_path, HEAD + RELATION_CALL + EXTENDED_CALL).extended
    assert (call.schema, call.table, call.title) == ("public", "album", "other.album_pairs")
    assert call.distinct == (Combination((1, 2), 7),)
    assert call.dependencies == (Combination((1, 2), 0.5),)
    assert call.common == CommonValues((("1", None), ("2", "a, b")), (0.5, 0.25), (0.3, 0.1))
    (expression,) = call.expressions
    assert expression is not None and expression["most_common_vals"] == "{1,2}"
    assert call.arguments.keys() == EXTENDED.keys()


def test_the_last_of_equal_calls_counts(tmp_path: Path) -> None:
    statistics = read(tmp_path, RELATION_CALL + RELATION_CALL.replace("'12'", "'13'"))
    assert [relation.values["relpages"] for relation in statistics.relations] == ["13"]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("SELECT 1;", 1, "no call that restores"),
        ("SELECT pg_catalog.pg_clear_relation_stats('public', 'album');", 1, "no call"),
        ("SELECT evil.pg_restore_relation_stats('schemaname', 'a', 'relname', 'b');", 1, "no call"),
        ("COPY a FROM stdin;\n1\n\\.\n", 1, "no call"),
        ("SET role = postgres; SET a = (SELECT 1);", 1, "no call"),
        (RELATION_CALL.replace("'12'::integer", "pg_sleep(9)"), 10, "not literals"),
        (RELATION_CALL.replace("'12'", "'1' || '2'"), 10, "not literals"),
        (RELATION_CALL.replace(");", ") FROM pg_class;"), 14, "not literals"),
        (RELATION_CALL.replace("'12'", "'12 '"), 6, "relpages is no integer"),
        (RELATION_CALL.replace("'12'", "'99999999999'"), 6, "relpages is no integer"),
        (RELATION_CALL.replace("'23.5'", "'NaN'"), 6, "reltuples is no real"),
        (RELATION_CALL.replace("relallfrozen", "relfilenode"), 6, "relfilenode is no statistic"),
        (RELATION_CALL.replace("'relname', 'album',", ""), 6, "no `relname`"),
        (RELATION_CALL.replace("'relname',", ""), 6, "not pairs"),
        (COLUMN_CALL.replace("'attname', 'title',", ""), 2, "one of `attname`"),
        (COLUMN_CALL.replace("'f'", "'maybe'"), 2, "neither true nor false"),
        (COLUMN_CALL.replace("{0.5,0.25}", "{0.5,x}"), 2, "most_common_freqs is no real[]"),
        (COLUMN_CALL.replace("'title'", "E'a\\x41'"), 2, "the escape"),
        (COLUMN_CALL[:200], 8, "not literals"),
        (EXTENDED_CALL.replace("'other'", "''"), 2, "no `statistics_schemaname`"),
        (EXTENDED_CALL.replace("'f'", "'maybe'"), 2, "neither true nor false"),
        (EXTENDED_CALL.replace("[1, 2]", "[1, 1]"), 2, "n_distinct: a combination"),
        (EXTENDED_CALL.replace("0.5}]'", "NaN}]'"), 2, "dependencies: NaN"),
        (EXTENDED_CALL.replace("{{1,NULL},", "{{1},"), 2, "most_common_vals: combination 2"),
        (EXTENDED_CALL.replace("{0.5,0.25}", "{0.5}"), 2, "not equally many"),
        (EXTENDED_CALL.replace("{0.3,0.1}", "{0.3,x}"), 2, "most_common_base_freqs is no double precision[]"),
        (EXTENDED_CALL.replace('"null_frac": "0"', '"null_frac": "x"'), 2, "exprs: null_frac"),
    ],
)
def test_what_is_none_has_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert says in caught.value.message
    assert f"line {line}:" in caught.value.message or f":{line}" in caught.value.message


def test_files_that_are_none(tmp_path: Path) -> None:
    for text, says in (("", "holds no statistics"), (HEAD, "holds no statistics"), ("PGDMP\1", "an archive")):
        with pytest.raises(UsageError, match=says):
            read(tmp_path, text)
    with pytest.raises(UsageError, match="is a folder"):
        read_statistics(tmp_path)
    with pytest.raises(UsageError, match="no file"):
        read_statistics(tmp_path / "none.sql")
    with (tmp_path / "long.sql").open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(UsageError, match="more than 64 MiB"):
        read_statistics(tmp_path / "long.sql")


def quoted(text: str) -> str:
    """As quote_literal of the server writes it."""
    if "\\" not in text:
        return literal(text)
    return " E" + literal(text.replace("\\", "\\\\"))


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.tuples(NAMES, NAMES, NAMES), values=NAMES, rows=st.floats(0, 1e9, width=32))
def test_every_text_comes_back(tmp_path: Path, names: tuple[str, str, str], values: str, rows: float) -> None:
    schema, table, column = names
    text = (
        f"SELECT * FROM pg_catalog.pg_restore_relation_stats('schemaname', {quoted(schema)}, 'relname', "
        f"{quoted(table)}, 'reltuples', '{rows!r}'::real);\n"
        f"SELECT * FROM pg_catalog.pg_restore_attribute_stats('schemaname', {quoted(schema)}, 'relname', "
        f"{quoted(table)}, 'attname', {quoted(column)}, 'inherited', 'true'::boolean, 'histogram_bounds', "
        f"{quoted('{' + values + '}')}::text);\n"
    )
    (tmp_path / "stats.sql").write_text(text, newline="")
    statistics = read_statistics(tmp_path / "stats.sql")
    (relation,), (attribute,) = statistics.relations, statistics.columns
    assert (relation.schema, relation.name) == (attribute.schema, attribute.table) == (schema, table)
    assert float(relation.values["reltuples"]) == rows
    assert (attribute.column, attribute.inherited) == (column, True)
    assert attribute.values["histogram_bounds"] == "{" + values + "}"


@given(data=st.binary(max_size=400), cut=st.integers(0, len(EXTENDED_CALL)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_statistics_or_an_error(tmp_path: Path, data: bytes, cut: int) -> None:
    file = tmp_path / "stats.sql"
    file.write_bytes((RELATION_CALL + EXTENDED_CALL[:cut]).encode() + data)
    try:
        read_statistics(file)
    except UsageError as error:
        assert error.message

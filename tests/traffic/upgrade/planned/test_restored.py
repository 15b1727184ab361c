"""Statistics of one server in another: EXPLAIN expects the rows that it expected there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgstrata.server.config.resolve import ConfigFile, resolve
from pgstrata.server.find.model import Server
from pgstrata.traffic.upgrade.planned.calls import read_statistics
from pgstrata.traffic.upgrade.planned.outcome import OVERRIDES
from pgstrata.traffic.upgrade.planned.restore import Restored, restore
from pgstrata.traffic.upgrade.planned.sizes import stretch, wanted_sizes
from pgstrata.traffic.upgrade.schema import DATABASE, Schema, defined_schema
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.options import CustomOptions
from support.planner import CORRELATED, Original, estimates_of, sizes_of


def nothing() -> None:
    """Is asked whether to go on."""


@contextmanager
def restored(server: Server, original: Original, place: Path) -> Iterator[tuple[Schema, Restored]]:
    """A server with schema and statistics of another one, and the sizes of its tables."""
    files = (str(original.schema),)
    contents = {name: digest_of(Path(name)) for name in files}
    options = CustomOptions.model_construct(setup=files, contents=contents, allow_outside=False, without={})
    config = resolve([ConfigFile("test", "fsync = off\n", None)], server.version_num, 1 << 30)
    with defined_schema(server, config, options, place, print, nothing, OVERRIDES) as schema:
        assert schema.refused == {}
        done = restore(schema, read_statistics(original.statistics), nothing)
        sizes = wanted_sizes(schema.cluster)
        schema.cluster.stop()
        stretch(schema.cluster, sizes, nothing)
        schema.cluster.start(settings=OVERRIDES)
        yield schema, done


def agree(schema: Schema, original: Original) -> None:
    """EXPLAIN expects what the original expected, within 1 %."""
    with schema.cluster.connect(DATABASE) as connection:
        estimates, sizes = estimates_of(connection), sizes_of(connection)
    assert {name: sizes[name] for name in original.sizes} == original.sizes
    wrong = {
        query: (rows, estimates[query])
        for query, rows in original.estimates.items()
        if estimates[query] != pytest.approx(rows, rel=0.01)
    }
    assert wrong == {}
    assert len(estimates) >= 25


def differ_without(schema: Schema, original: Original) -> None:
    """Of correlated columns EXPLAIN expects something else without CREATE STATISTICS."""
    with schema.cluster.connect(DATABASE) as connection:
        connection.execute("DROP STATISTICS app.facts_makers, app.facts_kinds, public.parts_days")
        estimates = estimates_of(connection)
    for query in CORRELATED:
        assert estimates[query][0] != pytest.approx(original.estimates[query][0], rel=0.3), query


@pytest.mark.server
@pytest.mark.parametrize("to", ["pg13", "pg17", "pg18"])
def test_statistics_of_13(to: str, original13: Original, place: Path, request: pytest.FixtureRequest) -> None:
    with restored(request.getfixturevalue(to), original13, place) as (schema, done):
        agree(schema, original13)
        differ_without(schema, original13)
    assert (done.bare, done.extended) == ([], 3)
    assert [(missing.what, "before 17" in missing.why) for missing in done.missing] == [
        ("app.events.span", True)
    ]


@pytest.mark.server
@pytest.mark.parametrize("to", ["pg17", "pg13", "pg18"])
def test_statistics_of_17(to: str, original17: Original, place: Path, request: pytest.FixtureRequest) -> None:
    with restored(request.getfixturevalue(to), original17, place) as (schema, done):
        agree(schema, original17)
        differ_without(schema, original17)
        with schema.cluster.connect(DATABASE) as connection:
            query = "EXPLAIN (FORMAT JSON) SELECT * FROM app.events WHERE span && int4range(100, 200)"
            (plan,) = connection.execute(query).fetchall()
        assert 60 < plan[0][0]["Plan"]["Plan Rows"] < 600
    assert (done.bare, done.missing, done.extended) == ([], [], 3)


HOSTILE = """
CREATE TABLE met (who text);
CREATE FUNCTION spy(numeric) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN INSERT INTO met VALUES (current_user); RETURN true; END $$;
CREATE DOMAIN spied AS numeric CHECK (spy(VALUE));
CREATE TYPE pair AS (a spied, b text);
CREATE TABLE plain (price spied);
CREATE TABLE composed (duo pair);
CREATE TABLE listed (prices spied[]);
"""


def hostile_call(table: str, column: str, values: str) -> str:
    return (
        f"SELECT pg_catalog.pg_restore_attribute_stats('schemaname', 'public', 'relname', '{table}', "
        f"'attname', '{column}', 'inherited', 'f', 'null_frac', '0'::real, 'n_distinct', '5'::real, "
        f"'histogram_bounds', '{values}'::text);\n"
    )


@pytest.mark.server
@pytest.mark.parametrize("to", ["pg13", "pg18"])
def test_no_function_of_the_schema_is_executed_by_a_superuser(
    to: str, place: Path, request: pytest.FixtureRequest
) -> None:
    schema_file, statistics = place / "schema.sql", place / "stats.sql"
    schema_file.write_text(HOSTILE)
    statistics.write_text(
        hostile_call("plain", "price", "{1,2,3}")
        + hostile_call("composed", "duo", '{"(1,a)","(2,b)"}')
        + hostile_call("listed", "prices", '{"{1}","{2}"}')
        + hostile_call("gone", "a", "{1,2}")
        + hostile_call("plain", "price; DROP TABLE met", "{1}")
    )
    original = Original(schema_file, statistics, place, {}, {}, "")
    with restored(request.getfixturevalue(to), original, place) as (schema, done):
        with schema.cluster.connect(DATABASE) as connection:
            who = {row[0] for row in connection.execute("SELECT who FROM met").fetchall()}
            assert who <= {"pgstrata_app"}
        whys = {missing.what: missing.why for missing in done.missing}
        assert "public.gone.a" in whys and "public.plain.price; DROP TABLE met" in whys
        assert "public.plain.price" not in whys
        if to == "pg13":
            assert who == set()
            assert "a superuser reads no values" in whys["public.composed.duo, histogram_bounds"]
            assert "a superuser reads no values" in whys["public.listed.prices, histogram_bounds"]


def test_values_that_are_none_are_listed(pg13: Server, place: Path) -> None:
    schema_file, statistics = place / "schema.sql", place / "stats.sql"
    schema_file.write_text("CREATE TABLE a (b int);\n")
    statistics.write_text(hostile_call("a", "b", "{1,two}"))
    with restored(pg13, Original(schema_file, statistics, place, {}, {}, ""), place) as (_, done):
        assert [missing.what for missing in done.missing] == ["public.a.b"]
        assert "invalid input syntax" in done.missing[0].why
        assert done.bare == ["public.a"]


def test_tables_of_terabytes_take_no_place(pg17: Server, place: Path) -> None:
    """2.5 GiB are three files; what has no statistics keeps its size."""
    schema_file, statistics = place / "schema.sql", place / "stats.sql"
    schema_file.write_text("CREATE TABLE large (b int);\nCREATE INDEX large_b ON large (b);\n")
    statistics.write_text(
        "SELECT pg_catalog.pg_restore_relation_stats('schemaname', 'public', 'relname', 'large', "
        "'relpages', '327680'::integer, 'reltuples', '5e8'::real, 'relallvisible', '0'::integer);\n"
    )
    with restored(pg17, Original(schema_file, statistics, place, {}, {}, ""), place) as (schema, _):
        with schema.cluster.connect(DATABASE) as connection:
            (row,) = connection.execute("SELECT pg_relation_size('large')").fetchall()
            (plan,) = connection.execute("EXPLAIN (FORMAT JSON) SELECT * FROM large").fetchall()
        assert row[0] == 327_680 * 8192
        assert plan[0][0]["Plan"]["Plan Rows"] == pytest.approx(5e8, rel=0.01)
        files = list(schema.cluster.data_folder.path.rglob("base/*/*"))
        stretched = [path for path in files if path.stat().st_size > 100 << 20]
        assert len(stretched) == 3
        assert sum(path.stat().st_blocks * 512 for path in stretched) < 1 << 20

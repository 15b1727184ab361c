"""Synthetic files of a real server's statistics: an application works, and what its file does is held against
what it did."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgstrata.errors import UsageError
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.initdb import USER
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.traffic.captured import PREPARED, Captured
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.shapes import shape
from pgstrata.traffic.synthetic.draw import Distribution
from pgstrata.traffic.synthetic.files import of_folder
from pgstrata.traffic.synthetic.make import synthetic
from pgstrata.traffic.synthetic.prepared import types_by
from pgstrata.traffic.synthetic.questions import ServerQuestions
from pgstrata.traffic.synthetic.rows import rows_by
from pgstrata.traffic.synthetic.statistics import Statistics, columns_of, of_server
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step
from support.program import Program
from support.steps import database, run_step, running
from support.traffic import SCHEMA, Calls, Shop, counted

MORE = """
CREATE TYPE state AS ENUM ('open', 'paid', 'sent');
CREATE TABLE events (
    id uuid PRIMARY KEY, at timestamptz NOT NULL, day date NOT NULL, state state NOT NULL DEFAULT 'open',
    price numeric(10, 2), name varchar(20), tags text[], document jsonb, done boolean
);
INSERT INTO events SELECT md5(g::text)::uuid, timestamptz '2024-01-01 UTC' + g * interval '7 minutes',
    date '2024-01-01' + g / 200, (ARRAY['open', 'paid', 'paid', 'sent'])[1 + g % 4]::state, g % 1000 + 0.25,
    'name ' || g, ARRAY['t' || g % 5, 'u'], jsonb_build_object('n', g), g % 10 = 0
    FROM generate_series(1, 20000) g;
CREATE INDEX ON events (at);
CREATE INDEX ON events (name text_pattern_ops);
CREATE VIEW dear AS SELECT id, price FROM events WHERE price > 900;
"""


def other_shapes(connection: psycopg.Connection[Any], dice: random.Random) -> None:
    """Statements of many forms, each with constants, as applications have them."""
    day = f"2024-0{dice.randrange(1, 4)}-{dice.randrange(10, 28)}"
    key = dice.randrange(1, 20000)
    event, account, price = f"md5('{key}')::uuid", key % 500, key % 1000
    joined = "SELECT o.id FROM orders o JOIN accounts a ON a.id = o.account"
    largest = "SELECT (SELECT max(amount) FROM orders o WHERE o.account = a.id) FROM accounts a"
    upsert = "ON CONFLICT (name) DO UPDATE SET value = counters.value + 1"
    before = f"at > timestamptz '{day}' - interval '3 days'"
    for weight, text in (
        (6, f"SELECT * FROM events WHERE id = {event}"),
        (5, f"SELECT count(*) FROM events e WHERE e.at >= '{day}' AND e.at < '{day}'::timestamptz + '1 day'"),
        (4, f"SELECT id, price FROM events WHERE day BETWEEN '{day}' AND '{day}' ORDER BY at LIMIT 20"),
        (4, f"SELECT state, count(*) FROM events WHERE done AND price > {price} GROUP BY 1 ORDER BY 1"),
        (4, f"SELECT name FROM events WHERE name LIKE 'name {key}%'"),
        (4, f"SELECT * FROM events WHERE lower(name) = 'name {key}' OR state = 'sent' LIMIT 5"),
        (3, f"{joined} WHERE a.owner = 'owner {account}'"),
        (3, f"SELECT sum(amount) FROM orders WHERE account = ANY ('{{{account},{key % 400}}}'::int[])"),
        (3, f"WITH x AS (SELECT id, price AS p FROM events) SELECT max(p) FROM x WHERE p < {price}"),
        (3, f"{largest} WHERE id = {account}"),
        (2, f"SELECT count(*) FROM events WHERE tags @> ARRAY['t{key % 5}']"),
        (2, f"SELECT id FROM dear WHERE price = {price}.25"),
        (2, f"SELECT sum(CASE WHEN state = 'paid' THEN 1 ELSE 0 END) FROM events WHERE day = '{day}'"),
        (2, f"UPDATE events SET price = price + 1, name = 'name x{key}' WHERE id = {event}"),
        (2, f"DELETE FROM orders WHERE id = {key} RETURNING amount"),
        (2, f"INSERT INTO counters VALUES ('c{key % 20}', 1) {upsert}"),
        (2, f"INSERT INTO events (id, at, day, price) VALUES (gen_random_uuid(), now(), '{day}', {price})"),
        (1, f"SELECT count(*) FROM events WHERE {before} AND at < '{day}'"),
    ):
        for _ in range(weight):
            connection.execute(text.encode())
    for text in (
        f"SELECT id FROM events WHERE document ->> 'n' = '{key}'",
        "SELECT current_setting('work_mem')",
        "SET work_mem = '8MB'",
        f"SELECT pg_advisory_lock({key}), pg_advisory_unlock({key})",
    ):
        connection.execute(text.encode())


@dataclass
class Worked:
    """What an application did. statistics: of its server; counted: calls by shape."""

    statistics: Statistics
    counted: dict[str, Calls]
    cluster: Cluster


@pytest.fixture(scope="module")
def worked(pg17: Server) -> Iterator[Worked]:
    with running(pg17, "pg_stat_statements.track = top\n") as cluster, database(cluster, "shop") as admin:
        admin.execute((SCHEMA + MORE).encode())
        admin.execute("ANALYZE")
        admin.execute("SELECT pg_stat_statements_reset()")
        Shop(cluster, "shop", sessions=8, rounds=20, think=0.01).work()
        dice = random.Random(5)
        for _ in range(20):
            other_shapes(admin, dice)
        before = counted(admin)
        yield Worked(of_server(admin), before, cluster)


@pytest.fixture(scope="module")
def clusters(pg13: Server, pg17: Server) -> Iterator[Mapping[str, Cluster]]:
    with running(pg13) as old, running(pg17) as new:
        yield {"13": old, "17": new}


def run_replay(cluster: Cluster, file: Path) -> dict[str, Any]:
    """Replays a file on the data that is there."""
    workload = catalog.find("replay")
    options = workload.Options.model_validate({"file": str(file), "speed": 0})
    step = workload.phases(options, NEWEST)[-1]
    assert isinstance(step, Step)
    return run_step(cluster, "shop", step).role("replay")


def replayed(cluster: Cluster, file: Path) -> tuple[dict[str, Calls], dict[str, Any]]:
    """What pg_stat_statements has of a replay on new data, and what the replay says of itself."""
    with database(cluster, "shop") as connection:
        connection.execute((SCHEMA + MORE).encode())
        connection.execute("ANALYZE")
        connection.execute("SELECT pg_stat_statements_reset()")
        facts = run_replay(cluster, file)
        return counted(connection), facts


def sent(file: Path) -> dict[int, set[str]]:
    """What each shape is sent as: constants have casts where they had types."""
    by_shape: dict[int, set[str]] = {}
    with Captured(file) as captured:
        for entry in captured.sessions():
            for statement in captured.statements(entry):
                assert statement.protocol == PREPARED
                by_shape.setdefault(statement.shape, set()).add(shape(statement.text).text)
    return by_shape


@pytest.mark.parametrize("version", ["13", "17"])
@pytest.mark.parametrize("masked", [False, True])
def test_shares_of_the_calls_are_those_of_the_original(
    worked: Worked, clusters: Mapping[str, Cluster], tmp_path: Path, version: str, masked: bool
) -> None:
    """Half as many calls as the original had; times are printed."""
    file = tmp_path / "shop.traffic"
    mask = Mask() if masked else None
    with worked.cluster.connect("shop") as connection:
        types_of = types_by(connection)
        exact = synthetic(worked.statistics, tmp_path / "all", mask=mask, types_of=types_of)
        calls = {logged_shape.text: logged_shape.calls for logged_shape in exact.shapes}
        # Some transactions were rolled back.
        assert calls["BEGIN"] == calls["COMMIT"] <= worked.counted["BEGIN"].calls
        assert all(number == worked.counted[text].calls for text, number in calls.items() if text != "BEGIN")
        half = (exact.statements - calls["BEGIN"] - calls["COMMIT"]) // 2
        header = synthetic(worked.statistics, file, calls=half, mask=mask, types_of=types_of)
    seen, done = replayed(clusters[version], file)
    texts = sent(file)
    asked = [shape for shape in header.shapes if shape.calls]
    original = sum(calls[logged_shape.text] for logged_shape in asked)
    assert len(asked) >= 25 and header.statements == done["operations"] + done["errors"]
    failed = {failure["statement"].partition(" ")[2] for failure in done["replay"]["failures"]}
    # Masked values refer to no row: nothing else fails.
    assert {failure["now"] for failure in done["replay"]["failures"]} <= ({"23503"} if masked else set())
    by_name = {
        statement["name"].partition(" ")[2]: statement["count"] for statement in done["statements_by_name"]
    }
    print(f"\n{version}, {'masked' if masked else 'not masked'}: ms of a call in the original, in the replay")
    for number, logged_shape in enumerate(header.shapes):
        if not logged_shape.calls:
            continue
        then = worked.counted[logged_shape.text]
        assert by_name[logged_shape.text] / done_calls(done) == pytest.approx(
            calls[logged_shape.text] / original, rel=0.02
        )
        if logged_shape.text not in failed and logged_shape.text not in ("BEGIN", "COMMIT"):
            now = [seen[text] for text in texts[number]]
            assert sum(each.calls for each in now) == logged_shape.calls
            print(f"{then.each:9.3f} {now[0].each:9.3f}  {logged_shape.text[:90]}")
    # What is not asked again is told, with all of its time.
    reasons = {left_out.why for left_out in header.left_out}
    assert {"utility statement: SET", "the key of a document is not known"} <= reasons
    whole = sum(statement.seconds for statement in worked.statistics.statements if statement.here)
    left_out_seconds = sum(left_out.seconds for left_out in header.left_out)
    understood = (
        sum(calls[logged_shape.text] * worked.counted[logged_shape.text].each for logged_shape in asked)
        / 1000
    )
    assert left_out_seconds + understood == pytest.approx(whole, rel=0.001)


def done_calls(done: dict[str, Any]) -> int:
    return int(done["operations"] + done["errors"])


def test_values_are_those_of_the_columns(worked: Worked, tmp_path: Path) -> None:
    """Keys that are there are asked for, new ones are new, and rows come as they came."""
    with worked.cluster.connect("shop") as connection:
        header = synthetic(worked.statistics, tmp_path / "a", types_of=types_by(connection))
        same = synthetic(worked.statistics, tmp_path / "b", types_of=types_by(connection))
        drawn_by_text: dict[str, list[tuple[str | None, ...]]] = {}
        for file in (tmp_path / "a", tmp_path / "b"):
            with Captured(file) as captured:
                for entry in captured.sessions():
                    for statement in captured.statements(entry):
                        drawn_by_text.setdefault(
                            f"{file.name} {header.shapes[statement.shape].text}", []
                        ).append(statement.parameters)
        assert header.shapes == same.shapes
        for text, drawn in drawn_by_text.items():
            if text.startswith("a "):
                assert sorted(map(repr, drawn)) == sorted(map(repr, drawn_by_text["b" + text[1:]]))
        parameters = {text[2:]: drawn for text, drawn in drawn_by_text.items() if text.startswith("a ")}

        def there(text: str, table: str, column: str, place: int = 0) -> float:
            keys = [values[place] for values in parameters[text]]
            row = connection.execute(
                f"SELECT count(*) FROM unnest(%s::text[]) k WHERE EXISTS "
                f"(SELECT FROM {table} WHERE {column}::text = k)".encode(),
                (keys,),
            ).fetchone()
            assert row is not None
            return float(row[0]) / len(keys)

        assert there("UPDATE accounts SET balance = balance - $1 WHERE id = $2", "accounts", "id", 1) == 1
        assert there("INSERT INTO orders (account, amount, note) VALUES ($1, $2, $3)", "accounts", "id") == 1
        assert (
            there("SELECT * FROM events WHERE lower(name) = $1 OR state = $2 LIMIT $3", "events", "name") == 1
        )
        notes = [
            values[2]
            for values in parameters["INSERT INTO orders (account, amount, note) VALUES ($1, $2, $3)"]
        ]
        assert (
            notes.count(None) <= 10
        )  # ANALYZE has seen the rows of the beginning, and of these none was NULL
        states = [
            values[1]
            for values in parameters["SELECT * FROM events WHERE lower(name) = $1 OR state = $2 LIMIT $3"]
        ]
        assert 20 <= states.count("paid") <= 60  # a half of 80


TOGETHER = """
CREATE TABLE documents (tenant int, id text, kind int, PRIMARY KEY (tenant, id));
INSERT INTO documents SELECT g / 100, md5(g::text), g % 7 FROM generate_series(1, 20000) g;
ANALYZE documents;
"""


def test_columns_that_are_compared_together_come_from_one_row(pg17: Server, tmp_path: Path) -> None:
    """As a rule of the application's: what no statistics of single columns say."""
    with running(pg17) as cluster, database(cluster, "shop") as admin:
        admin.execute(TOGETHER.encode())
        admin.execute("SELECT pg_stat_statements_reset()")
        for number in range(300):
            admin.execute(f"SELECT kind FROM documents WHERE tenant = {number} AND id = 'x{number}'".encode())
            admin.execute(f"SELECT tenant FROM documents WHERE id = 'x{number}'".encode())
        statistics = of_server(admin)
        for sampled in (False, True):
            file = tmp_path / str(sampled)
            rows_of = rows_by(admin) if sampled else None
            header = synthetic(statistics, file, types_of=types_by(admin), rows_of=rows_of)
            with Captured(file) as captured:
                statements = [
                    statement for entry in captured.sessions() for statement in captured.statements(entry)
                ]
            (number,) = [
                n for n, shape in enumerate(header.shapes) if "tenant = $1 AND id = $2" in shape.text
            ]
            assert ("of one row" in str(header.shapes[number].parameters)) == sampled
            keys = [statement.parameters for statement in statements if statement.shape == number]
            there = admin.execute(
                "SELECT count(*) FROM unnest(%s::int[], %s::text[]) k (tenant, id) "
                "JOIN documents USING (tenant, id)",
                ([key[0] for key in keys], [key[1] for key in keys]),
            ).fetchone()
            assert len(keys) == 300 and there is not None
            assert there[0] == 300 if sampled else there[0] < 30
            # Of a text that is nowhere common the statistics have a hundred values, the table has more.
            (single,) = [n for n, shape in enumerate(header.shapes) if "WHERE id = $1" in shape.text]
            values = {statement.parameters for statement in statements if statement.shape == single}
            assert (len(values) > 200) == sampled


ASIDE = (
    "questions to pg_stat_statements, and pgstrata's own",
    "executed by functions, which are asked again themselves",
)

EXPRESSIONS = """
CREATE SEQUENCE apart;
CREATE SEQUENCE numbers;
CREATE TABLE numbered (id bigint PRIMARY KEY DEFAULT nextval('numbers'), day date, document jsonb);
INSERT INTO numbered (day, document) SELECT date '2020-01-01' + g % 1500,
    jsonb_build_object('kind', g % 4, 'number', g, 'of', jsonb_build_object('size', g % 100))
    FROM generate_series(1, 8000) g;
CREATE FUNCTION kind_of(p_id bigint, at_day date, OUT kind int) LANGUAGE sql STABLE AS
    $$ SELECT (document ->> 'kind')::int FROM numbered WHERE id = p_id $$;
ANALYZE numbered;
"""


def test_expressions_are_asked_for_on_sampled_rows(pg17: Server, tmp_path: Path) -> None:
    """Keys of documents, what is made of columns, and sequences: nothing of them is in any statistics."""
    with running(pg17) as cluster, database(cluster, "shop") as admin:
        admin.execute(EXPRESSIONS.encode())
        admin.execute("SELECT pg_stat_statements_reset()")
        for n in range(100):
            for text in (
                f"SELECT id FROM numbered WHERE document ->> 'number' = '{1 + n * 7}'",
                f"SELECT count(*) FROM numbered WHERE (document -> 'of' ->> 'size')::int = {n % 100}",
                f"SELECT count(*) FROM numbered WHERE extract(year FROM day) = {2020 + n % 4}",
                f"SELECT id FROM numbered WHERE to_char(day, 'YYYY-MM-DD') = '2021-02-0{1 + n % 9}'",
                f"INSERT INTO numbered (id, day) VALUES (nextval('numbers'), '2020-02-{1 + n % 28:02}')",
                "SELECT nextval('numbers')",
                f"SELECT * FROM kind_of({1 + n}, date '2020-03-01')",
            ):
                admin.execute(text.encode())
        before = admin.execute("SELECT last_value FROM numbers").fetchone()
        statistics = of_server(admin)
        questions = ServerQuestions(admin, lambda ask: ask())
        file = tmp_path / "file"
        header = synthetic(
            statistics, file, types_of=types_by(admin), rows_of=rows_by(admin), questions=questions
        )
        assert {left_out.why for left_out in header.left_out} <= {"utility statement: ANALYZE"} | set(
            ASIDE
        ), header.left_out
        # To ask has changed nothing.
        assert admin.execute("SELECT last_value FROM numbers").fetchone() == before
        drawn: dict[str, list[tuple[str | None, ...]]] = {}
        with Captured(file) as captured:
            for entry in captured.sessions():
                for statement in captured.statements(entry):
                    drawn.setdefault(header.shapes[statement.shape].text, []).append(statement.parameters)
        by_start = {text[:33]: parameters for text, parameters in drawn.items()}
        number = by_start["SELECT id FROM numbered WHERE doc"]
        # A call had one row: of the three keys that is `number`.
        assert {key for key, _ in number} == {"number"}
        assert all(value is not None and 1 <= int(value) <= 8000 for _, value in number)
        (size,) = [drawn[text] for text in drawn if "::int" in text]
        assert {each[:2] for each in size} == {("of", "size")} and len({each[2] for each in size}) > 30
        (part,) = [drawn[text] for text in drawn if "extract" in text.lower()]
        assert all(field == "day" and value is not None and 1 <= float(value) <= 31 for field, value in part)
        (called,) = [drawn[text] for text in drawn if "kind_of" in text]
        assert all(value is not None and 1 <= int(value) <= 8000 for value, _ in called)
        assert {day for _, day in called} == {"2020-01-01"}
        (inserted,) = [drawn[text] for text in drawn if text.startswith("INSERT")]
        assert {each[0] for each in inserted} == {"public.numbers"}
        assert {each[0] for each in drawn["SELECT nextval($1)"]} == {"public.apart", "public.numbers"}
        # Without sampling, and masked, they stay out.
        types = types_by(admin)
        masked = synthetic(statistics, tmp_path / "m", mask=Mask(), types_of=types, questions=questions)
        for without in (masked, synthetic(statistics, tmp_path / "p", types_of=types)):
            reasons = {each.why for each in without.left_out}
            assert "the key of a document is not known" in reasons
            assert "which name nextval is given is not known" in reasons
        replayed_file = run_replay(cluster, file)
        assert replayed_file["replay"]["failures"] == []


def test_files_of_statistics_say_the_same(worked: Worked, pgstrata: Program, place: Path) -> None:
    """What psql has exported by the script that is printed, and a server that is asked."""
    psql = shutil.which("psql")
    assert psql is not None, "apt install postgresql-client"
    script = pgstrata("capture", "--export-script")
    assert script.returncode == 0
    address = make_conninfo(
        host=str(worked.cluster.socket_dir), port=worked.cluster.port, user=USER, dbname="shop"
    )
    (place / "export.sql").write_text(script.stdout)
    subprocess.run([psql, "-X", "-d", address, "-f", "export.sql"], cwd=place, check=True)
    exported = of_folder(place)
    with worked.cluster.connect("shop") as connection:
        asked = of_server(connection)
    assert exported.database == asked.database == "shop" and list(exported.columns) == list(asked.columns)
    assert {
        statement.text: statement.calls
        for statement in worked.statistics.statements
        if "orders" in statement.text
    }.items() <= {statement.text: statement.calls for statement in exported.statements}.items()
    assert exported.seconds is not None and asked.seconds is not None
    assert 0 <= asked.seconds - exported.seconds < 600
    # And by the command, offline and from the server.
    done = pgstrata("capture", "--from-statistics", ".", "-o", "a.traffic", "--calls", "500")
    assert done.returncode == 0, done.stderr
    assert "left out:" in done.stdout and "known to change nothing" in done.stdout
    done = pgstrata(
        "capture", "--from-statistics", address, "-o", "b.traffic", "--reads-only",
        "--sessions", "3", "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["source"] == "pg_stat_statements" and answer["most_sessions"] == 3
    assert all(shape["reads"] for shape in answer["shapes"])
    assert any(left_out["why"] == "it changes data, or may" for left_out in answer["left_out"])
    assert_only_read(pgstrata, place, answer["statements"])
    again = pgstrata("capture", "a.traffic")
    assert again.returncode == 0 and "values:      drawn" in again.stdout


def assert_only_read(pgstrata: Program, place: Path, statements: int) -> None:
    """A replay of what is known to read: all clusters are up, and nothing is copied between the rounds."""
    (place / "schema.sql").write_text(SCHEMA + MORE)
    (place / "a.toml").write_text(
        'servers = ["pg:13", "pg:17"]\norder = "interleaved"\nrounds = 2\n[[workloads]]\nname = "replay"\n'
        '[workloads.options]\nfile = "b.traffic"\nsetup = "schema.sql"\nspeed = 0\n'
    )
    done = pgstrata("run", "a.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    for path in place.glob("results/*/*/*/*/run.json"):
        step = next(step for step in json.loads(path.read_text())["steps"] if step["name"] == "replay")
        assert step["reads_only"] and len(step["slices"]) == 2
        assert step["operations"] == 2 * statements and not step["replay"]["failures"]


EVERY_TYPE = """
CREATE TABLE types AS SELECT g::smallint a, -g::bigint * 9007199254740 b, g::real / 3 c, g::float8 * 1e300 d,
    (g * 1.5)::numeric(10, 3) e, g::money f, ('x' || g)::varchar(10) g, ('y' || g)::char(8) h,
    ('z' || g)::name i, now() + g * interval '1 hour' j,
    (now() + g * interval '1 hour')::timestamp k, current_date + g l,
    '10:00'::time + g * interval '1 second' m, g * interval '1 minute' n, g % 2 = 0 o,
    ('10.0.0.' || g % 250)::inet p, md5(g::text)::uuid q, decode(md5(g::text), 'hex') r, ARRAY[g, g + 1] s,
    ARRAY['a' || g % 5, 'b,"c'] t, jsonb_build_object('k', g) x, (g % 8)::bit(3) y,
    CASE g % 3 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' ELSE g::numeric END z, ''::text ab, '-44-01-01'::text ac,
    CASE WHEN g % 2 = 0 THEN 'infinity' ELSE timestamptz '0044-03-15 BC' + g * interval '1 day' END ad
    FROM generate_series(1, 1000) g
"""


@pytest.mark.parametrize("version", ["13", "17"])
def test_values_are_of_their_type(clusters: Mapping[str, Cluster], version: str) -> None:
    """Whatever is drawn of a column, the server takes for a value of it."""
    dice = Random(1)
    with database(clusters[version], "types") as connection:
        connection.execute(EVERY_TYPE.encode())
        connection.execute("ANALYZE types")
        columns = [known_column for known_column in columns_of(connection) if known_column.table == "types"]
        assert len(columns) == 26
        for column in columns:
            distribution = Distribution(column)
            drawn = [distribution.equal(dice) for _ in range(20)] + [distribution.at(n / 7) for n in range(8)]
            asked = f"SELECT count(*) FROM unnest(%s::text[]) v WHERE v::{column.type} IS NOT NULL"
            assert connection.execute(asked.encode(), (drawn,)).fetchone() == (len(drawn),), column.title


def test_what_a_server_does_not_say(pg17: Server, tmp_path: Path) -> None:
    """Each fault has a sentence, and a next step."""
    with running(pg17) as cluster:
        with cluster.connect() as admin:
            admin.execute("CREATE DATABASE lone")
            admin.execute("CREATE ROLE clerk LOGIN")
            with (
                cluster.connect("lone") as lone,
                pytest.raises(UsageError, match="not in database lone") as caught,
            ):
                of_server(lone)
            assert "CREATE EXTENSION pg_stat_statements" in caught.value.hint
        with database(cluster, "shop") as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, a text); INSERT INTO t VALUES (1, 'x')")
            with pytest.raises(UsageError, match="no table of database shop has statistics") as caught:
                of_server(connection)
            assert "ANALYZE" in caught.value.hint
            connection.execute("ANALYZE t")
            connection.execute("SELECT * FROM t WHERE id = 1")
            connection.execute("SELECT pg_stat_statements_reset()")
            connection.execute("CREATE TABLE u (id int); INSERT INTO u VALUES (7)")
            connection.execute("ANALYZE u")
            connection.execute("CREATE TABLE v (id int, at timestamptz, p point)")
            connection.execute("INSERT INTO v SELECT g FROM generate_series(1, 1000) g")
            connection.execute("VACUUM v")
            connection.execute("SELECT * FROM v WHERE id = 3")
            connection.execute("SELECT * FROM v WHERE p <@ box '((0,0),(1,1))'")
            connection.execute("SELECT '10:20:'::pg_snapshot IS NULL FROM v")
            connection.execute("SELECT a FROM t WHERE id = 1")
            with cluster.connect("lone") as lone:
                lone.execute("SELECT 1 AS elsewhere")
            header = synthetic(of_server(connection), tmp_path / "a", types_of=types_by(connection))
            assert any("ANALYZE has not seen v" in note for note in header.notes), header.notes
            whys = {left_out.why: left_out for left_out in header.left_out}
            assert whys["in another database, of which nothing else is known"].count >= 1
            made_up = next(shape for shape in header.shapes if "FROM v WHERE id" in shape.text)
            assert made_up.parameters == ["$1 of the type of v.id: ANALYZE has not seen it"]
            assert any("type pg_snapshot" in why for why in whys), list(whys)
            boxed = next(
                logged_shape
                for logged_shape in header.shapes
                if "v.p" in logged_shape.text or "p <@" in logged_shape.text
            )
            assert boxed.parameters == ["$1 guessed, of type box: (1,1),(0,0)"]
            # Somebody who may see neither others' texts nor the tables.
            address = make_conninfo(
                host=str(cluster.socket_dir), port=cluster.port, user="clerk", dbname="shop"
            )
            with psycopg.connect(address, autocommit=True) as clerk:
                with pytest.raises(UsageError, match="may not read the statistics") as caught:
                    of_server(clerk)
                assert "pg_read_all_data" in caught.value.hint
                connection.execute("GRANT SELECT ON t TO clerk")
                clerk.execute("SELECT a FROM t WHERE id = 1")
                header = synthetic(of_server(clerk), tmp_path / "b", types_of=types_by(clerk))
            hidden = next(
                left_out
                for left_out in header.left_out
                if left_out.why.startswith("statements of other users")
            )
            assert hidden.count > 3
            assert any("statistics of u, v may not be read" in note for note in header.notes), header.notes
        with database(cluster, "shop") as connection:
            connection.execute("SELECT pg_stat_statements_reset()")
            with pytest.raises(UsageError, match=r"counted no statement|no table of database"):
                of_server(connection)


def test_a_server_that_does_not_count(pg17: Server) -> None:
    with running(pg17, "shared_preload_libraries = ''\n") as cluster, database(cluster, "shop") as connection:
        with pytest.raises(UsageError, match="does not count statements") as caught:
            of_server(connection)
        assert "shared_preload_libraries" in caught.value.hint


@pytest.mark.parametrize("version", ["13", "17"])
def test_partitions_views_and_domains(clusters: Mapping[str, Cluster], tmp_path: Path, version: str) -> None:
    """Columns are found behind them, and a table has as many rows as its partitions together."""
    with database(clusters[version], "parts") as connection:
        connection.execute(
            "CREATE TABLE p (id int, day date, state text) PARTITION BY RANGE (day);"
            "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');"
            "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM ('2021-01-01') TO ('2023-01-01');"
            "INSERT INTO p SELECT g, date '2020-01-01' + g % 1000, 's' || g % 3"
            " FROM generate_series(1, 5000) g;"
            "CREATE VIEW w AS SELECT id AS key, lower(state) AS state FROM p WHERE day > '2020-06-01';"
            "CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE TABLE q (a positive);"
            "INSERT INTO q SELECT generate_series(1, 100)"
        )
        connection.execute("ANALYZE")
        connection.execute("SELECT pg_stat_statements_reset()")
        connection.execute("SELECT * FROM p WHERE id = 5 AND day BETWEEN '2022-01-01' AND '2022-01-10'")
        connection.execute("SELECT key FROM w WHERE key = 7 AND state = 's2'")
        connection.execute("SELECT * FROM q WHERE a = 3")
        statistics = of_server(connection)
        header = synthetic(statistics, tmp_path / "a", types_of=types_by(connection))
    rows = {
        column.title: (column.rows, column.type) for column in statistics.columns if column.schema == "public"
    }
    assert rows["p.id"] == (5000, "integer") and rows["q.a"] == (100, "integer")
    known = {shape.text: shape.parameters for shape in header.shapes}
    assert known["SELECT key FROM w WHERE key = $1 AND state = $2"] == ["$1 p.id", "$2 p.state"]
    assert known["SELECT * FROM q WHERE a = $1"] == ["$1 q.a"]
    asked = known["SELECT * FROM p WHERE id = $1 AND day BETWEEN $2 AND $3"]
    assert asked[0] == "$1 p.id" and asked[1].startswith("$2 a range of p.day")
    # Neither another's texts nor pgstrata's own questions are among what is to be asked again.
    assert len(header.shapes) == 3 and header.reads_only

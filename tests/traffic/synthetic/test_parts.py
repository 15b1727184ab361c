"""What statements compare with is drawn where no statistics have it: parts of documents, words, bounds of
ranges, elements of arrays, arguments by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.model import Server
from pgstrata.traffic.captured import Captured, Header
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.synthetic.make import synthetic
from pgstrata.traffic.synthetic.parts import likely_parts
from pgstrata.traffic.synthetic.prepared import types_by
from pgstrata.traffic.synthetic.questions import ServerQuestions
from pgstrata.traffic.synthetic.rows import rows_by
from pgstrata.traffic.synthetic.statistics import of_server
from support.steps import database, running
from traffic.synthetic.test_server import ASIDE, run_replay

SCHEMA = """
CREATE TYPE mood AS ENUM ('calm', 'loud');
CREATE TABLE notes (
    id bigint PRIMARY KEY, mood mood, tags text[], about jsonb, text text, during tstzrange, place point
);
INSERT INTO notes SELECT g, (ARRAY['calm', 'loud'])[1 + g % 2]::mood, ARRAY['t' || g % 7, 'all'],
    jsonb_build_object('kind', g % 3, 'number', g, 'of', jsonb_build_object('size', g % 100),
        'items', jsonb_build_array(jsonb_build_object('sku', 's' || g % 50))),
    (ARRAY['apples', 'pears', 'plums'])[1 + g % 3] || ' and others',
    tstzrange(t, t + interval '1 hour'), point(g % 10, g % 20)
    FROM generate_series(1, 3000) g, LATERAL (SELECT timestamptz '2024-01-01' + g * interval '1 hour') h (t);
CREATE SEQUENCE notes_numbers START 1000000000;
CREATE SEQUENCE others;
CREATE MATERIALIZED VIEW kinds AS SELECT about ->> 'kind', count(*) FROM notes GROUP BY 1;
CREATE PROCEDURE noted(p_id bigint) LANGUAGE sql AS 'UPDATE notes SET text = text WHERE id = p_id';
CREATE FUNCTION size_of(p_id bigint, p_scale int DEFAULT 1) RETURNS int LANGUAGE sql STABLE AS
    $$ SELECT (about -> 'of' ->> 'size')::int * p_scale FROM notes WHERE id = p_id $$;
"""

STATEMENTS = {
    "part": "SELECT id FROM notes WHERE about @> '{{\"number\": {n}}}'",
    "of part": "SELECT count(*) FROM notes WHERE about -> 'of' @> '{{\"size\": {n}}}'",
    "cast": "SELECT sum((about ->> 'number')::int) FROM notes WHERE (about ->> 'mood') IS NULL AND id > {n}",
    "path": "SELECT count(*) FROM notes WHERE about @? '$.kind'",
    "removed": "UPDATE notes SET about = about - 'gone' WHERE id = {n}",
    "deep": "SELECT count(*) FROM notes WHERE jsonb_extract_path_text(about, 'of', 'size') = '{n}'",
    "with": "WITH w AS (SELECT about -> 'of' AS o FROM notes) SELECT * FROM w WHERE o ->> 'size' = '{n}'",
    "items": "SELECT id FROM notes, jsonb_array_elements(about -> 'items') i WHERE i ->> 'sku' = 's{n}'",
    "unnested": "SELECT count(*) FROM notes, unnest(tags) AS tag WHERE tag = 't{n}'",
    "words": "SELECT id FROM notes WHERE to_tsvector('english', text) @@ plainto_tsquery('english', 'pears')",
    "moment": "SELECT id FROM notes WHERE during @> timestamptz '2024-01-05 10:00'",
    "overlap": "SELECT count(*) FROM notes WHERE during && tstzrange('2024-01-05', '2024-01-06')",
    "box": "SELECT count(*) FROM notes WHERE place <@ box '((0,0),(3,3))'",
    "both": "SELECT count(*) FROM notes WHERE tags @> ARRAY['t{n}', 'all']",
    "named": "SELECT size_of(p_scale => 2, p_id => {n})",
    "label": "SELECT count(*) FROM notes WHERE coalesce(mood, 'calm'::mood) = 'loud'::mood",
    "untyped": "UPDATE notes SET about = about || jsonb_build_object('again', true) WHERE id = {n}",
    "days": "WITH RECURSIVE d (day) AS (SELECT date '2024-01-01' UNION ALL SELECT day + 1 FROM d WHERE day < "
    "date '2024-01-01' + 3) SELECT count(*) FROM d",
    "listed": "SELECT text FROM notes WHERE id = ANY (ARRAY[{n}, 7])",
    "calculated": "SELECT 1 + 2, id FROM notes LIMIT 1",
    "series": "SELECT * FROM generate_series(1, 3)",
    "path of keys": "SELECT count(*) FROM notes WHERE about #>> ARRAY['of', 'size'] = '{n}'",
    "number": "INSERT INTO notes (id) VALUES (nextval('notes_numbers'))",
    "procedure": "CALL noted({n})",
    "refreshed": "REFRESH MATERIALIZED VIEW kinds",
    "copied": "COPY (SELECT id FROM notes WHERE id < 3) TO STDOUT",
    "own": "SELECT regexp_count(text, 'a'), parse_ident('a.b') FROM notes LIMIT 1",
}
"""As an application writes them; {n}: another number each time."""


@pytest.fixture(scope="module")
def cluster(pg17: Server) -> Iterator[Cluster]:
    with running(pg17, "pg_stat_statements.track = top\n") as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with database(cluster, "shop") as connection:
        connection.execute(SCHEMA.encode())
        connection.execute("ANALYZE notes")
        connection.execute("SELECT pg_stat_statements_reset()")
        yield connection


Drawn = dict[str, list[tuple[str | None, ...]]]


def drawn_by(header: Header, file: Path) -> Drawn:
    """The parameters of each call, by the text of its statement."""
    drawn: Drawn = {}
    with Captured(file) as captured:
        for entry in captured.sessions():
            for statement in captured.statements(entry):
                drawn.setdefault(header.shapes[statement.shape].text, []).append(statement.parameters)
    return drawn


def test_all_of_an_application_is_asked_again(
    admin: psycopg.Connection[Any], cluster: Cluster, tmp_path: Path
) -> None:
    for n in range(20):
        for text in STATEMENTS.values():
            if text.startswith("COPY"):
                with admin.cursor().copy(text.encode()) as copy:
                    list(copy)
                continue
            admin.execute(text.format(n=n).encode())
        admin.execute(
            "INSERT INTO notes (id, text) SELECT * FROM unnest(%s::bigint[], %s::text[])",
            ([10**6 + n, 10**7 + n], ["a", "b"]),
            prepare=True,
        )
    statistics, file = of_server(admin), tmp_path / "file"
    questions = ServerQuestions(admin, lambda ask: ask())
    header = synthetic(
        statistics, file, types_of=types_by(admin), rows_of=rows_by(admin), questions=questions
    )
    assert {left_out.why for left_out in header.left_out} <= {"utility statement: ANALYZE", *ASIDE}, (
        header.left_out
    )
    drawn = drawn_by(header, file)

    def of(part: str) -> list[tuple[str | None, ...]]:
        (calls,) = [drawn_calls for text, drawn_calls in drawn.items() if part in text]
        assert len(calls) == 20
        return calls

    # A call had one row: of the keys that is `number`.
    parts = [json.loads(str(part)) for (part,) in of("WHERE about @> $1")]
    assert all(set(part) == {"number"} for part in parts) and len({p["number"] for p in parts}) > 10
    assert all(json.loads(str(part)) for _, part in of("WHERE about -> $1 @> $2"))
    assert {str(path).startswith('$."') for (path,) in of("@? $1")} == {True}
    assert {row[:2] for row in of("jsonb_extract_path_text")} == {("of", "size")}
    assert len({row[-1] for row in of("jsonb_extract_path_text")}) > 10
    assert {row[:2] for row in of("WITH w AS")} == {("of", "size")}
    items = of("jsonb_array_elements")
    assert {row[:2] for row in items} == {("items", "sku")} and {str(row[2])[0] for row in items} == {"s"}
    assert {tag for (tag,) in of("unnest(tags)")} <= {"all", *(f"t{n}" for n in range(7))}
    assert {row[2] for row in of("plainto_tsquery")} <= {"appl", "pear", "plum", "other"}
    assert all(str(moment).startswith("2024-") for (moment,) in of("during @> "))
    assert {tag for row in of("tags @> ARRAY") for tag in row} <= {"all", *(f"t{n}" for n in range(7))}
    assert {row[:2] for row in of("#>> ARRAY")} == {("of", "size")}
    assert {name for (name,) in of("VALUES (nextval")} == {"public.notes_numbers"}
    assert all(sum(key is not None for key in row) == 2 for row in of("= ANY (ARRAY"))
    scaled = of("size_of(")
    assert all(1 <= int(str(number)) <= 3000 for _, number in scaled)
    rows = of("INSERT INTO notes (id, text)")
    assert all(str(keys).count(",") == 1 and str(texts).count(",") == 1 for keys, texts in rows)
    replayed = run_replay(cluster, file)
    assert replayed["replay"]["failures"] == []
    rows_by_text = {
        statement["name"].partition(" ")[2]: statement["rows"] for statement in replayed["statements_by_name"]
    }
    # Whoever asks for what is there has rows: documents, moments, the function.
    for part in ("WHERE about @> $1", "during @> "):
        (count,) = [rows for text, rows in rows_by_text.items() if part in text]
        assert count >= 20


def test_nothing_of_documents_is_in_a_masked_file(admin: psycopg.Connection[Any], tmp_path: Path) -> None:
    for text in STATEMENTS.values():
        if not text.startswith("COPY"):
            admin.execute(text.format(n=1).encode())
    header = synthetic(
        of_server(admin),
        tmp_path / "masked",
        mask=Mask(),
        types_of=types_by(admin),
        rows_of=rows_by(admin),
        questions=ServerQuestions(admin, lambda ask: ask()),
    )
    reasons = {left_out.why for left_out in header.left_out}
    assert "the key of a document is not known" in reasons
    values = " ".join(
        str(value)
        for calls in drawn_by(header, tmp_path / "masked").values()
        for row in calls
        for value in row
    )
    assert "apples" not in values


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [(1.0, {"id"}), (500.0, {"kind"}), (None, {"kind"})],
)
def test_a_part_leads_to_as_many_rows_as_a_call_had(wanted: float | None, keys: set[str]) -> None:
    documents = [json.dumps({"kind": n % 2, "id": n} if n else {"kind": 0}) for n in range(1000)]
    parts = [json.loads(part) for part in likely_parts(documents, 1000.0, wanted)]
    assert {key for part in parts for key in part} == keys
    assert likely_parts(["[1, 2]", "7", "no document", "[]"], 4.0, 1.0) == ["[1]"]

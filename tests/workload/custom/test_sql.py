"""SQL files are cut where psql would cut them, and what it cannot be is said with file and line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.workload.custom.archive import rows_of_copy
from pgstrata.workload.custom.sql import Copy, SqlStatement, items

DUMP = r"""-- PostgreSQL database dump
\restrict abc
SET x = 1;
/* a /* b; */ ; */ SELECT 'a;''b', E'\';', "x;y", $$;$$, $q$;$$;$q$;
CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);
CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END;
COPY "t;u" (a, b) FROM stdin;
1	;'
\\.	2
\.

COPY nothing FROM stdin;
\.
;; SELECT $1, x1$$, 'é' -- the end
"""


def read(folder: Path, text: str) -> list[SqlStatement | Copy]:
    file = folder / "made.sql"
    file.write_text(text)
    return list(items(file))


def test_statements_end_where_psql_ends_them(tmp_path: Path) -> None:
    items = read(tmp_path, DUMP.replace("x1$$, ", ""))
    assert [(item.line, item.text[:12]) for item in items] == [
        (3, "SET x = 1"),
        (4, "SELECT 'a;''"),
        (5, "CREATE RULE "),
        (6, "CREATE OR RE"),
        (7, 'COPY "t;u" ('),
        (12, "COPY nothing"),
        (14, "SELECT $1, '"),
    ]
    assert items[3].text.endswith("SELECT 2; END")
    rows = [(tmp_path / "made.sql").read_bytes()[i.begin : i.end] for i in items if isinstance(i, Copy)]
    assert rows == [b"1\t;'\n\\\\.\t2\n", b""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;\n\\connect other\n", r"made\.sql:2: \\connect other is a command of psql"),
        ("SELECT 1;\n\nSELECT 'a;\n", r"made\.sql:3: a ' is never closed"),
        ("SELECT $x$ 1;\n", r"made\.sql:1: a \$x\$ is never closed"),
        ("\n/* /* */ SELECT 1;\n", r"made\.sql:2: a comment is never closed"),
        ("COPY t FROM stdin;\n1\n", r"made\.sql:1: the rows of this COPY have no end"),
        ("SELECT '\0';", r"made\.sql:1: a statement holds a NUL"),
    ],
)
def test_what_cannot_be_read_is_said_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path, text)


def test_a_file_without_statements_has_none(tmp_path: Path) -> None:
    assert read(tmp_path, "") == read(tmp_path, "-- nothing\n;\n") == []


PIECES = st.lists(st.sampled_from(["a", "\t", "\n", "\\.", "\\\\.", "\n\\.", "x\\.y"]), max_size=12).map(
    "".join
)


@given(PIECES, st.integers(0, 2**32))
def test_rows_come_out_of_a_dump_however_it_is_cut(text: str, seed: int) -> None:
    """The end is a line of its own; it may lie across two pieces of what pg_restore prints."""
    rows = b"".join(line + b"\n" for line in text.encode().split(b"\n") if line != b"\\.")
    whole = b"SET a = 1;\n\nCOPY public.t (a) FROM stdin;\n" + rows + b"\\.\n\n-- done\n"
    dice, pieces, at = random.Random(seed), [], 0
    while at < len(whole):
        step = dice.randint(1, 7)
        pieces.append(whole[at : at + step])
        at += step
    parts: list[bytes] = []
    assert rows_of_copy(lambda: pieces.pop(0) if pieces else b"", parts.append)
    assert b"".join(parts) == rows
    assert not rows_of_copy(iter([b"COPY t FROM stdin;\n1\n", b""]).__next__, parts.append)


def test_a_byte_order_mark_is_no_part_of_the_first_statement(tmp_path: Path) -> None:
    (first, second) = read(tmp_path, "\ufeffCOPY t FROM stdin;\n1\n\\.\nSELECT 1")
    assert isinstance(first, Copy) and first.text == "COPY t FROM stdin"
    assert isinstance(second, SqlStatement) and second.text == "SELECT 1"

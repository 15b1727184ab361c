"""Settings in statements: client_encoding does not reach a replay, and an application's values are masked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.sql_tokens import tokens
from pgstrata.traffic import account
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.masked import masked
from pgstrata.traffic.settings import assignments, in_utf8, sets_only_encoding, sets_only_role
from pgstrata.traffic.shapes import shape
from support.logs import MS, START, Told, extended, plain, taken


@pytest.mark.parametrize(
    "text",
    [
        "SET client_encoding TO 'LATIN1'",
        "set session Client_Encoding = sql_ascii;",
        "SET LOCAL client_encoding TO DEFAULT",
        "SET NAMES 'LATIN1'",
        "RESET client_encoding",
        "/* pool */ SELECT set_config('client_encoding', 'WIN1252', false)",
        "SELECT pg_catalog.set_config('client_encoding', 'WIN' || 1252, false);",
        "UPDATE pg_settings SET setting = 'LATIN1' WHERE name = 'client_encoding'",
    ],
)
def test_statements_that_set_only_the_encoding_are_left_out(tmp_path: Path, text: str) -> None:
    header, [(_, statements)] = taken(
        tmp_path, [plain(START, 1, text), plain(START + 5 * MS, 1, "SELECT 'ü'")]
    )
    assert [s.text for s in statements] == ["SELECT 'ü'"]
    assert [(left_out.why, left_out.entries) for left_out in header.left_out] == [(account.ENCODING, 1)]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("SET client_encoding TO LATIN1; SELECT 'é'", "SET client_encoding TO 'UTF8'; SELECT 'é'"),
        (
            "SELECT set_config('client_encoding', 'LATIN1', true), set_config('search_path', 'a', true)",
            "SELECT set_config('client_encoding', 'UTF8', true), set_config('search_path', 'a', true)",
        ),
    ],
)
def test_beside_other_things_it_becomes_utf8(tmp_path: Path, text: str, kept: str) -> None:
    header, [(_, statements)] = taken(tmp_path, [plain(START + n * MS, 0.5, text) for n in range(2)])
    assert [s.text for s in statements] == [kept, kept]
    assert any("2 statements set client_encoding beside" in note for note in header.notes)


def test_an_encoding_in_parameters_becomes_utf8(tmp_path: Path) -> None:
    text = "SELECT set_config($1, $2, $3)"
    entries = [
        *extended(START, 1, text, ["client_encoding", "LATIN1", "f"]),
        *extended(START + 9 * MS, 1, text, ["search_path", "shop", "f"]),
    ]
    _, [(_, statements)] = taken(tmp_path, entries)
    assert [s.parameters for s in statements] == [
        ("client_encoding", "UTF8", "f"),
        ("search_path", "shop", "f"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT client_encoding FROM t",
        "SET search_path TO client_encoding",
        "INSERT INTO t VALUES ('SET client_encoding TO LATIN1')",
        "ALTER ROLE app SET client_encoding TO 'LATIN1'",
        "UPDATE t SET client_encoding = 'x'",
    ],
)
def test_other_statements_stay(text: str) -> None:
    pieces = tokens(text)
    settings = assignments(pieces)
    assert in_utf8(pieces, settings) == text and not sets_only_encoding(text, settings)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT set_config('app.current_user', 'Frederike', false)",
        "SET app.current_user = 'Frederike'",
        "SET LOCAL app.current_user TO Frederike",
        'SET SESSION "request.jwt.claims" = \'{"sub": "Frederike"}\'',
        "SET application_name = 'Frederike'",
        "NOTIFY orders, 'Frederike'",
    ],
)
def test_what_an_application_keeps_in_settings_is_masked(tmp_path: Path, text: str) -> None:
    other = masked(text, Mask()).text
    assert "Frederike" not in other and other[:12] == text[:12]
    assert "Frederike" not in shape(text).text
    header, [(_, statements)] = taken(tmp_path, [plain(START, 1, text)], mask=True)
    assert "Frederike" not in str(statements) + str(header)


@pytest.mark.parametrize(
    "text",
    [
        "SET work_mem = '64MB'",
        "SET search_path TO shop, public",
        "SELECT set_config('statement_timeout', '5s', false)",
        "SET TIME ZONE 'Europe/Berlin'",
        "SET timezone TO 'UTC'",
    ],
)
def test_settings_of_the_server_stay(text: str) -> None:
    assert masked(text, Mask()).text == text


def test_settings_in_parameters_are_masked_by_their_names(tmp_path: Path) -> None:
    text = "SELECT set_config($1, $2, true), set_config('app.b', $3, true)"
    entries = [
        *extended(START, 1, text, ["app.a", "Frederike", "Frederike"]),
        *extended(START + 9 * MS, 1, text, ["work_mem", "64MB", "Frederike"]),
    ]
    _, [(_, statements)] = taken(tmp_path, entries, mask=True)
    (first, again) = (s.parameters for s in statements)
    assert first[0] == "app.a" and again[:2] == ("work_mem", "64MB")
    assert "Frederike" not in first + again and first[1] == first[2] == again[2]


def test_a_masked_file_shows_no_messages(tmp_path: Path) -> None:
    entries = [
        plain(START, 1, "SELECT 1"),
        Told(START + MS, "hello Frederike", severity="NOTICE"),
        Told(START + MS, "no Frederike here", severity="ERROR", sqlstate="P0001"),
        Told(START + MS, 'duration: 1.0 ms  parse s: SELECT "Frederike"'),
    ]
    header, _ = taken(tmp_path, entries, mask=True)
    assert "Frederike" not in str(header)


def test_statements_that_set_only_the_role() -> None:
    for text in (
        "SET ROLE app",
        "set local role 'app';",
        'SET SESSION ROLE "App"',
        "SET ROLE NONE",
        "SET role = app",
        "SET role TO $1",
        "RESET ROLE",
        "SET SESSION AUTHORIZATION app",
        "reset session authorization ;",
    ):
        assert sets_only_role(text), text
    for text in ("SET ROLE app; SELECT 1", "SET roles = 1", "SET search_path TO role", "RESET ALL"):
        assert not sets_only_role(text), text

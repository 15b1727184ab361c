"""Dumps of clouds: extensions that are nowhere else, and the roles of `pg_dumpall -g`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.logs import START, extended, log, plain
from support.program import Program

DUMP = """--
-- PostgreSQL database dump
--

SELECT pg_catalog.set_config('search_path', '', false);
CREATE EXTENSION IF NOT EXISTS cloud_geo WITH SCHEMA public;
COMMENT ON EXTENSION cloud_geo IS 'of one cloud alone';
CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public;
CREATE TYPE public.state AS ENUM ('open', 'paid');
CREATE TABLE public.places (id integer NOT NULL, spot public.geo_point NOT NULL);
CREATE TABLE public.orders (id integer NOT NULL, state public.state, tags public.hstore);
CREATE VIEW public.spots AS SELECT id, spot FROM public.places;
CREATE VIEW public.paid AS SELECT id FROM public.orders WHERE state = 'paid';
CREATE FUNCTION public.near(public.geo_point) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE SEQUENCE public.places_id_seq OWNED BY public.places.id;
CREATE SEQUENCE public.orders_id_seq OWNED BY public.orders.id;
COPY public.places (id, spot) FROM stdin;
1\t(1,2)
\\.
COPY public.orders (id, state, tags) FROM stdin;
1\topen\t"a"=>"b"
2\tpaid\t"c"=>"d"
\\.
INSERT INTO public.places VALUES (2, '(3,4)');
SELECT pg_catalog.setval('public.places_id_seq', 2, true);
SELECT pg_catalog.setval('public.orders_id_seq', 2, true);
ALTER TABLE ONLY public.places ADD CONSTRAINT places_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (id);
CREATE INDEX places_spot ON public.places USING geo (spot);
"""
NEEDS = (
    "CREATE EXTENSION IF NOT EXISTS cloud_geo",
    "CREATE TABLE public.places",
    "CREATE VIEW public.spots",
    "CREATE FUNCTION public.near",
    "ALTER TABLE ONLY public.places",
    "CREATE INDEX places_spot",
    "COPY public.places",
    "INSERT INTO public.places",
    "CREATE SEQUENCE public.places_id_seq",
    "SELECT pg_catalog.setval('public.places_id_seq'",
)
SECRET = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0$c3RvcmVkc3RvcmVk:c2VydmVyc2VydmVy"
GLOBALS = f"""--
-- PostgreSQL database cluster dump
--

SET default_transaction_read_only = off;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;

CREATE ROLE app;
ALTER ROLE app WITH NOSUPERUSER INHERIT NOCREATEROLE NOCREATEDB LOGIN PASSWORD '{SECRET}';
CREATE ROLE old;
ALTER ROLE old WITH NOSUPERUSER NOREPLICATION NOBYPASSRLS PASSWORD 'md507505b3b0b4b0f7201398d178216024d';
CREATE ROLE postgres;
ALTER ROLE postgres WITH SUPERUSER INHERIT CREATEROLE CREATEDB LOGIN REPLICATION BYPASSRLS;
ALTER ROLE app SET search_path TO 'shop', 'public';
GRANT app TO old GRANTED BY postgres;
GRANT pg_monitor TO app WITH INHERIT TRUE GRANTED BY postgres;
CREATE TABLESPACE fast OWNER postgres LOCATION '/mnt/fast';
"""


def _write(place: Path) -> None:
    (place / "shop.sql").write_text(DUMP)
    (place / "globals.sql").write_text(GLOBALS)
    entries = [plain(START + n * 20_000, 1, "SELECT count(*) FROM paid") for n in range(20)]
    entries += extended(START + 500_000, 3, "SELECT tags -> $1 FROM orders", ["a"])
    entries += [plain(START + 600_000, 1, "SELECT spot FROM places")]
    (place / "shop.csv").write_text(log(entries))


@pytest.mark.timeout(1200)
def test_an_extension_is_left_out_with_what_depends_on_it(
    pg13: Server, pg17: Server, place: Path, pgstrata: Program
) -> None:
    _write(place)
    question = (
        *("upgrade", "--from", "13", "--to", "17", "--dump", "globals.sql", "--dump", "shop.sql"),
        *("--log", "shop.csv", "--rounds", "2", "--speed", "0"),
    )
    refused = pgstrata(*question)
    assert refused.returncode == 2 and "lacks the extension cloud_geo" in refused.stderr
    assert "or leave it out: --without-extension cloud_geo" in refused.stderr
    wrong = pgstrata(*question, "--without-extension", "cloud_geo", "--without-extension", "aws_s3")
    assert wrong.returncode == 2 and "--without-extension aws_s3: the dump does not create it" in wrong.stderr
    assert "it creates: cloud_geo, hstore" in wrong.stderr
    done = pgstrata(*question, "--without-extension", "cloud_geo", "--format", "json")
    assert done.returncode in (0, 3), done.stderr
    assert f"without cloud_geo {len(NEEDS)} statements of the dump are left out" in done.stderr
    answer = json.loads(done.stdout)
    assert answer["failed"] == {} and answer["to"][0]["new_errors"] == []
    left_out = {gap["example"]: gap["what"] for gap in answer["not_covered"] if "cloud_geo" in gap["what"]}
    for begin in NEEDS[1:]:
        assert any(text.startswith(begin) for text in left_out), (begin, left_out)
    assert not any("orders" in text or "paid" in text or "hstore" in text for text in left_out)
    statements = {statement["statement"]: statement for statement in answer["to"][0]["statements"]}
    assert any("FROM paid" in text for text in statements)
    # No password of a role is anywhere in what was made.
    paths = [path for path in place.rglob("*") if path.is_file() and path.name != "globals.sql"]
    for secret in ("SCRAM-SHA-256", "c2VydmVy", "07505b3b0b"):
        assert not [path for path in paths if secret.encode() in path.read_bytes()]
        assert secret not in done.stdout + done.stderr

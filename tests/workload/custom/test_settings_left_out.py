"""Settings of a dump that a server lacks: told by the server itself, left out, and listed on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgstrata.server.features import NEWEST
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.workload.custom.confined import Confinement, outside_in
from pgstrata.workload.custom.options import CustomOptions
from pgstrata.workload.custom.reaches import SETTINGS
from pgstrata.workload.custom.setup import _has_setting, definitions
from support.bench import url
from support.page import PageReader
from support.program import Program
from support.steps import running

DUMP = """--
-- PostgreSQL database dump
--
-- Dumped from database version 11.22
SET statement_timeout = 0;
SET client_encoding = 'UTF8';
SET default_with_oids = false;
CREATE TABLE t (i int PRIMARY KEY);
COPY t (i) FROM stdin;
1
2
\\.
"""


def test_the_server_says_what_it_has() -> None:
    """A number promises what a server in the middle of its development may lack, and the other way round."""
    promised = replace(NEWEST, version_num=170000)
    assert _has_setting(promised, "transaction_timeout") and not _has_setting(promised, "default_with_oids")
    features = replace(promised, settings=frozenset({"default_with_oids"}))
    assert not _has_setting(features, "transaction_timeout") and _has_setting(features, "Default_With_OIDs")
    assert _has_setting(features, "of_an_extension")


def test_a_server_that_runs_already_is_asked(pg17: Server) -> None:
    with running(pg17) as cluster:
        features = acquire(f"dsn:{url(cluster)}").features
    assert features.settings is not None
    assert "transaction_timeout" in features.settings and "default_with_oids" not in features.settings


def test_the_page_lists_what_was_left_out(place: Path, pgstrata: Program, pg17: Server) -> None:
    (place / "app.sql").write_text(DUMP)
    (place / "look.sql").write_text("SELECT count(*) FROM t;\n")
    (place / "mine.toml").write_text(
        f'data_dir = "data"\nservers = ["{pg17.spec}"]\n[[workloads]]\nname = "custom"\n[workloads.options]\n'
        'setup = ["app.sql"]\nscripts = ["look.sql"]\nclients = 1\nseconds = 0.5\nwarmup = 0\n'
        "settle_seconds = 0\n"
    )
    done = pgstrata("run", "mine.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    outside = outside_in(run.record.facts)
    assert outside is not None and [setting.what for setting in outside.settings] == [
        "SET default_with_oids = false"
    ]
    (page,) = (place / "results").rglob("index.html")
    (row,) = PageReader(page).table("Left out of the setup").rows
    assert [cell.text for cell in row] == [
        "SET default_with_oids = false",
        "the server has no setting of this name",
        "all",
    ]


def test_settings_of_roles_and_databases_are_told(tmp_path: Path) -> None:
    """Sessions of the original had them: names are found by a search path, for one."""
    settings = [
        "ALTER ROLE app SET search_path TO 'shop', 'public'",
        "ALTER ROLE app IN DATABASE shop SET work_mem TO '64MB'",
        "ALTER DATABASE shop SET search_path TO 'shop', 'public'",
        'ALTER DATABASE "my shop" SET jit TO off',
    ]
    others = ["ALTER ROLE app WITH LOGIN", "ALTER DATABASE shop OWNER TO app", "CREATE DATABASE shop"]
    (tmp_path / "app.sql").write_text(f"{DUMP}{'; '.join([*settings, *others])};\n")
    options = CustomOptions.model_construct(
        setup=(str(tmp_path / "app.sql"),), contents={}, allow_outside=False, without={}
    )
    confinement, _ = definitions(options, NEWEST)
    assert [left_out.what for left_out in confinement.left_out if left_out.why == SETTINGS] == settings


@pytest.mark.parametrize(
    ("text", "executed"),
    [
        ("CREATE EXTENSION tiny", "CREATE EXTENSION IF NOT EXISTS tiny"),
        ('create extension "My-own";\n', 'CREATE EXTENSION IF NOT EXISTS "My-own"'),
        ("CREATE EXTENSION tiny SCHEMA mine", "CREATE EXTENSION tiny SCHEMA mine"),
        ("CREATE EXTENSION IF NOT EXISTS tiny", "CREATE EXTENSION IF NOT EXISTS tiny"),
    ],
)
def test_an_extension_that_a_build_has_brought_is_no_error(text: str, executed: str) -> None:
    assert Confinement(NEWEST, allowed=True).statement(text) == executed

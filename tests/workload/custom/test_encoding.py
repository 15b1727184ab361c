"""A dump in another encoding than UTF-8 keeps its letters, in statements and in rows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.errors import UsageError
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.workload import catalog
from pgstrata.workload.custom.encoding import codec_of, copy_in, encoding_set_by
from pgstrata.workload.custom.sql import items
from support.queries import work
from support.shop import dump
from support.steps import database, run_phase, running


@pytest.mark.parametrize(
    ("statement", "encoding"),
    [
        ("SET client_encoding = 'LATIN1'", "LATIN1"),
        ("set client_encoding to win1252", "win1252"),
        ("SET SESSION client_encoding TO 'ISO-8859-5'", "ISO-8859-5"),
        ("SET client_min_messages = warning", None),
        ("SELECT 'SET client_encoding = LATIN1'", None),
    ],
)
def test_statements_that_set_an_encoding_are_known(statement: str, encoding: str | None) -> None:
    assert encoding_set_by(statement) == encoding


def test_every_codec_is_one_of_python() -> None:
    for name in ("UTF8", "LATIN1", "LATIN10", "ISO_8859_8", "WIN866", "WIN1258", "KOI8R", "EUC_JP", "EUC_CN"):
        codec = codec_of(name)
        assert codec is not None and "SELECT 1;".encode(codec) == b"SELECT 1;"
    assert codec_of("SJIS") is None, "its letters hold bytes of ASCII"


def test_only_rows_in_another_encoding_say_so() -> None:
    assert copy_in("COPY t (a) FROM stdin", "LATIN1") == "COPY t (a) FROM stdin WITH (ENCODING 'LATIN1')"
    for encoding in ("", "UTF8", "unicode", "SQL_ASCII"):
        assert copy_in("COPY t (a) FROM stdin", encoding) == "COPY t (a) FROM stdin"


def test_letters_that_are_none_of_the_encoding_are_said(tmp_path: Path) -> None:
    file = tmp_path / "bad.sql"
    file.write_bytes(b"SET client_encoding = 'EUC_JP';\nSELECT '\xff\xff';\n")
    with pytest.raises(UsageError, match=r"bad\.sql:2: this is not EUC_JP text"):
        list(items(file))


@pytest.fixture(scope="module")
def dumps(pg12: Server) -> Iterator[Path]:
    """Dumps of a LATIN1 database, named by pg_dump's option, open to the account of servers."""
    with tempfile.TemporaryDirectory(prefix="pgs", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with running(pg12) as cluster:
            with cluster.connect() as admin:
                admin.execute(
                    "CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
                )
            with cluster.connect("old") as connection:
                connection.execute("CREATE TABLE dishes (name text DEFAULT 'Käse')")
                connection.execute("INSERT INTO dishes VALUES ('Crème brûlée'), (DEFAULT)")
            for how in ("-Fp", "-Fc", "--inserts"):
                dump(cluster, "old", folder / f"{how}.dump", how)
        yield folder


@pytest.mark.parametrize("how", ["-Fp", "-Fc", "--inserts"])
def test_a_dump_of_a_latin1_database_is_loaded(
    cluster: Cluster, dumps: Path, tmp_path: Path, how: str
) -> None:
    file = dumps / f"{how}.dump"
    custom = catalog.find("custom")
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "one.sql").write_text("SELECT 1;")
    options = custom.Options.model_validate(
        {"setup": [str(file)], "queries": str(tmp_path / "q")}, context={"folder": "/"}
    )
    with database(cluster, "pgstrata") as connection:
        for phase in custom.phases(options, NEWEST):
            if getattr(phase, "name", "") == "plans":
                break
            if hasattr(phase, "do"):
                work(cluster, "pgstrata", phase)  # type: ignore[arg-type]
            else:
                run_phase(cluster, "pgstrata", phase)
        connection.execute("INSERT INTO dishes VALUES (DEFAULT)")
        names = [name for (name,) in connection.execute("SELECT name FROM dishes ORDER BY name")]
        assert names == ["Crème brûlée", "Käse", "Käse"]

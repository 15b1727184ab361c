"""A server is asked for what it has: in the middle of its development its number proves nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from pgstrata.server.capabilities import catalog_of, column, function, programs_of, relation, setting
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.known import KnownSettings, known_settings
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.config.settings import names
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from support.needs import needs

NOTHING = Resolved("", (), {}, (), ())


@pytest.fixture(scope="session")
@needs("server")
def pg96() -> Server:
    """The oldest server that is published ready to run."""
    return acquire("pg:9.6")


@pytest.fixture
def early18(pg17: Server) -> Server:
    """A server that calls itself 18 and has what 17 has, as trees of July 2024 did."""
    return replace(pg17, version="18devel", version_num=180000, label="18devel")


def test_initdb_is_asked_for_its_options(pg96: Server, pg17: Server) -> None:
    for server in (pg96, pg17):
        assert server.programs is not None
        takes = server.programs.initdb_takes
        assert takes("-N") and takes("--auth") and takes("--data-checksums")
        assert not takes("--no-data-checksums") and not takes("--checksums")


def test_a_server_that_calls_itself_18_before_it_has_its_options_is_measured(
    early18: Server, place: Path
) -> None:
    with Cluster(early18, NOTHING, place / "c") as cluster:
        cluster.create()
        cluster.start()
        with cluster.connect() as session:
            assert session.execute("SHOW data_checksums").fetchone() == ("off",)


def test_settings_are_those_the_server_has(pg96: Server, pg17: Server, early18: Server) -> None:
    by_number, asked = KnownSettings(180000), known_settings(early18)
    assert by_number.has("io_method") and not asked.has("io_method")
    assert asked.has("summarize_wal")
    # One that went in this number is still there, with the form of the last version that has it.
    late16 = known_settings(replace(pg96, version_num=170000))
    assert late16.has("old_snapshot_threshold") and not KnownSettings(170000).has("old_snapshot_threshold")
    for server in (pg96, pg17):
        assert [n for n in names() if known_settings(server).has(n)] == [
            n for n in names() if KnownSettings(server.version_num).has(n)
        ]


def test_the_server_says_what_is_wrong_with_each_value(pg96: Server, pg17: Server) -> None:
    written = {
        "work_mem": "1",
        "DateStyle": "Klingon",
        "lc_monetary": "xx_XX.UTF-8",
        "no_such": "1",
        "shared_buffers": "128MB",
        "log_file_mode": "0600",
        "my.own": "x",
    }
    for server in (pg96, pg17):
        assert server.programs is not None
        complaints = server.programs.complaints(written)
        assert set(complaints) == {"work_mem", "DateStyle", "lc_monetary", "no_such"}
        assert "unrecognized" in complaints["no_such"] and "Klingon" in complaints["DateStyle"]


def test_libraries_are_looked_for_where_the_server_has_its_own(pg96: Server, pg17: Server) -> None:
    for server in (pg96, pg17):
        programs = server.programs
        assert programs is not None
        assert programs.has_library("pg_stat_statements") and programs.has_library("auto_explain.so")
        assert programs.has_library("timescaledb") is False


def test_who_writes_its_state(pg96: Server, pg17: Server) -> None:
    assert pg96.programs is not None and not pg96.programs.reports_state
    assert pg17.programs is not None and pg17.programs.reports_state


def test_where_no_server_is_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert programs_of(None) is None and programs_of(tmp_path) is None
    for name in ("postgres", "initdb"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.chdir(tmp_path)
    assert programs_of(Path()) is None, "a server that is not fetched yet, planned from such a folder"


def test_other_programs_in_the_same_place_are_asked_anew(pg96: Server, pg17: Server, place: Path) -> None:
    assert pg96.bin_dir is not None and pg17.bin_dir is not None
    shutil.copytree(pg96.bin_dir, place / "bin")
    before = programs_of(place / "bin")
    assert before is not None and before is programs_of(place / "bin")
    for name in ("postgres", "initdb"):
        (place / "bin" / name).unlink()
        shutil.copy(pg17.bin_dir / name, place / "bin" / name)
    after = programs_of(place / "bin")
    assert after is not None and after is not before and after.reports_state


@pytest.mark.server
def test_catalogs_are_asked(pg96: Server, place: Path) -> None:
    with Cluster(pg96, NOTHING, place / "c") as cluster:
        cluster.create()
        cluster.start()
        with cluster.connect() as session:
            catalog = catalog_of(session)
            assert catalog is catalog_of(session)
            assert catalog.has(relation("pg_stat_bgwriter")) and not catalog.has(relation("pg_stat_io"))
            assert catalog.has(column("pg_stat_activity", "wait_event"))
            assert not catalog.has(column("pg_stat_activity", "backend_type"))
            assert catalog.has(function("pg_current_xlog_location"))
            assert not catalog.has(function("pg_current_wal_lsn"))
            assert catalog.has(setting("lock_timeout")) and not catalog.has(setting("jit"))
            assert catalog.accepts("VACUUM (VERBOSE, ANALYZE) pg_catalog.pg_am")
            assert not catalog.accepts("VACUUM (INDEX_CLEANUP ON) pg_catalog.pg_am")
            assert session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

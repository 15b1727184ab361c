"""Whatever a server has for a setting may stand in a config: it is taken, or left out with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.errors import UsageError
from pgstrata.server.cluster.cluster import Cluster, new_database
from pgstrata.server.config.conf_file import ConfigFile, quoted
from pgstrata.server.config.resolve import Resolved, SettingOutcome, explain, resolve
from pgstrata.server.config.settings import history
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server

PRODUCTION = """
ssl_min_protocol_version = 'TLSv1.2'
log_file_mode = 0640
log_min_messages = debug
wal_level = replica
archive_mode = on
archive_command = 'touch {place}/archived-%f'
restore_command = 'touch {place}/restored-%f'
primary_conninfo = 'host=primary.example user=me'
synchronous_standby_names = 'ANY 1 (*)'
ssl = on
ssl_cert_file = '/etc/ssl/certs/mine.crt'
ssl_key_file = '/etc/ssl/private/mine.key'
shared_preload_libraries = 'citus, pg_stat_statements'
lc_monetary = 'xx_YY.UTF-8'
stats_temp_directory = '/run/pg/stats'
default_tablespace = 'nvme'
"""
VALUES = (
    "debug",
    "info",
    "fatal",
    "panic",
    "on",
    "off",
    "true",
    "yes",
    "no",
    "1",
    "0",
    "archive",
    "hot_standby",
)


def resolve_text(server: Server, text: str) -> Resolved:
    config_file = ConfigFile("mine", text)
    return resolve([config_file], server.version_num, 1 << 30, server.build, programs=server.programs)


def outcomes_of(server: Server, text: str) -> list[SettingOutcome]:
    config_file = ConfigFile("mine", text)
    return explain([config_file], server.version_num, 1 << 30, server.build, programs=server.programs)


def is_taken(session: Any, name: str, value: str) -> bool:
    """Asks a running server: one that starts for each question takes ten times as long."""
    try:
        session.execute(f"ALTER SYSTEM SET {name} = {quoted(value)}")
    except psycopg.Error:
        return False
    return True


def values_of(server: Server, place: Path) -> dict[str, list[str]]:
    """Returns for each setting the values that the server shows, and all spellings it takes of an enum's."""
    by_name: dict[str, list[str]] = {}
    with Cluster(server, Resolved("", (), {}, (), ()), place / "asked") as cluster:
        cluster.create()
        cluster.start()
        with cluster.connect() as session:
            query = (
                "SELECT name, vartype, boot_val, reset_val, enumvals, current_setting(name) FROM pg_settings"
            )
            for name, kind, boot, reset, enumerated, shown in session.execute(query).fetchall():
                values = {value for value in (boot, reset, shown, *(enumerated or ())) if value is not None}
                if kind == "enum":
                    rest = {value for row in history(name.lower()) for value in row.values} | set(VALUES)
                    values |= {value for value in rest - values if is_taken(session, name, value)}
                by_name[name] = sorted(values)
    return by_name


@pytest.mark.server
@pytest.mark.parametrize("version", ["9.6", "13", "17"])
def test_every_value_a_server_shows_is_taken_or_left_out(version: str, place: Path) -> None:
    """In configs of one value for every setting."""
    server = acquire(f"pg:{version}")
    values = values_of(server, place)
    assert sum(map(len, values.values())) > 250
    assert "log_min_messages" not in values or "debug" in values["log_min_messages"]
    for round_ in range(max(map(len, values.values()))):
        lines = {name: some[round_] for name, some in values.items() if round_ < len(some)}
        outcomes = outcomes_of(server, "".join(f"{name} = {quoted(v)}\n" for name, v in lines.items()))
        assert len(outcomes) == len(lines)
        for outcome in outcomes:
            assert outcome.kind in ("set", "mapped", "dropped", "overridden"), outcome
            assert outcome.kind == "set" or outcome.reason, outcome


@pytest.mark.server
@pytest.mark.parametrize("version", ["9.6", "13", "17"])
def test_a_server_comes_up_with_a_config_of_production(version: str, place: Path) -> None:
    server, text = acquire(f"pg:{version}"), PRODUCTION.format(place=place)
    resolved = resolve_text(server, text)
    for line in text.strip().splitlines():
        alone = resolve_text(server, line)
        assert alone.settings or all(change.reason for change in alone.dropped), line
    left = {change.name for change in resolved.dropped}
    assert {"archive_command", "restore_command", "synchronous_standby_names", "ssl", "lc_monetary"} <= left
    with Cluster(server, resolved, place / "c") as cluster:
        cluster.create()
        cluster.start()
        with cluster.connect() as session:
            session.execute("SET statement_timeout = '60s'")
            session.execute(new_database("made"))
            session.execute("SELECT pg_switch_wal()" if version != "9.6" else "SELECT pg_switch_xlog()")
            assert session.execute("SHOW log_file_mode").fetchone() == ("0640",)
            assert session.execute("SHOW log_min_messages").fetchone() in (("debug2",), ("debug",))
            assert session.execute("SHOW archive_mode").fetchone() == ("off",)
            assert session.execute("SHOW shared_preload_libraries").fetchone() == ("pg_stat_statements",)
    assert not list(place.glob("archived-*")) and not list(place.glob("restored-*"))


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("log_file_mode = 0600", "0600"),
        ("log_file_mode = 384", "0600"),
        ("log_file_mode = 0x180", "0600"),
        ("work_mem = 010MB", "8MB"),
        ("work_mem = '0x10 MB '", "16MB"),
        ("log_min_messages = DEBUG", "debug2"),
        ("log_min_error_statement = debug", "debug2"),
        ("ssl_min_protocol_version = 'tlsv1.2'", "TLSv1.2"),
        ("ssl_max_protocol_version = ''", ""),
        ("random_page_cost = 010", "10"),
        ("constraint_exclusion = yes", "on"),
    ],
)
def test_values_are_read_as_the_server_reads_them(line: str, value: str, pg17: Server) -> None:
    assert list(resolve_text(pg17, line).settings.values()) == [value]


def test_no_octal_number(pg17: Server) -> None:
    with pytest.raises(UsageError, match="no octal one"):
        resolve_text(pg17, "log_file_mode = 0680")

"""What servers of 7.4 to 9.5, and of versions to come, are told and asked."""

from __future__ import annotations

import pytest

from pgstrata.errors import UsageError
from pgstrata.server.cluster.configuration import own_settings
from pgstrata.server.cluster.initdb import initdb_arguments
from pgstrata.server.config.conf_file import ConfigFile
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.resolve import resolve

DEFAULT = """
shared_buffers = 128MB
max_wal_size = 4GB
checkpoint_timeout = 30min
work_mem = 4MB
wal_level = replica
synchronous_commit = off
"""


def conf(text: str, version_num: int) -> str:
    written = resolve([ConfigFile("mine", text)], version_num, 8 << 30).text(KnownSettings(version_num))
    return "\n".join(line for line in written.splitlines() if not line.startswith("#"))


def test_before_8_2_values_have_no_units() -> None:
    assert conf(DEFAULT, 80026) == (
        "shared_buffers = '16384'\ncheckpoint_segments = '85'\ncheckpoint_timeout = '1800'\nwork_mem = '4096'"
    )
    assert "shared_buffers = '128MB'" in conf(DEFAULT, 80223)


def test_settings_of_old_versions_have_their_old_names() -> None:
    assert "sort_mem = '4096'" in conf(DEFAULT, 70430)
    assert "wal_level = 'hot_standby'" in conf(DEFAULT, 90523)
    assert "wal_level" not in conf(DEFAULT, 80423)
    assert "max_wal_size = '4GB'" in conf(DEFAULT, 90525)
    assert "checkpoint_segments = '85'" in conf(DEFAULT, 90426)


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        (
            70430,
            {"tcpip_socket", "unix_socket_directory", "log_timestamp"},
            {"listen_addresses", "log_timezone"},
        ),
        (
            80026,
            {"listen_addresses", "redirect_stderr", "log_line_prefix"},
            {"tcpip_socket", "logging_collector"},
        ),
        (90023, {"logging_collector", "unix_socket_directory", "log_timezone"}, {"restart_after_crash"}),
        (
            90426,
            {"unix_socket_directories", "restart_after_crash"},
            {"unix_socket_directory", "stats_row_level"},
        ),
        (200000, {"unix_socket_directories", "restart_after_crash"}, {"redirect_stderr"}),
    ],
)
def test_a_server_is_found_by_settings_it_has(version: int, has: set[str], lacks: set[str]) -> None:
    names = set(own_settings(KnownSettings(version), 5432, "/tmp/x", tcp=False))
    assert has <= names and not lacks & names


def test_initdb_is_asked_for_what_it_knows() -> None:
    usual = ("--encoding=UTF8", "--locale=C", "--username=postgres")
    assert initdb_arguments(False, lambda option: False, ()) == ("--encoding=UNICODE", *usual[1:])
    assert initdb_arguments(True, lambda option: option == "--auth", ()) == (*usual, "--auth=trust")
    every = initdb_arguments(True, lambda option: True, ())
    assert every == (*usual, "--auth=trust", "-N", "--no-data-checksums")
    assert "--no-data-checksums" not in initdb_arguments(True, lambda option: True, ("-k",))


def test_a_setting_newer_than_the_table_reaches_a_newer_server() -> None:
    assert conf("enable_time_travel = on", 200000) == "enable_time_travel = 'on'"
    with pytest.raises(UsageError, match="no version of PostgreSQL has a setting"):
        conf("enable_time_travel = on", 180000)

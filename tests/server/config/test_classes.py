"""Settings that belong to another server are left out, with the reason, unless they are asked for."""

from __future__ import annotations

import pytest

from pgstrata.errors import UsageError
from pgstrata.server.config.classes import CLASSES, check_keep, is_left_out
from pgstrata.server.config.conf_file import ConfigFile
from pgstrata.server.config.resolve import Resolved, resolve
from pgstrata.server.config.settings import history, names
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server


def resolve_text(text: str, server: Server | None = None, keep: tuple[str, ...] = ()) -> Resolved:
    if server is None:
        return resolve([ConfigFile("mine", text)], 170011, 1 << 30, keep=keep)
    config_file = ConfigFile("mine", text)
    return resolve(
        [config_file], server.version_num, 1 << 30, server.build, programs=server.programs, keep=keep
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("archive_mode = on", "reaches outside"),
        ("archive_command = 'cp %p /srv/%f'", "reaches outside"),
        ("archive_library = 'basic_archive'", "reaches outside"),
        ("restore_command = 'cp /srv/%f %p'", "reaches outside"),
        ("archive_cleanup_command = 'rm /srv/%r'", "reaches outside"),
        ("recovery_end_command = 'mail me'", "reaches outside"),
        ("primary_conninfo = 'host=primary'", "reaches outside"),
        ("primary_slot_name = 'me'", "reaches outside"),
        ("ssl_passphrase_command = 'cat /etc/secret'", "reaches outside"),
        ("bonjour = yes", "reaches outside"),
        ("hba_file = '/etc/pg_hba.conf'", "names a place"),
        ("ident_file = '/etc/pg_ident.conf'", "names a place"),
        ("external_pid_file = '/run/pg.pid'", "names a place"),
        ("ssl = on", "names a place"),
        ("ssl_key_file = 'server.key'", "names a place"),
        ("stats_temp_directory = '/run/stats'", "names a place"),
        ("default_tablespace = fast", "names a place"),
        ("temp_tablespaces = 'a, b'", "names a place"),
        ("dynamic_library_path = '/opt/lib:$libdir'", "names a place"),
        ("synchronous_standby_names = '*'", "needs another server"),
        ("hot_standby = off", "needs another server"),
        ("recovery_target_lsn = '0/1'", "needs another server"),
        ("data_directory = '/srv/data'", "set by pgstrata itself"),
        ("port = 5433", "set by pgstrata itself"),
        ("wal_segment_size = 16MB", "told by the server"),
        ("server_version = 17", "told by the server"),
    ],
)
def test_what_belongs_to_another_server_is_left_out(line: str, why: str) -> None:
    resolved = resolve_text(f"work_mem = 8MB\n{line}")
    assert resolved.settings == {"work_mem": "8MB"} and not resolved.mapped
    (change,) = resolved.dropped
    assert why in change.reason and (change.line, change.name) == (2, line.split()[0])


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("archive_command = ''", ""),
        ("archive_mode = off", "off"),
        ("ssl = no", "off"),
        ("synchronous_standby_names = ''", ""),
        ("dynamic_library_path = '$libdir'", "$libdir"),
        ("hot_standby = true", "on"),
        ("default_tablespace = ''", ""),
    ],
)
def test_a_value_that_changes_nothing_is_taken(line: str, value: str) -> None:
    resolved = resolve_text(line)
    assert list(resolved.settings.values()) == [value] and not resolved.dropped


def test_what_is_asked_for_by_name_is_kept() -> None:
    text = "archive_command = 'true'\narchive_mode = on\nsynchronous_standby_names = '*'\nport = 1"
    resolved = resolve_text(text, keep=("archive_command", "archive_mode", "port"))
    assert resolved.settings == {"archive_command": "true", "archive_mode": "on"}
    assert [change.name for change in resolved.dropped] == ["synchronous_standby_names", "port"]
    assert resolved.record().keep == ("archive_command", "archive_mode", "port")


def test_only_what_is_left_out_can_be_kept() -> None:
    check_keep(["archive_command", "SSL", "shared_preload_libraries", "lc_time"])
    for name, hint in (
        ("archive_comand", "archive_command"),
        ("work_mem", ""),
        ("port", "leave it out"),
        ("data_directory", "leave it out"),
    ):
        with pytest.raises(UsageError, match=name) as error:
            check_keep([name])
        assert hint in error.value.hint


def test_no_setting_is_in_two_classes_and_all_exist_somewhere() -> None:
    every = [name for setting_class in CLASSES for name in setting_class.names]
    assert len(every) == len(set(every))
    presets = CLASSES[1].names
    assert {name for name in every if not history(name)} <= presets
    for setting_class in CLASSES:
        assert set(setting_class.harmless) <= setting_class.names


def test_no_setting_that_executes_or_connects_is_forgotten() -> None:
    """Read out of the names of all settings of all versions: what ends like these is in the table."""
    ends = (
        "_command",
        "_conninfo",
        "_file",
        "_directory",
        "_directories",
        "_tablespace",
        "_tablespaces",
        "_path",
    )
    harmless = {"search_path", "archive_library", "debug_write_read_parse_plan_trees"}
    for name in names():
        if name.endswith(ends) and name not in harmless and history(name)[-1].type == "string":
            assert is_left_out(name, "anything") is not None, name


def test_only_libraries_that_the_server_has_are_loaded(pg17: Server) -> None:
    resolved = resolve_text(
        "shared_preload_libraries = 'timescaledb, pg_stat_statements,\"$libdir/auto_explain\"'", pg17
    )
    assert resolved.settings == {"shared_preload_libraries": "pg_stat_statements, $libdir/auto_explain"}
    (change,) = resolved.mapped
    assert "no such library: timescaledb" in change.reason
    resolved = resolve_text("session_preload_libraries = citus\nlocal_preload_libraries = auto_explain", pg17)
    assert not resolved.settings and len(resolved.dropped) == 2
    assert (
        resolve_text("shared_preload_libraries = '/opt/x.so'", pg17).dropped[0].reason.endswith("/opt/x.so")
    )
    kept = resolve_text("shared_preload_libraries = 'timescaledb'", pg17, ("shared_preload_libraries",))
    assert kept.settings == {"shared_preload_libraries": "timescaledb"}


def test_a_locale_that_the_machine_lacks_is_left_out(pg17: Server) -> None:
    resolved = resolve_text("lc_monetary = 'xx_YY.UTF-8'\nlc_time = 'C'\nlc_messages = 'de_DE.UTF-8'", pg17)
    assert resolved.settings == {"lc_time": "C"}
    assert [change.name for change in resolved.dropped] == ["lc_monetary", "lc_messages"]
    assert "no such locale" in resolved.dropped[0].reason


def test_everything_wrong_with_a_config_is_said_at_once(pg17: Server) -> None:
    text = (
        "work_mem = 1\nshared_bufers = 1GB\ndatestyle = 'Klingon'\nwal_level = much\nfsync\n"
        "timezone_abbreviations = 'Mars'\njit = off\n"
    )
    for server in (pg17, acquire("pg:9.6")):
        with pytest.raises(UsageError) as error:
            resolve_text(text, server)
        lines = error.value.message.splitlines()
        assert lines[0].startswith("6 lines of the config")
        assert sorted(int(line.split(":")[1]) for line in lines[1:]) == [1, 2, 3, 4, 5, 6]
        assert "did you mean shared_buffers?" in error.value.message

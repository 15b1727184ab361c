"""Settings that belong to the server a config was written for, by class: the only table of them.

A `postgresql.conf` of production is no harmless text: with it a test cluster would ship its WAL into the
archive of production, connect to its primary, or wait for its standby at the first commit. What a class says
is left out, with the class's reason, unless it is asked for by name (`--keep-setting`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pgstrata.errors import UsageError
from pgstrata.suggest import nearest

_UNKNOWN_OUTSIDE = re.compile(r"\w+_(?:command|conninfo|library|libraries)", re.ASCII)
"""How settings are called that execute, connect or load something: of versions newer than the table."""


@dataclass(frozen=True)
class SettingClass:
    """Settings that are left out for one reason."""

    title: str
    reason: str
    names: frozenset[str]
    harmless: dict[str, frozenset[str]] = field(default_factory=dict)
    """By setting, values that change nothing here and are taken, beside the empty one."""
    is_fixed: bool = False
    """True if they cannot be kept."""

    def takes(self, name: str, value: str) -> bool:
        """Returns whether a value changes nothing, and may stay."""
        text = value.strip().lower()
        return not self.is_fixed and (not text or text in self.harmless.get(name, frozenset()))


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OFF = frozenset({"off", "of", "false", "fals", "fal", "fa", "f", "no", "n", "0"})
_ON = frozenset({"on", "true", "tru", "tr", "t", "yes", "ye", "y", "1"})

MANAGED = SettingClass(
    "set by pgstrata",
    "set by pgstrata itself",
    _names(
        "config_file data_directory lc_messages listen_addresses log_destination log_directory log_filename "
        "log_line_prefix log_pid log_timestamp log_timezone logging_collector port redirect_stderr "
        "restart_after_crash syslog tcpip_socket timezone unix_socket_directories unix_socket_directory "
        "unix_socket_group unix_socket_permissions virtual_host"
    ),
    is_fixed=True,
)
"""pgstrata has to find the server, and to read its log."""

PRESET = SettingClass(
    "told by the server",
    "told by the server, and no configuration can set it",
    _names(
        "block_size data_checksums data_directory_mode debug_assertions huge_pages_status in_hot_standby "
        "integer_datetimes is_superuser lc_collate lc_ctype max_function_args max_identifier_length "
        "max_index_keys num_os_semaphores segment_size server_encoding server_version server_version_num "
        "shared_memory_size shared_memory_size_in_huge_pages ssl_library wal_block_size wal_segment_size"
    ),
    is_fixed=True,
)

OUTSIDE = SettingClass(
    "reaches outside",
    "it reaches outside the cluster",
    _names(
        "archive_cleanup_command archive_command archive_library archive_mode bonjour primary_conninfo "
        "primary_slot_name recovery_end_command rendezvous_name restore_command ssl_passphrase_command"
    ),
    {"archive_mode": _OFF, "bonjour": _OFF},
)
"""They execute programs, connect to servers, or announce this one. `archive_mode` without its command would
keep all WAL for ever."""

PLACE = SettingClass(
    "names a place",
    "it names a place of the server it was written for",
    _names(
        "default_tablespace dynamic_library_path extension_control_path external_pid_file hba_file "
        "ident_file krb_server_keyfile promote_trigger_file ssl ssl_ca_file ssl_cert_file ssl_crl_dir "
        "ssl_crl_file ssl_dh_params_file ssl_key_file stats_temp_directory temp_tablespaces"
    ),
    {
        "ssl": _OFF,
        "dynamic_library_path": frozenset({"$libdir"}),
        "extension_control_path": frozenset({"$system"}),
        "default_tablespace": frozenset({"pg_default"}),
        "temp_tablespaces": frozenset({"pg_default"}),
        "stats_temp_directory": frozenset({"pg_stat_tmp"}),
    },
)
"""Files, folders and tablespaces. `ssl = on` is among them: it needs a certificate and a key, which are
files."""

OTHER_SERVER = SettingClass(
    "needs another server",
    "it needs another server",
    _names(
        "hot_standby hot_standby_feedback recovery_min_apply_delay recovery_target recovery_target_action "
        "recovery_target_inclusive recovery_target_lsn recovery_target_name recovery_target_time "
        "recovery_target_timeline recovery_target_xid sync_replication_slots synchronized_standby_slots "
        "synchronous_standby_names"
    ),
    {
        "hot_standby": _ON,
        "hot_standby_feedback": _OFF,
        "recovery_min_apply_delay": frozenset({"0"}),
        "recovery_target_action": frozenset({"pause"}),
        "recovery_target_inclusive": _ON,
        "recovery_target_timeline": frozenset({"latest"}),
        "sync_replication_slots": _OFF,
    },
)
"""With `synchronous_standby_names` every commit, that of CREATE DATABASE first, would wait for ever."""

LIBRARIES = SettingClass(
    "loads libraries",
    "this server has no such library",
    _names(
        "jit_provider local_preload_libraries oauth_validator_libraries preload_libraries "
        "session_preload_libraries shared_preload_libraries"
    ),
)
"""Those that the server has are loaded, the others are left out."""

LOCALES = SettingClass(
    "needs a locale",
    "this machine has no such locale",
    _names("lc_monetary lc_numeric lc_time"),
)
"""Left out where the server says that it does not take them."""

CLASSES = (MANAGED, PRESET, OUTSIDE, PLACE, OTHER_SERVER, LIBRARIES, LOCALES)

_CLASS_OF = {name: setting_class for setting_class in CLASSES for name in setting_class.names}


def class_of(name: str) -> SettingClass | None:
    """Returns the class of a setting; None for settings that belong to no other server."""
    return _CLASS_OF.get(name)


def is_left_out(name: str, value: str, keep: Iterable[str] = ()) -> SettingClass | None:
    """Returns the class for whose reason a setting is left out whatever the server; None where it is not.

    keep: names that are asked for nevertheless.
    """
    chosen = class_of(name)
    if chosen is None or chosen in (LIBRARIES, LOCALES) or chosen.takes(name, value):
        return None
    return None if name in keep and not chosen.is_fixed else chosen


def may_reach_outside(name: str) -> bool:
    """Returns whether a setting that is in no table is called like those that execute, connect or load."""
    return _UNKNOWN_OUTSIDE.fullmatch(name) is not None


def check_keep(names: Iterable[str]) -> None:
    """Raises UsageError for settings that cannot be kept, and for names that are left out nowhere."""
    can = sorted(
        name for setting_class in CLASSES if not setting_class.is_fixed for name in setting_class.names
    )
    for name in names:
        chosen = class_of(name.lower())
        if chosen is not None and chosen.is_fixed:
            raise UsageError(f"keep setting {name}: {chosen.reason}", "leave it out")
        if chosen is None and not may_reach_outside(name.lower()):
            near = nearest(name, can)
            raise UsageError(
                f"keep setting {name}: no setting of that name is ever left out",
                f"did you mean {near}?" if near else "docs/guides/config.md lists those that are",
            )


__all__ = [
    "CLASSES",
    "LIBRARIES",
    "LOCALES",
    "MANAGED",
    "OTHER_SERVER",
    "OUTSIDE",
    "PLACE",
    "PRESET",
    "SettingClass",
    "check_keep",
    "class_of",
    "is_left_out",
    "may_reach_outside",
]

"""The configuration files of a cluster."""

from __future__ import annotations

from collections.abc import Callable

from pgstrata.files.ownership import read_small
from pgstrata.server.cluster.data_folder import DataFolder
from pgstrata.server.config.classes import MANAGED
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.resolve import Resolved, quoted
from pgstrata.server.system.guard import unwritable


class Configuration:
    """The configuration of one cluster, written as files into its data folder."""

    def __init__(self, config: Resolved, known: KnownSettings, data_folder: DataFolder) -> None:
        self._config, self._known, self._data_folder = config, known, data_folder
        self.timers: dict[str, str] = {}
        """Settings that win over those of the config while variants take turns."""
        self.more: Callable[[], str] = str
        """Returns the lines that a primary or a standby has beside."""

    def include(self) -> None:
        """Lets the server read our file after that of initdb, where its version can. Raises OSError."""
        if self._known.takes_units:
            text = read_small(self._data_folder.path / "postgresql.conf") + "\ninclude 'pgstrata.conf'\n"
            self._data_folder.write("postgresql.conf", text)

    def write(self, port: int, socket_dir: str, tcp: bool) -> None:
        """Writes the settings, those by which pgstrata finds the server included. Raises ServerError."""
        # Without `include` the whole file is ours: what initdb wrote there are the defaults.
        name = "pgstrata.conf" if self._known.takes_units else "postgresql.conf"
        text = self._text(port, socket_dir, tcp) + self.more()
        try:
            self._data_folder.write(name, text, mode=0o644)
        except OSError as error:
            raise unwritable(self._data_folder.folder, error) from error

    def _text(self, port: int, socket_dir: str, tcp: bool) -> str:
        """Returns the config's settings, followed by those by which pgstrata finds the server."""
        lines = [
            f"{name} = {quoted(value)}"
            for name, value in own_settings(self._known, port, socket_dir, tcp).items()
            if name not in self._config.settings or name in MANAGED.names
        ]
        # The last one counts.
        lines += [f"{name} = {quoted(value)}" for name, value in self.timers.items()]
        text = self._config.text(self._known)
        return text + "\n# set by pgstrata itself\n" + "\n".join(lines) + "\n"


def own_settings(known: KnownSettings, port: int, socket_dir: str, tcp: bool) -> dict[str, str]:
    """Returns the settings by which pgstrata finds a server and reads its log, under the names of its
    version."""
    wanted = {
        "listen_addresses": "127.0.0.1" if tcp else "",
        "tcpip_socket": "true" if tcp else "false",
        "virtual_host": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": socket_dir,
        "unix_socket_directory": socket_dir,
        # The log is read for checkpoints and autovacuums, so its form is fixed.
        "log_destination": "stderr",
        "logging_collector": "off",
        "redirect_stderr": "off",
        "log_line_prefix": "%m [%p] " if known.logs_milliseconds else "%t [%p] ",
        "log_timestamp": "true",
        "log_pid": "true",
        "lc_messages": "C",
        "log_timezone": "UTC",
        "timezone": "UTC",
        # A crash of one backend should end the run and be seen, not be repaired behind its back.
        "restart_after_crash": "off",
        # Counted by default from 8.3 on, and autovacuum needs it.
        "stats_start_collector": "on",
        "stats_block_level": "on",
        "stats_row_level": "on",
    }
    return {name: value for name, value in wanted.items() if known.has(name)}


__all__ = ["Configuration", "own_settings"]

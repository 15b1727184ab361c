"""The poolers that pgstrata can start: what each is called, how it is told where to listen, what it keeps."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgstrata.ownership import write_into

PORT = 6432
"""It only names the socket, beside the server's."""


@dataclass(frozen=True)
class Place:
    """Where a pooler lives, and the server behind it. owner: uid and gid of the account it runs as."""

    folder: Path
    sockets: Path
    port: int
    user: str
    owner: tuple[int, int] | None

    def write(self, name: str, text: str) -> Path:
        """A file of its configuration, which nobody else may read."""
        write_into(self.folder, name, text, mode=0o600, owner=self.owner)
        return self.folder / name


@dataclass(frozen=True)
class Kind:
    """A program. name: in campaigns; package: Debian's; program: what it is called on disk; said: its answer
    to --version, with the version. usual: settings that count for more than one place here; ours: those by
    which pgstrata finds it. sessions: the setting that says for how many connections there is room.
    configure: writes its files, and gives the arguments that name them. death: the signal that ends it with
    all its processes."""

    name: str
    package: str
    program: str
    said: re.Pattern[str]
    usual: Mapping[str, str]
    ours: re.Pattern[str]
    sessions: str
    configure: Callable[[Place, Mapping[str, str]], list[str]]
    death: signal.Signals


def _pgbouncer(place: Place, settings: Mapping[str, str]) -> list[str]:
    users = place.write("users.txt", f'"{place.user}" ""\n')
    lines = {
        **settings,
        "listen_port": str(PORT),
        "unix_socket_dir": str(place.sockets),
        "unix_socket_mode": "0700",
        "auth_type": "trust",
        "auth_file": str(users),
    }
    text = "".join(f"{name} = {value}\n" for name, value in lines.items())
    to = f"[databases]\n* = host={place.sockets} port={place.port}\n"
    return [str(place.write("pgbouncer.ini", f"{to}\n[pgbouncer]\n{text}"))]


def _pgpool(place: Place, settings: Mapping[str, str]) -> list[str]:
    lines = {
        # One server, and nothing is looked at or balanced but what is asked for.
        "backend_clustering_mode": "raw",
        **settings,
        "listen_addresses": "",
        "port": str(PORT),
        # Until 4.3, and since.
        "socket_dir": str(place.sockets),
        "unix_socket_directories": str(place.sockets),
        "pcp_listen_addresses": "",
        "pcp_port": str(PORT + 1),
        "pcp_socket_dir": str(place.folder),
        "backend_hostname0": str(place.sockets),
        "backend_port0": str(place.port),
        "enable_pool_hba": "off",
        "pool_passwd": "",
        "log_destination": "stderr",
        "pid_file_name": str(place.folder / "pgpool.pid"),
        "logdir": str(place.folder),
        "work_dir": str(place.folder),
    }
    text = "".join("{} = '{}'\n".format(n, v.replace("'", "''")) for n, v in lines.items())
    conf, pcp = place.write("pgpool.conf", text), place.write("pcp.conf", "")
    return ["-n", "-f", str(conf), "-F", str(pcp)]


PGBOUNCER = Kind(
    name="pgbouncer",
    package="pgbouncer",
    program="pgbouncer",
    said=re.compile(r"PgBouncer (\d[\w.]*)"),
    # The first two are its own defaults.
    usual={"pool_mode": "session", "default_pool_size": "20", "max_client_conn": "10000"},
    ours=re.compile(
        "auth_file|auth_type|conffile|listen_addr|listen_port|logfile|pidfile|unix_socket_dir|"
        "unix_socket_group|unix_socket_mode|user"
    ),
    sessions="default_pool_size",
    configure=_pgbouncer,
    death=signal.SIGKILL,
)
PGPOOL = Kind(
    name="pgpool2",
    package="pgpool2",
    program="pgpool",
    said=re.compile(r"pgpool-II version (\d[\w.]*)"),
    # Its own default: so many processes, of which each serves one client at a time.
    usual={"num_init_children": "32"},
    ours=re.compile(
        r"listen_addresses|port|socket_dir|unix_socket_\w+|pcp_\w+|backend_(?!clustering_mode)\w+|enable_pool_hba|"
        r"pool_passwd|allow_clear_text_frontend_auth|log_destination|logging_collector|log_directory|"
        r"log_filename|pid_file_name|logdir|work_dir|use_watchdog|wd_\w+"
    ),
    sessions="num_init_children",
    configure=_pgpool,
    # It takes its processes along.
    death=signal.SIGQUIT,
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (PGBOUNCER, PGPOOL)}

__all__ = ["KINDS", "PGBOUNCER", "PGPOOL", "PORT", "Kind", "Place"]

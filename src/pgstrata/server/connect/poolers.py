"""The poolers that pgstrata can start: what each is called, how it is told where to listen, what it keeps."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgstrata.files.disk import write_into
from pgstrata.server.connect.session import CONFINED

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
        """Writes a file of the pooler's configuration, readable by its owner alone, and returns its path."""
        write_into(self.folder, name, text, mode=0o600, owner=self.owner)
        return self.folder / name


@dataclass(frozen=True)
class Sharing:
    """How clients share the connections of a server. mode: the setting that says for how long one keeps a
    connection: for one of MODES; keeps: whether statements that a client has prepared outlive a transaction,
    by the pooler's version and settings; how: what makes it keep them."""

    mode: str
    keeps: Callable[[tuple[int, ...], Callable[[str], str]], bool]
    how: str


MODES = ("session", "transaction", "statement")


@dataclass(frozen=True)
class Kind:
    """A program. name: in campaigns; install: how to get it; program: what it is called on disk; said: its
    answer to --version, with the version. usual: settings that count for more than one place here; ours:
    those by which pgstrata finds it. sessions: the setting that says for how many connections there is room.
    sharing: None where each client has a connection of its own. configure: writes its files, and gives the
    arguments that name them. death: the signal that ends it with all its processes."""

    name: str
    install: str
    program: str
    version_pattern: re.Pattern[str]
    usual: Mapping[str, str]
    ours: re.Pattern[str]
    sessions: str
    sharing: Sharing | None
    configure: Callable[[Place, Mapping[str, str]], list[str]]
    death: signal.Signals


def _pgbouncer(place: Place, settings: Mapping[str, str]) -> list[str]:
    users = place.write("users.txt", "".join(f'"{user}" ""\n' for user in (place.user, CONFINED)))
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


_OF_ODYSSEYS_ROUTE = re.compile(
    r"pool|pool_\w+|min_pool_size|client_(max|fwd_error|show_id)|application_name_add_host|server_lifetime|"
    r"reserve_session_server_connection|server_drop_on_cached_plan_error|maintain_params|quantiles|"
    r"target_session_attrs|catchup_timeout"
)
"""Settings that belong to a database's user; all others are the whole program's. Source: its docs."""


def _odyssey(place: Place, settings: Mapping[str, str]) -> list[str]:
    program = {
        "log_format": r"%p %t %l [%i %s] (%c) %m\n",
        **{name: value for name, value in settings.items() if not _OF_ODYSSEYS_ROUTE.fullmatch(name)},
        "daemonize": "no",
        "log_to_stdout": "yes",
        "unix_socket_dir": str(place.sockets),
        "unix_socket_mode": "0700",
        "locks_dir": str(place.folder),
        "enable_online_restart": "no",
        "bindwith_reuseport": "no",
    }
    route = {
        **{name: value for name, value in settings.items() if name not in program},
        "authentication": "none",
        "storage": "server",
    }
    # What has no host is in unix_socket_dir.
    server = f'storage "server" {{\ntype "remote"\nport {place.port}\n}}\n'
    text = (
        f"{_odyssey_lines(program)}listen {{\nport {PORT}\n}}\n{server}"
        f"database default {{\nuser default {{\n{_odyssey_lines(route)}}}\n}}\n"
    )
    return [str(place.write("odyssey.conf", text))]


def _odyssey_lines(settings: Mapping[str, str]) -> str:
    """Returns the settings as lines of Odyssey's configuration: numbers and yes or no as they are, any other
    value quoted as a text, the mode of a socket too."""

    def written(name: str, value: str) -> str:
        bare = re.fullmatch(r"-?\d+|yes|no", value) and name != "unix_socket_mode"
        return value if bare else '"{}"'.format(value.replace('"', r"\""))

    return "".join(f"{name} {written(name, value)}\n" for name, value in settings.items())


def _pgbouncer_keeps(version: tuple[int, ...], setting: Callable[[str], str]) -> bool:
    """Returns whether PgBouncer keeps prepared statements: since 1.21 if told how many, since 1.24 without
    being told. Source: pgbouncer's changelog."""
    usual = "200" if version >= (1, 24) else "0"
    return version >= (1, 21) and (setting("max_prepared_statements") or usual) != "0"


def _odyssey_keeps(_version: tuple[int, ...], setting: Callable[[str], str]) -> bool:
    """Returns whether Odyssey keeps prepared statements: only if told to. A version that is too old does not
    know the setting, and does not start."""
    return setting("pool_reserve_prepared_statement") == "yes"


PGBOUNCER = Kind(
    name="pgbouncer",
    install="apt-get install pgbouncer",
    program="pgbouncer",
    version_pattern=re.compile(r"PgBouncer (\d[\w.]*)"),
    # The first two are its own defaults.
    usual={"pool_mode": "session", "default_pool_size": "20", "max_client_conn": "10000"},
    ours=re.compile(
        "auth_file|auth_type|conffile|listen_addr|listen_port|logfile|pidfile|unix_socket_dir|"
        "unix_socket_group|unix_socket_mode|user"
    ),
    sessions="default_pool_size",
    sharing=Sharing(
        "pool_mode", _pgbouncer_keeps, "pgbouncer 1.21 and later with max_prepared_statements above 0"
    ),
    configure=_pgbouncer,
    death=signal.SIGKILL,
)
PGPOOL = Kind(
    name="pgpool2",
    install="apt-get install pgpool2",
    program="pgpool",
    version_pattern=re.compile(r"pgpool-II version (\d[\w.]*)"),
    # Its own default: so many processes, of which each serves one client at a time.
    usual={"num_init_children": "32"},
    ours=re.compile(
        r"listen_addresses|port|socket_dir|unix_socket_\w+|pcp_\w+|backend_(?!clustering_mode)\w+|enable_pool_hba|"
        r"pool_passwd|allow_clear_text_frontend_auth|log_destination|logging_collector|log_directory|"
        r"log_filename|pid_file_name|logdir|work_dir|use_watchdog|wd_\w+"
    ),
    sessions="num_init_children",
    sharing=None,
    configure=_pgpool,
    # It takes its processes along.
    death=signal.SIGQUIT,
)

ODYSSEY = Kind(
    name="odyssey",
    install="build it as its project says (https://github.com/yandex/odyssey; no release of Debian has it)",
    program="odyssey",
    version_pattern=re.compile(r"odyssey (\d[\w.]*)", re.IGNORECASE),
    # It has no default; as many connections as clients, since it has no limit but what is asked for.
    usual={"pool": "session"},
    ours=re.compile(
        r"daemonize|include|listen|host|port|unix_socket_\w+|locks_dir|pid_file|log_file|log_to_stdout|"
        r"log_syslog\w*|enable_online_restart|bindwith_reuseport|storage\w*|database|user|role|pool_routing|"
        r"authentication|auth_\w+|password\w*|hba_file|ldap\w*|external_auth_socket_path|\w*mdb_\w+"
    ),
    sessions="pool_size",
    sharing=Sharing("pool", _odyssey_keeps, 'pool_reserve_prepared_statement = "yes"'),
    configure=_odyssey,
    death=signal.SIGKILL,
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (PGBOUNCER, PGPOOL, ODYSSEY)}

__all__ = ["KINDS", "MODES", "PORT", "Kind", "Place", "Sharing"]

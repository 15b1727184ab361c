"""The proxy: what it is told, and becoming it.

pgstrata gives its process to the program that passes bytes on, so that nothing of Python stands beside the
traffic or can end it.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pgstrata.driver.message import document
from pgstrata.driver.path import find_tools
from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.server.connect import tls
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.system.account import Account, check_reachable, server_account

FILE_BYTES = 256 << 20
"""Of a file of a recording, after which the next one begins."""

_PLACE = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:/\s]+)):(?P<port>[0-9]{1,5})", re.ASCII)


@dataclass(frozen=True)
class Recording:
    """What the user has asked for."""

    listen: str
    to: str
    folder: Path
    most_bytes: int
    certificate: Path | None = None
    key: Path | None = None
    allow_network: bool = False
    allow_peer: bool = False


def become_proxy(asked: Recording) -> NoReturn:
    """Becomes the proxy. Raises UsageError for what cannot be, before anybody can connect."""
    host, port = _listens(asked)
    server = _server(asked)
    if (asked.certificate is None) != (asked.key is None):
        raise UsageError(
            "TLS with clients needs a certificate and its key", "name both: --certificate, --key"
        )
    account = server_account()
    tools = find_tools()
    _make(asked.folder, account)
    spec = {
        "listen": {"host": host, "port": port},
        **server,
        "certificate": str(asked.certificate.absolute()) if asked.certificate else None,
        "key": str(asked.key.absolute()) if asked.key else None,
        "folder": str(asked.folder.absolute()),
        "most_bytes": asked.most_bytes,
        "file_bytes": min(FILE_BYTES, asked.most_bytes),
        "account": [account.uid, account.gid] if account else None,
    }
    _give_as_input(json.dumps(spec).encode())
    os.execv(tools, [str(tools), "record"])


def _listens(asked: Recording) -> tuple[str, int]:
    """Returns where clients connect to."""
    match = _PLACE.fullmatch(asked.listen)
    port = int(match["port"]) if match else 65536
    if match is None or port > 65535:
        raise UsageError(
            f"--listen {shown(asked.listen)} is no address", "write 127.0.0.1:6432 or [::1]:6432"
        )
    host = match["host"] or match["v6"]
    if not asked.allow_network and not _is_loopback(host):
        raise UsageError(
            f"--listen {shown(asked.listen)} lets other machines connect, and the server takes all of them "
            "for this one: rules of pg_hba.conf for addresses mean the proxy's",
            "listen on 127.0.0.1, or allow it: --allow-network",
        )
    return host, port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _server(asked: Recording) -> dict[str, Any]:
    """Returns the place of the server, and TLS with it, in the words of the proxy."""
    conninfo = Conninfo.parse(asked.to)
    values = {**conninfo.resolved(), **conninfo.given}
    hosts = values.get("hostaddr") or values.get("host") or "/tmp"
    ports = values.get("port") or "5432"
    if "," in hosts or "," in ports:
        raise UsageError(f"--to names several servers, and a proxy leads to one: {shown(hosts)}", "name one")
    if not ports.isdigit() or not 0 < int(ports) < 65536:
        raise UsageError(f"--to has the port {shown(ports)}, which is none", "write postgresql://HOST:5432")
    is_local = hosts.startswith("/")
    if is_local and not asked.allow_peer:
        raise UsageError(
            f"--to leads to the Unix socket in {shown(hosts)}, and whoever connects to the proxy is this "
            "account for its server (peer in pg_hba.conf)",
            "name the server by HOST:PORT, or allow it: --allow-peer",
        )
    mode = values.get("sslmode") or "prefer"
    has_tls = not is_local and mode not in ("disable", "allow")
    spec = tls.of_values(values, values.get("host") or hosts) if has_tls else None
    return {
        "server": {"host": hosts, "port": int(ports)},
        "tls": document(spec) if spec else None,
        "tls_required": has_tls and mode != "prefer",
    }


def _make(folder: Path, account: Account | None) -> None:
    """Makes the folder, which the account that records can write."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise UsageError(
            f"{shown(folder)} is there already", "a recording goes into a folder of its own: name another one"
        ) from None
    except OSError as error:
        raise UsageError(f"{shown(folder)} cannot be made: {error.strerror}") from error
    if account is not None:
        os.chown(folder, account.uid, account.gid)
        try:
            check_reachable(folder, account, "the folder")
        except BaseException:
            folder.rmdir()
            raise


def _give_as_input(data: bytes) -> None:
    """Makes these bytes standard input; they may hold the password of a key, which no command line should."""
    file = os.memfd_create("recording")
    os.write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)
    os.close(file)


__all__ = ["Recording", "become_proxy"]

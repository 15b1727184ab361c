"""Putting a cluster of the engine up by ssh or by Slurm, and down again.

The engine's cluster objects live as long as their process, so each fleet has a keeper: a process in the
background that holds it, until it is told to end (`pgstrata.fleet.keeper`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from pgstrata.errors import ServerError, UsageError
from pgstrata.files import disk
from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.locks import lock_file
from pgstrata.files.ownership import read_small
from pgstrata.files.user_files import read_text, user_path
from pgstrata.fleet.certificates import KEY, Certificates, certificates_in, make_certificates
from pgstrata.server.find.cache import cache_folder

UP_SECONDS = 180.0
"""How long a cluster may take to come up."""

DOWN_SECONDS = 60.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOST = re.compile(r"(?:(?P<user>[^\s@]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:@\[\]]+)(?::(?P<port>\d+))?")


class HostLine(Struct, frozen=True, kw_only=True):
    """A line of hosts.txt. python: the interpreter there, empty for the one that runs here."""

    host: str
    user: str = ""
    port: int = 22
    python: str = ""


class Wish(Struct, frozen=True, kw_only=True):
    """What is put up. kind: `ssh` or `slurm`; hosts: of ssh; machines, partition, walltime, directives: of
    Slurm; listen: address of the scheduler; tls: whether the engine's certificates are used."""

    name: str
    kind: str
    hosts: tuple[HostLine, ...] = ()
    machines: int = 1
    partition: str = ""
    walltime: str = "24:00:00"
    directives: tuple[str, ...] = ()
    listen: str = ""
    tls: bool = False


class Fleet(Struct, kw_only=True):
    """A fleet that was put up here. pid: its keeper; address: of its scheduler, empty before it is up;
    said: what its keeper has said, in order; problem: why it did not come up."""

    wish: Wish
    pid: int
    address: str = ""
    dashboard: str = ""
    messages: list[str] = []
    problem: str = ""


def read_hosts(file: Path) -> tuple[HostLine, ...]:
    """Parses a list of hosts: `[USER@]HOST[:PORT] [PYTHON]`, a single host in each line; `#` begins a
    comment. Raises UsageError."""
    text = read_text(user_path(file), "list of hosts", missing="one host in each line")
    hosts = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        match = _HOST.fullmatch(words[0])
        if match is None or len(words) > 2 or not 0 < int(match["port"] or 22) < 65536:
            raise UsageError(
                f"{file}, line {number}: {line.strip()!r} is no host", "write [USER@]HOST[:PORT] [PYTHON]"
            )
        python = words[1] if len(words) > 1 else ""
        hosts.append(
            HostLine(
                host=match["host"].strip("[]"),
                user=match["user"] or "",
                port=int(match["port"] or 22),
                python=python,
            )
        )
    if not hosts:
        raise UsageError(f"{file} names no host", "one host in each line: [USER@]HOST[:PORT] [PYTHON]")
    return tuple(hosts)


def check_name(name: str) -> None:
    """Raises UsageError for what cannot name a fleet."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"--name {name}: not a name of a fleet", "letters, digits, dots and dashes")


def _folder() -> Path:
    return cache_folder("fleets", make=True)


def state_file(name: str) -> Path:
    return _folder() / f"{name}.json"


def tls_folder(name: str) -> Path:
    """Returns the folder of mode 0700 that holds the key and certificate of a fleet that was put up here."""
    return _folder() / f"{name}.tls"


def _make_tls(name: str) -> None:
    folder = tls_folder(name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    make_certificates(folder)


def certificates_for(address: str) -> Certificates | None:
    """Returns the certificates of the fleet that was put up here and whose scheduler has this address; None
    without such a fleet."""
    for name in names():
        fleet = read(name)
        if fleet is not None and fleet.address == address and (tls_folder(name) / KEY).exists():
            return certificates_in(tls_folder(name))
    return None


def write(fleet: Fleet) -> None:
    """Keeps what is known of a fleet. Raises OSError."""
    disk.replace(state_file(fleet.wish.name), msgspec.json.encode(fleet))


def read(name: str) -> Fleet | None:
    """Returns the stored facts of a fleet; None if there is no fleet of this name."""
    try:
        return json_as(read_small(state_file(name)).encode(), Fleet)
    except (OSError, BoundError):
        return None


def names() -> list[str]:
    """Returns the names of the fleets that were put up here and whose keepers are at work."""
    return [path.stem for path in sorted(_folder().glob("*.json")) if is_kept(path.stem)]


@contextlib.contextmanager
def keeping(name: str) -> Iterator[None]:
    """Holds the lock of a fleet, as its keeper does as long as the fleet is up. Raises ServerError if another
    keeper has it."""
    try:
        descriptor = lock_file(_folder() / f"{name}.lock", make=True)
    except OSError as error:
        raise ServerError(f"the fleet {name} cannot be locked: {error.strerror}") from error
    if descriptor is None:
        raise ServerError(f"a fleet called {name} is up already", "pgstrata fleet down ends it")
    try:
        yield
    finally:
        os.close(descriptor)


def is_kept(name: str) -> bool:
    """Returns whether a keeper is at work."""
    try:
        with keeping(name):
            return False
    except ServerError:
        return True


@dataclass(frozen=True)
class FleetUp:
    """fleet: as it is up; log: where its keeper writes."""

    fleet: Fleet
    log: Path


def put_up(wish: Wish) -> FleetUp:
    """Starts a keeper and waits until its scheduler is there.

    Raises ServerError where it does not come up, with what its keeper says.
    """
    with keeping(wish.name):
        state_file(wish.name).unlink(missing_ok=True)
        if wish.tls and wish.kind == "ssh":
            _make_tls(wish.name)
    log = _folder() / f"{wish.name}.log"
    with log.open("wb") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "pgstrata.fleet.keeper"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    assert keeper.stdin is not None
    keeper.stdin.write(msgspec.json.encode(wish))
    keeper.stdin.close()
    until = time.monotonic() + UP_SECONDS
    while time.monotonic() < until:
        fleet = read(wish.name)
        if fleet is not None and fleet.address:
            return FleetUp(fleet, log)
        if keeper.poll() is not None:
            problem = fleet.problem if fleet is not None else ""
            raise ServerError(
                problem or f"the keeper of the fleet ended with code {keeper.returncode}",
                f"its log: {log}",
            )
        time.sleep(0.2)
    keeper.terminate()
    raise ServerError(f"the fleet did not come up within {UP_SECONDS:.0f} s", f"its log: {log}")


def put_down(name: str) -> None:
    """Ends a fleet: its tasks, its workers, its scheduler. Raises UsageError where there is none of the name,
    ServerError where it does not end."""
    fleet = read(name)
    if fleet is None or not is_kept(name):
        there = ", ".join(names()) or "none"
        raise UsageError(f"no fleet called {name} is up", f"there is: {there}; pgstrata fleet up makes one")
    os.kill(fleet.pid, signal.SIGTERM)
    until = time.monotonic() + DOWN_SECONDS
    while is_kept(name):
        if time.monotonic() > until:
            raise ServerError(f"the keeper of {name}, process {fleet.pid}, does not end", f"kill {fleet.pid}")
        time.sleep(0.1)
    state_file(name).unlink(missing_ok=True)
    shutil.rmtree(tls_folder(name), ignore_errors=True)


__all__ = [
    "Fleet",
    "FleetUp",
    "HostLine",
    "Wish",
    "certificates_for",
    "check_name",
    "is_kept",
    "keeping",
    "names",
    "put_down",
    "put_up",
    "read",
    "read_hosts",
    "tls_folder",
    "write",
]

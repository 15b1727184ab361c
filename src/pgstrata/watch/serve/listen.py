"""Listening: the socket, TLS, the secret, and bounds on connections and on how long they take."""

from __future__ import annotations

import contextlib
import re
import secrets
import signal
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from pgstrata.cli.ending import Interruption
from pgstrata.errors import UsageError
from pgstrata.files.ownership import read_small
from pgstrata.process_end import ending_signals, leave_thread_behind
from pgstrata.watch.serve.app import Shows, make_app
from pgstrata.watch.serve.guard import Rules, hosts_of

MOST_CONNECTIONS = 64
QUIET_SECONDS = 10.0
"""How long a connection may be open without a whole request."""
ANSWER_SECONDS = 120.0
"""How long a client may take to read an answer."""
ENDING_SECONDS = 2
LONGEST_HEAD = 16 << 10

_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,200}")


@dataclass(frozen=True)
class Place:
    """Where the server listens. names: of this host in addresses. context: None without TLS."""

    address: str
    port: int
    names: tuple[str, ...]
    token: str
    context: ssl.SSLContext | None


def new_token() -> str:
    """Returns a secret that nobody can guess."""
    return secrets.token_urlsafe(24)


def read_token(path: Path) -> str:
    """Returns the secret in a private file. Raises UsageError."""
    _check_private(path, "--token-file")
    try:
        text = read_small(path).strip()
    except OSError as error:
        raise UsageError(
            f"--token-file {path}: {error.strerror or error}", "name a file that is there"
        ) from error
    if not _TOKEN.fullmatch(text):
        raise UsageError(
            f"--token-file {path}: not 20 to 200 letters, digits, - or _",
            f"(umask 077; openssl rand -hex 24 > {path}) makes a good one",
        )
    return text


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Returns what TLS is served with. Raises UsageError for files that cannot be used."""
    _check_private(key, "--key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"TLS cannot be served with {certificate} and {key}: {reason}",
            "both are PEM files, and the key belongs to the certificate and has no password",
        ) from error
    return context


def _no_password() -> str:
    raise ValueError("the key has a password")


def _check_private(path: Path, option: str) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}", "name a file that is there") from error
    if not stat.S_ISREG(mode):
        raise UsageError(f"{option} {path}: not a regular file", "name a file that is there")
    if mode & 0o077:
        raise UsageError(f"{option} {path}: other users can read it", f"chmod 600 {path}")


def listen(shows: Shows, place: Place) -> None:
    """Serves until a signal comes. Raises UsageError where the address cannot be used, Interruption at the
    end."""
    family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
    try:
        listener = socket.create_server((place.address, place.port), family=family, backlog=MOST_CONNECTIONS)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {place.address}, port {place.port}: {error.strerror or error}",
            "name another port with --port; --port 0 takes any free one",
        ) from error
    port = listener.getsockname()[1]
    scheme = "https" if place.context else "http"
    rules = Rules(
        hosts_of(place.names, port, place.context is not None),
        place.token,
        f"pgstrata-{port}",
        place.context is not None,
    )
    shown = place.names[-1] if len(place.names) > 3 or not _is_loopback(place) else place.address
    shown = f"[{shown}]" if ":" in shown else shown
    server = _Server(_config(shows, rules, place))
    print(f"{scheme}://{shown}:{port}/?token={place.token}", flush=True)
    with listener:
        server.run(sockets=[listener])
    leave_thread_behind()  # one may still read from a disk that hangs
    raise Interruption(128 + (server.signal or signal.SIGTERM))


def _is_loopback(place: Place) -> bool:
    return "localhost" in place.names


def _config(shows: Shows, rules: Rules, place: Place) -> uvicorn.Config:
    context = place.context
    return uvicorn.Config(
        make_app(shows, rules),
        log_level="critical",  # addresses may have the secret in them
        access_log=False,
        http="h11",
        ws="none",
        lifespan="off",
        loop="asyncio",
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=ENDING_SECONDS,
        h11_max_incomplete_event_size=LONGEST_HEAD,
        ssl_context_factory=(lambda config, default: context) if context else None,
    )


class _Server(uvicorn.Server):
    """A server that closes connections which take too long, and that notes the signal which ends it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.signal: int | None = None
        self._since: dict[Any, tuple[bool, float]] = {}

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ends at the first SIGINT, SIGTERM or SIGHUP; at the second without waiting for answers."""

        def end(number: int, frame: object) -> None:
            self.force_exit = self.signal is not None
            self.signal = self.signal or number
            self.should_exit = True

        former = {number: signal.signal(number, end) for number in ending_signals()}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    async def on_tick(self, counter: int) -> bool:
        """Looks at all connections ten times a second: those that take too long end, and of too many the ones
        that wait longest for a request."""
        now = time.monotonic()
        open_ = {}
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            is_answering = cycle is not None and not cycle.response_complete
            former, since = self._since.get(connection, (is_answering, now))
            since = since if former == is_answering else now
            open_[connection] = (is_answering, since)
            if now - since > (ANSWER_SECONDS if is_answering else QUIET_SECONDS):
                connection.transport.abort()
        self._since = open_
        idle = sorted(
            (c for c, (is_answering, _) in open_.items() if not is_answering), key=lambda c: open_[c][1]
        )
        for connection in idle[: max(0, len(open_) - MOST_CONNECTIONS)]:
            connection.transport.abort()
        return await super().on_tick(counter)


__all__ = ["Place", "listen", "new_token", "read_token", "tls_context"]

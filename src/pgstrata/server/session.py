"""A session of the administrator's: one that ends when it is told to."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import psycopg
from psycopg.abc import RV, PQGen

from pgstrata.errors import ServerError, server_said

_CANCEL_SECONDS = 1.0


class Connectable(Protocol):
    """What has databases to connect to: a cluster, or a running server."""

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]: ...


class Session(psycopg.Connection[Any]):
    """Whatever interrupts a statement also ends it in the server, and the session with it."""

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """As psycopg's; what is no Exception (a signal made into one) does not wait for the server."""
        try:
            return super().wait(gen, interval, timeout)
        except Exception:
            raise
        except BaseException:
            with contextlib.suppress(Exception):
                self.cancel_safe(timeout=_CANCEL_SECONDS)
            self.close()
            raise


@contextlib.contextmanager
def answering(session: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """For short questions: a server that leaves them unanswered for this long is given up.

    Raises ServerError, also for answers that make no sense and for errors that the block does not expect.
    """
    late = threading.Event()

    def give_up() -> None:
        late.set()
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(session.fileno())) as s:
            s.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (psycopg.Error, UnicodeError) as error:
        if late.is_set():
            session.close()
            raise ServerError(f"the server has not answered for {seconds:g} s") from error
        raise ServerError(f"the server does not answer as it should: {server_said(error)}") from error
    finally:
        timer.cancel()

"""Sessions of the administrator's: what they ask for has an end.

psycopg is imported by what connects: a plan connects to nobody, and importing it takes a fifth of its time.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pgstrata.errors import ServerError, server_said
from pgstrata.process_end import leave_thread_behind

if TYPE_CHECKING:
    import psycopg

    from pgstrata.server.connect.interruptible import Session

CONFINED = "pgstrata_app"
"""Role of connections that must not leave the database; made by what uses it (`workload.custom.confined`)."""

MOST_ANSWER_BYTES = 256 << 20
"""Memory that answers to short questions may take, more than there was before."""

_GLANCE_SECONDS = 0.05


class Connectable(Protocol):
    """What has databases to connect to: a cluster, or a running server."""

    def connect(self, database: str = "postgres", *, confined: bool = False) -> psycopg.Connection[Any]: ...


def within(seconds: float, connect: Callable[[], Session]) -> Session:
    """Returns the session that `connect` makes, on another thread.

    A server may ask for two billion rounds of SCRAM's hash, which libpq computes to the end and in one go: a
    thread that does is left behind. Raises ServerError where it takes longer than so many seconds, and what
    `connect` raises.
    """
    answers: queue.SimpleQueue[Session | BaseException] = queue.SimpleQueue()
    is_given_up = threading.Event()

    def work() -> None:
        try:
            session = connect()
        except BaseException as error:
            answers.put(error)
            return
        answers.put(session)
        if is_given_up.is_set():
            session.close()

    threading.Thread(target=work, name="pgstrata-connect", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        is_given_up.set()
        leave_thread_behind()
        raise ServerError(
            f"connecting is not done after {seconds:g} s (connect_timeout): the server lets libpq compute, "
            "perhaps billions of rounds of SCRAM's hash",
            "is it the server that you meant?",
        ) from None
    except BaseException:
        is_given_up.set()
        leave_thread_behind()
        raise
    if isinstance(answer, BaseException):
        raise answer
    return answer


def use_catalogs_only(session: psycopg.Connection[Any]) -> None:
    """Takes all schemas but pg_catalog out of a session's search_path.

    A function or operator that somebody has put into `public` may fit an argument better than the server's
    own, and would be executed with the rights of this session.
    """
    session.execute("SET search_path = pg_catalog", prepare=False)


@contextlib.contextmanager
def catalogs_only(session: psycopg.Connection[Any]) -> Iterator[None]:
    """Applies `use_catalogs_only` for the block."""
    import psycopg

    use_catalogs_only(session)
    try:
        yield
    finally:
        with contextlib.suppress(psycopg.Error):  # of a session that has ended
            session.execute("RESET search_path", prepare=False)


_NO_SENSE = (ValueError, TypeError, LookupError, ArithmeticError)
"""What becomes of rows and columns of which none was asked for."""


@contextlib.contextmanager
def answering(
    session: psycopg.Connection[Any], seconds: float, most_bytes: int | None = None
) -> Iterator[None]:
    """Limits short questions in the block: a server that leaves them unanswered for this long is given up,
    and so is one whose answers take more than `most_bytes` of memory (`MOST_ANSWER_BYTES`).

    Raises ServerError, also for answers that make no sense and for errors that the block does not expect.
    """
    import psycopg
    from psycopg.pq import TransactionStatus

    limit = MOST_ANSWER_BYTES if most_bytes is None else most_bytes
    over = threading.Event()
    given_up: list[str] = []

    def watch() -> None:
        until, most = time.monotonic() + seconds, _memory() + limit
        while not over.wait(max(0.0, min(_GLANCE_SECONDS, until - time.monotonic()))):
            if _memory() > most:
                given_up.append(f"the answer of the server takes more than {limit >> 20} MB")
            elif time.monotonic() >= until:
                given_up.append(f"the server has not answered for {seconds:g} s")
            else:
                continue
            with (
                contextlib.suppress(OSError, psycopg.Error),
                socket.socket(fileno=os.dup(session.fileno())) as s,
            ):
                s.shutdown(socket.SHUT_RDWR)
            return

    threading.Thread(target=watch, name="pgstrata-answering", daemon=True).start()
    try:
        yield
    except (psycopg.Error, *_NO_SENSE) as error:
        # A question that is half answered leaves nothing to be asked on this session.
        if given_up or session.info.transaction_status is TransactionStatus.ACTIVE:
            session.close()
        if given_up:
            raise ServerError(given_up[0]) from error
        raise ServerError(f"the server does not answer as it should: {server_said(error)}") from error
    finally:
        over.set()


def _memory() -> int:
    """Returns the bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")

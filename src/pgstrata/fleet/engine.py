"""The distributed engine (Dask) as a campaign uses it: machines that come and go, and what they are asked.

Nothing here knows what a task means. Each goes to one machine that is named, under a name that everybody may
see on the engine's dashboard; which machine gets what is decided by the client, never by the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import secrets
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import dask
from distributed import Client, Future
from distributed.security import Security

from pgstrata.errors import PgstrataError, ServerError, UsageError, server_said
from pgstrata.fleet import putting_up, restricted
from pgstrata.fleet.perform import PRELOAD, RESOURCE

CONNECT_SECONDS = 15.0
"""How long a scheduler may take to answer."""

FETCH_SECONDS = 300.0
"""How long an answer may take from the machine to the client."""

SCHEMES = ("tcp", "tls")

HOW = f"start them with: dask worker SCHEDULER --preload {PRELOAD} --nthreads 1 --resources {RESOURCE}=1"

_PREFIX = "pgstrata"


class SchedulerLostError(PgstrataError):
    """The scheduler does not answer any more."""


@dataclass(frozen=True)
class WorkerInfo:
    """A worker as the scheduler knows it. seen: seconds since 1970 of the scheduler's clock."""

    address: str
    name: str
    threads: int
    machines: float
    seen: float

    @property
    def problem(self) -> str:
        """Why it cannot be a machine, empty where it can."""
        if self.threads != 1:
            return f"the worker {self.address} has {self.threads} threads; {HOW}"
        if self.machines != 1:
            return f"the worker {self.address} has not the resource {RESOURCE}=1; {HOW}"
        return ""


@dataclass
class Call:
    """Something that a machine was asked. published: its name where it outlives the client; answer: what came
    of it, once it is here."""

    address: str
    future: Any
    published: str = ""
    answer: bytes | None = None
    asked: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class EarlierTask:
    """What an earlier client has asked and nobody has taken: by assignment, attempt and machine."""

    assignment: str
    attempt: int
    call: Call


def check_address(address: str) -> None:
    """Raises UsageError for what is no address of a scheduler."""
    scheme, colon, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    if not colon or scheme not in SCHEMES or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(
            f"--fleet {address}: not the address of a scheduler",
            "write tcp://HOST:8786 or tls://HOST:8786, or local:N to try it on this machine",
        )


def has_certificates() -> bool:
    """Returns whether the engine's own configuration names certificates."""
    return bool(Security().get_connection_args("client").get("ssl_context"))


def security_for(address: str) -> Security | None:
    """Returns, for addresses with TLS, the certificates of a fleet that was put up here, else those of the
    engine's own configuration; None for other addresses. Raises UsageError."""
    if not address.startswith("tls://"):
        return None
    if (certificates := putting_up.certificates_for(address)) is not None:
        with dask.config.set(certificates.settings()):
            return Security()
    security = Security()
    if not has_certificates():
        raise UsageError(
            f"{address} speaks TLS, and the engine has no certificates here",
            "name them in its configuration, say DASK_DISTRIBUTED__COMM__TLS__CA_FILE (docs/guides/fleet.md)",
        )
    return security


def _reach(address: str) -> None:
    """Raises ServerError where nothing listens: the engine itself would try for long."""
    host, _, port = address.partition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise _nobody(address, error) from error


def _nobody(address: str, error: Exception) -> ServerError:
    return ServerError(
        f"no scheduler answers at {address}: {server_said(error, 300)}",
        "is it running? `dask scheduler` or `pgstrata fleet up` starts one",
    )


class SchedulerClient:
    """A connection to a scheduler. owner: whose tasks these are, the same when a client is started again.

    Raises ServerError where no scheduler answers.
    """

    def __init__(
        self, address: str, owner: str, perform: Callable[[bytes], bytes], security: Security | None = None
    ) -> None:
        self.address, self._owner, self._perform = address, owner, perform
        self.answers: queue.SimpleQueue[Call] = queue.SimpleQueue()
        """Calls that have come to an end, with their answers."""
        self.events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        """What machines tell of what they do."""
        self.topic = f"{_PREFIX}-{owner}"
        # What goes wrong is said here, in one sentence, and not by each part of the engine.
        for name in ("distributed", "distributed.client", "distributed.comm", "asyncio", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # A server on its way is large, and has to be.
        dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"})
        _reach(address)
        # Whatever answers there, this process executes nothing that it is sent.
        assert restricted.is_active()
        try:
            self._client = Client(
                address,
                timeout=CONNECT_SECONDS,
                security=security or security_for(address),
                set_as_default=False,
                direct_to_workers=False,
            )
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise _nobody(address, error) from error
        self._client.subscribe_topic(self.topic, self._on_event)
        self._lost_since = 0.0

    def _on_event(self, event: tuple[float, dict[str, Any]]) -> None:
        self.events.put(event[1])

    @property
    def dashboard(self) -> str:
        """Address of the engine's own dashboard; empty where it has none."""
        try:
            return str(self._client.dashboard_link or "")
        except (ValueError, TypeError, AttributeError, KeyError):
            return ""

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)

    # --- machines -----------------------------------------------------------------------------

    def workers(self) -> dict[str, WorkerInfo]:
        """Returns all workers by address. Raises SchedulerLostError."""
        self.check()
        try:
            info = self._client.sync(self._identity)
        except (OSError, TimeoutError) as error:
            raise self._lost() from error
        return {
            address: WorkerInfo(
                address,
                str(about.get("name", "")),
                int(about.get("nthreads", 0)),
                float(about.get("resources", {}).get(RESOURCE, 0)),
                float(about.get("last_seen", 0)),
            )
            for address, about in info["workers"].items()
        }

    async def _identity(self) -> dict[str, Any]:
        if self._client.scheduler is None:
            raise OSError("not connected")
        identity: dict[str, Any] = await self._client.scheduler.identity()
        return identity

    def doing(self) -> dict[str, list[str]]:
        """Returns, by address, the labels of the tasks that each machine does or has queued, of all clients.
        Raises SchedulerLostError."""
        try:
            processing = self._client.processing()
        except (OSError, TimeoutError) as error:
            raise self._lost() from error
        return {str(address): [str(key) for key in keys] for address, keys in processing.items()}

    def check(self) -> None:
        """Raises SchedulerLostError where the connection is gone."""
        if self._client.status != "running":
            raise self._lost()

    def _lost(self) -> SchedulerLostError:
        return SchedulerLostError(
            f"the scheduler at {self.address} does not answer any more",
            "what is finished is kept; when it is there again, the same command goes on",
        )

    # --- tasks --------------------------------------------------------------------------------

    def ask(self, address: str, label: str, text: bytes, publish: tuple[str, int] | None = None) -> Call:
        """Gives a task to a machine. label: what the dashboard calls it; no secrets belong in it.

        publish: assignment and attempt of one that outlives this client. The call is in `answers` when it has
        come to an end. Raises SchedulerLostError.
        """
        self.check()
        key = f"{label}-{secrets.token_hex(4)}"
        try:
            future = self._client.submit(
                self._perform,
                text,
                key=key,
                workers=[address],
                allow_other_workers=False,
                resources={RESOURCE: 1},
                retries=0,
                pure=False,
            )
            call = Call(address, future)
            if publish is not None:
                call.published = f"{_PREFIX}:{self._owner}:{publish[0]}:{publish[1]}:{address}"
                self._later(
                    self._client.publish_dataset(
                        future, name=call.published, override=True, asynchronous=True
                    )
                )
        except (OSError, TimeoutError) as error:
            raise self._lost() from error
        self._watch(call)
        return call

    def _watch(self, call: Call) -> None:
        call.future.add_done_callback(lambda future: self._later(self._fetch(call)))

    async def _fetch(self, call: Call) -> None:
        """Fetches beside all others, so that no machine waits for the answer of another."""
        if call.future.status == "finished":
            # Lost between its end and our asking, in one of many ways: then there is none.
            with contextlib.suppress(Exception):
                async with asyncio.timeout(FETCH_SECONDS):
                    call.answer = await self._client.gather(call.future, asynchronous=True)
        self.answers.put(call)

    def answer(self, call: Call) -> bytes | None:
        """Returns the answer to a call; None if the machine was lost.

        Raises ServerError where the task itself could not be called there.
        """
        future: Future[bytes] = call.future
        if future.status == "error":
            error = future.exception()
            name = type(error).__name__
            if name in ("KilledWorker", "NoValidWorkerError", "P2PConsistencyError"):
                return None
            if isinstance(error, ImportError):
                raise ServerError(
                    f"pgstrata cannot be imported there: {server_said(error, 200)}",
                    "install the same pgstrata[fleet] on every machine",
                )
            raise ServerError(f"{name}: {server_said(error, 300)}")
        return call.answer

    def drop(self, call: Call) -> None:
        """Forgets a call; one that is not done is ended on its machine."""
        with contextlib.suppress(Exception):
            if call.published:
                self._client.unpublish_dataset(call.published)
        with contextlib.suppress(Exception):
            self._client.cancel([call.future], force=True)

    def forget(self, call: Call) -> None:
        """Forgets a call that is done, without waiting for the engine: nothing depends on when."""
        if call.published:
            self._later(self._client.unpublish_dataset(call.published, asynchronous=True))
        self._later(self._client.cancel([call.future], asynchronous=True, force=True))

    def _later(self, what: Coroutine[Any, Any, Any]) -> None:
        """Begins something on the engine's own loop. What becomes of it nobody asks: a name that was not
        taken back is found and taken back at the next start."""
        loop: Any = self._client.loop
        begun = asyncio.run_coroutine_threadsafe(what, loop.asyncio_loop)
        begun.add_done_callback(lambda done: done.cancelled() or done.exception())

    def earlier_tasks(self) -> list[EarlierTask]:
        """Returns the tasks that earlier clients of this owner have asked for. Raises SchedulerLostError."""
        tasks = []
        try:
            for name in self._client.list_datasets():
                prefix, _, rest = str(name).partition(":")
                owner, _, rest = rest.partition(":")
                if prefix != _PREFIX or owner != self._owner:
                    continue
                assignment, attempt, address = rest.split(":", 2)
                call = Call(address, self._client.get_dataset(name), str(name))
                tasks.append(EarlierTask(assignment, int(attempt), call))
        except (OSError, TimeoutError) as error:
            raise self._lost() from error
        except KeyError:  # taken meanwhile
            pass
        return tasks

    def watch(self, task: EarlierTask) -> None:
        """Waits for a call of an earlier client as for one's own."""
        self._watch(task.call)


__all__ = [
    "Call",
    "EarlierTask",
    "SchedulerClient",
    "SchedulerLostError",
    "WorkerInfo",
    "check_address",
    "security_for",
]

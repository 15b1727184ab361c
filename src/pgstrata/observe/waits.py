"""What the server's processes were waiting for, by sampling pg_stat_activity.

One connection of the sampler's own asks at a rate (10 Hz) for the state of all processes. Each sample
falls at a random moment of its interval, so that work which itself comes in a beat (a role with a rate)
is not always met at the same point. The share of samples is an estimate of the share of time; its
standard error is sqrt(share × (1 − share) ÷ samples) where samples are independent, and they are not
quite when a wait lasts longer than the interval.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg

from pgstrata.errors import server_said
from pgstrata.observe import old
from pgstrata.observe.backends import cpu_seconds
from pgstrata.server.capabilities import Catalog, catalog_of, column

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Waits:
    """Shares of time by role and wait event.

    rows: `role`, `process` (`client backend`, `parallel worker`, `checkpointer`, …), `wait_event_type`,
    `wait_event`, `samples`, `share` (of all samples of that role and process). Not waiting, that is
    running or ready to run, is type `CPU`, event empty. `server` are all processes that no role owns.
    polls: how often the server was asked, of `wanted` times. sampler_cpu_seconds: of this side;
    backend_cpu_seconds: of the sampler's connection, contained in the CPU of `server`, None if foreign.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    polls: int = 0
    wanted: int = 0
    sampler_cpu_seconds: float = 0.0
    backend_cpu_seconds: float | None = None
    failure: str | None = None


class WaitSampler:
    """Samples the wait events of a server from `start` to `stop` on a connection of its own, which it closes.

    pids: the backends of each role. local: whether the server's processes are on this host. ignore:
    processes that are left out (other connections of the observer). moment: when (monotonic) so many seconds
    of a step have passed whose time stands still now and then.
    """

    def __init__(
        self,
        session: psycopg.Connection[Any],
        pids: Mapping[str, Sequence[int]],
        hertz: float = 10.0,
        local: bool = True,
        ignore: Sequence[int] = (),
        moment: Callable[[float], float] | None = None,
    ) -> None:
        if not 0 < hertz <= 1000:
            raise ValueError(f"{hertz} Hz: between 0 and 1000 are possible")
        self._session = session
        self._roles = {pid: role for role, members in pids.items() for pid in members}
        self._interval = 1.0 / hertz
        self._local = local
        self._ignore = set(ignore)
        self._result: Waits | None = None
        self._query = _query(catalog_of(session))
        self._counts: Counter[Key] = Counter()
        self._random = random.Random(1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgstrata-waits", daemon=True)
        self._begin = 0.0
        self._moment = moment or (lambda seconds: self._begin + seconds)
        self._polls = 0
        self._due = 0
        self._client_cpu = 0.0
        self._backend_cpu = 0.0
        self._failure: str | None = None
        # Loads catalogs and plans the statement (prepare: planned once) before the step begins.
        self._poll()
        self._counts.clear()

    def start(self) -> None:
        """Starts sampling at the begin of the step."""
        self._begin = time.monotonic()
        self._backend_cpu = self._backend_seconds()
        self._thread.start()

    def stop(self) -> Waits:
        """Ends sampling at the end of the step. Waits for a poll that is under way, closes the connection."""
        if self._result is not None:
            return self._result
        self._stop.set()
        wanted = 0
        backend: float | None = None
        if self._thread.ident is not None:
            self._thread.join()
            wanted = self._due
            backend = self._backend_seconds() - self._backend_cpu if self._local else None
        self._session.close()
        self._result = Waits(
            _rows(self._counts), self._polls, wanted, self._client_cpu, backend, self._failure
        )
        return self._result

    def _backend_seconds(self) -> float:
        return (cpu_seconds(self._session.info.backend_pid) or 0.0) if self._local else 0.0

    def _run(self) -> None:
        try:
            while True:
                due = (self._due + self._random.random()) * self._interval
                # A time that stands still now and then is known no further than to its next stop.
                while (left := self._moment(due) - time.monotonic()) > 0:
                    if self._stop.wait(left):
                        return
                if self._stop.is_set():
                    return
                self._poll()
                self._polls += 1
                self._client_cpu = time.thread_time()
                self._due += 1
                # A poll that took longer than its interval costs the next ones, not the rhythm.
                while self._moment((self._due + 1) * self._interval) < time.monotonic():
                    self._due += 1
        except Exception as error:  # observing never ends a run: what is missing is said
            self._failure = f"{type(error).__name__}: {server_said(error, 300)}"

    def _poll(self) -> None:
        with self._session.cursor() as cursor:
            cursor.execute(self._query, prepare=True)
            for pid, leader, process, idle, kind, event in cursor:
                if pid in self._ignore:
                    continue
                role = self._roles.get(pid) or self._roles.get(leader, "server")
                if kind is None:
                    # 9.6 does not say that a backend waits for its client; its state does.
                    kind, event = ("Client", "ClientRead") if idle else ("CPU", "")
                self._counts[role, process, kind, event] += 1


def merged(parts: Sequence[Waits]) -> Waits | None:
    """Merges the samples of several slices of a step; None if there are none."""
    if not parts:
        return None
    counts: Counter[Key] = Counter()
    for row in (row for part in parts for row in part.rows):
        counts[row["role"], row["process"], row["wait_event_type"], row["wait_event"]] += row["samples"]
    backend = [part.backend_cpu_seconds for part in parts]
    known = [seconds for seconds in backend if seconds is not None]
    return Waits(
        _rows(counts),
        sum(part.polls for part in parts),
        sum(part.wanted for part in parts),
        sum(part.sampler_cpu_seconds for part in parts),
        sum(known) if len(known) == len(backend) else None,
        next((part.failure for part in parts if part.failure), None),
    )


def _rows(counts: Counter[Key]) -> list[dict[str, Any]]:
    groups: Counter[tuple[str, str]] = Counter()
    for (role, process, _, _), samples in counts.items():
        groups[role, process] += samples
    return [
        {
            "role": role,
            "process": process,
            "wait_event_type": kind,
            "wait_event": event,
            "samples": samples,
            "share": samples / groups[role, process],
        }
        for (role, process, kind, event), samples in sorted(
            counts.items(), key=lambda item: (item[0][:2], -item[1], item[0])
        )
    ]


_WAIT_EVENT = column("pg_stat_activity", "wait_event")
_LEADER = column("pg_stat_activity", "leader_pid")
_BACKEND_TYPE = column("pg_stat_activity", "backend_type")


def _query(catalog: Catalog) -> LiteralString:
    """Returns the query of the function below pg_stat_activity: without the view's joins it takes about half
    the time."""
    catalog.learn((_WAIT_EVENT, _LEADER, _BACKEND_TYPE))
    if not catalog.has(_WAIT_EVENT):
        return old.waits_query(catalog)
    leader: LiteralString = "leader_pid" if catalog.has(_LEADER) else "NULL::int4"
    process: LiteralString = "'client backend'"
    if catalog.has(_BACKEND_TYPE):
        process = "coalesce(backend_type, 'background worker')"
    return (
        "SELECT pid, "
        + leader
        + ", "
        + process
        + ", coalesce(state LIKE 'idle%', false), wait_event_type, wait_event"
        + " FROM pg_catalog.pg_stat_get_activity(NULL) WHERE pid <> pg_backend_pid()"
    )

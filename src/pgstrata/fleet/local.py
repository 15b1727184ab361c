"""A fleet on this machine alone, to try what one is like: `local:N`."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask
import psutil
from distributed import Nanny, Scheduler
from distributed.deploy.spec import SpecCluster
from distributed.security import Security
from distributed.utils import LoopRunner

from pgstrata.errors import UsageError
from pgstrata.fleet import restricted
from pgstrata.fleet.certificates import make_certificates
from pgstrata.fleet.machine import NAME
from pgstrata.fleet.perform import PRELOAD, RESOURCE
from pgstrata.fleet.private_folder import private_folder
from pgstrata.process_end import ends_with_process

MOST = 256

WITHOUT_PAGES: dict[str, Any] = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""Options of schedulers and workers: nothing is shown."""

QUIET: dict[str, Any] = {
    # A profiler that looks at the worker a hundred times a second would be measured, too.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.tick.interval": "1s",
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    # Which machine measures what is the client's business.
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.allowed-failures": 0,
    "distributed.comm.timeouts.connect": "20s",
    # A worker that is killed again while it comes back must not be given up, nor on a busy machine.
    "distributed.deploy.lost-worker-timeout": "1 day",
    # Pages are shown to every user of the machine, and some of them do what they are asked.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Of the engine, where pgstrata puts it up: no more of it on a machine than is needed."""


def number_of(text: str) -> int:
    """Returns the N of `local:N`. Raises UsageError."""
    number = text.removeprefix("local:")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= MOST:
        raise UsageError(f"{text}: how many machines?", f"write local:2; at most local:{MOST}")
    return int(number)


@contextmanager
def local_fleet(number: int, preload: Sequence[str] = ()) -> Iterator[str]:
    """Yields the address of a scheduler on loopback, whose workers pass for machines of their own.

    Loopback is no authentication: every user of the machine reaches it. So it speaks TLS with a key that
    only this fleet has, and it and its workers do nothing but typed tasks. The engine's configuration names
    the certificates meanwhile, so that clients of this process find them. preload: modules that workers load
    besides, which may permit further tasks. Raises UsageError, OSError.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    assert restricted.is_active()  # the scheduler is in this process
    with private_folder() as folder:
        certificates = make_certificates(folder)
        workers = {f"local-{n}": _worker(f"local-{n}", folder, preload) for n in range(1, number + 1)}
        scheduler = {
            "cls": Scheduler,
            "options": {"host": "127.0.0.1", "port": 0, "protocol": "tls", **WITHOUT_PAGES},
        }
        settings = {**QUIET, **certificates.settings(), "temporary-directory": str(folder)}
        with (
            ends_with_process(_kill_workers),
            dask.config.set(settings),
            _loop_without_interrupts() as loop,
            SpecCluster(
                workers, scheduler, security=Security(), silence_logs=logging.CRITICAL, loop=loop
            ) as cluster,
        ):
            yield str(cluster.scheduler_address)


def _kill_workers() -> None:
    """Kills the workers and what they have started; servers among it end with their parent, too."""
    for worker in multiprocessing.active_children():
        with contextlib.suppress(psutil.Error):
            process_of_worker = psutil.Process(worker.pid)
            for process in [process_of_worker, *process_of_worker.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    process.kill()


@contextmanager
def _loop_without_interrupts() -> Iterator[Any]:
    """Yields an event loop in a thread that leaves SIGINT to the main thread.

    A terminal sends Ctrl-C to all processes of a command. Workers inherit the signal mask of this thread, so
    they print no tracebacks while this process ends them.
    """
    # Its first user would start it, which lets SIGINT through in that thread. It removes the semaphores of a
    # process that has no time to, which is nothing to warn of.
    sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")  # handed on to it
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()
    runner = LoopRunner()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


def _worker(name: str, folder: Path, preload: Sequence[str]) -> dict[str, Any]:
    return {
        "cls": Nanny,
        "options": {
            "nthreads": 1,
            "resources": {RESOURCE: 1},
            "host": "127.0.0.1",
            "protocol": "tls",
            "memory_limit": 0,
            **WITHOUT_PAGES,
            "silence_logs": logging.CRITICAL,
            "local_directory": str(folder),
            "preload": [PRELOAD, *preload],
            "env": {NAME: name, **_without_threads()},
        },
    }


def _without_threads() -> dict[str, str]:
    """Returns environment variables that keep numeric libraries to a single thread, unless they are set: a
    worker computes nothing."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {name: os.environ.get(name, "1") for name in names}


__all__ = ["QUIET", "WITHOUT_PAGES", "local_fleet", "number_of"]

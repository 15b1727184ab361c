"""A fleet on this machine alone, to try what one is like: `local:N`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Nanny, Scheduler
from distributed.deploy.spec import SpecCluster

from pgstrata.errors import UsageError
from pgstrata.fleet.machine import NAME
from pgstrata.fleet.perform import RESOURCE

MOST = 256

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
}
"""Of the engine, where pgstrata puts it up: no more of it on a machine than is needed."""


def number_of(text: str) -> int:
    """N of `local:N`. Raises UsageError."""
    number = text.removeprefix("local:")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= MOST:
        raise UsageError(f"{text}: how many machines?", f"write local:2; at most local:{MOST}")
    return int(number)


@contextmanager
def local_fleet(number: int) -> Iterator[str]:
    """The address of a scheduler on loopback, whose workers pass for machines of their own."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    workers = {
        f"local-{n}": {
            "cls": Nanny,
            "options": {
                "nthreads": 1,
                "resources": {RESOURCE: 1},
                "host": "127.0.0.1",
                "memory_limit": 0,
                "dashboard": False,
                "silence_logs": logging.CRITICAL,
                "env": {NAME: f"local-{n}", **_without_threads()},
            },
        }
        for n in range(1, number + 1)
    }
    scheduler = {
        "cls": Scheduler,
        "options": {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"},
    }
    with (
        dask.config.set(QUIET),
        SpecCluster(workers, scheduler, silence_logs=logging.CRITICAL) as cluster,
    ):
        yield str(cluster.scheduler_address)


def _without_threads() -> dict[str, str]:
    """A worker computes nothing."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {name: os.environ.get(name, "1") for name in names}


__all__ = ["QUIET", "local_fleet", "number_of"]

"""What a worker executes: one function, which takes a task and gives an answer.

Whatever measures or builds does so in a process of its own, so that it can be ended at any moment and takes
its servers and its driver with it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from distributed import get_worker
from distributed.core import Status

from pgstrata.child_end import ends_within
from pgstrata.errors import PgstrataError, ServerError, server_said
from pgstrata.files.bounded import json_any
from pgstrata.files.building import building
from pgstrata.fleet import machine, provision
from pgstrata.fleet.child import ANSWER, TASK
from pgstrata.fleet.tasks import (
    Answer,
    Compare,
    Do,
    Install,
    Installed,
    Look,
    Provide,
    Qualify,
    Unable,
    decode_answer,
    decode_task,
    encode,
    unable,
)
from pgstrata.server.find.cache import cache_folder

PRELOAD = "pgstrata.fleet.restricted"
"""The module that keeps workers and schedulers to typed tasks."""

RESOURCE = "machine"
"""Of which every worker has one, and every task takes one."""

LOOK_SECONDS = 0.5
"""How often a worker looks whether what it does is still wanted."""

LEASE_EVERY_SECONDS = 2.0
"""How often it says so to the process that does it."""

PROVIDE_SECONDS = 4 * 3600.0
"""Longest time that fetching or building a server may take."""

QUALIFY_SECONDS = 1800.0
"""Longest time of a qualification, both tries."""

END_SECONDS = 90.0
"""How long a process may take to end after it was told to."""


def perform(text: bytes) -> bytes:
    """Does a task and returns its answer; raises no error that the client would have to know.

    A worker that would do anything else, too, is refused: it is no place for a task of pgstrata's.
    """
    try:
        _check_worker()
        answer = _answer(text)
    except (PgstrataError, OSError) as error:
        answer = unable(error)
    return encode(answer)


def _check_worker() -> None:
    """Raises ServerError unless this runs as a task of a worker that does nothing but typed tasks."""
    try:
        get_worker().get_current_task()
    except (ValueError, AttributeError) as error:
        raise ServerError("a task of pgstrata is done by a worker, and by nothing else") from error
    restricted = sys.modules.get(PRELOAD)
    if restricted is None or not restricted.is_active():
        raise ServerError(
            "this worker executes whatever code it is sent",
            f"start it with: dask worker … --preload {PRELOAD}, and the scheduler, too",
        )


def _answer(text: bytes) -> Answer:
    task = decode_task(text)
    match task:
        case Look():
            return machine.look(task)
        case Install():
            provision.install(task.server)
            return Installed()
        case Provide():
            return _in_process(text, task.topic, PROVIDE_SECONDS)
        case Qualify():
            return _in_process(text, task.topic, QUALIFY_SECONDS)
        case Compare() | Do():
            return _in_process(text, task.topic, task.limit)


def _in_process(text: bytes, topic: str, limit: float) -> Answer:
    worker = get_worker()
    key = worker.get_current_task()

    def wanted() -> bool:
        """Returns whether the worker is connected and the task has not been called off."""
        state = worker.state.tasks.get(key)
        return worker.status == Status.running and state is not None and state.state == "executing"

    def tell(event: dict[str, Any]) -> None:
        # The scheduler may be gone; then `wanted` will be false in a moment.
        with contextlib.suppress(Exception):
            worker.log_event(topic, {"key": str(key), "address": worker.address, **event})

    with building(cache_folder("fleet", make=True) / "task") as folder:
        (folder / TASK).write_bytes(text)
        stderr, ended = _supervised(folder, wanted, tell, limit)
        tell({"ended": True})
        if (folder / ANSWER).exists():
            return decode_answer((folder / ANSWER).read_bytes())
    if ended:
        return Unable(message=ended, ended=ended == CALLED_OFF)
    return Unable(message=f"the measuring process ended without an answer: {server_said(stderr, 400)}")


CALLED_OFF = "it was called off"


def _supervised(
    folder: Path, wanted: Callable[[], bool], tell: Callable[[dict[str, Any]], None], limit: float
) -> tuple[str, str]:
    """Runs the process to its end. What it said on standard error, and why it was ended or nothing."""
    begun = time.monotonic()
    ended = ""
    with (folder / "errors").open("w+b") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "pgstrata.fleet.child", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            reader = _Lines(process.stdout)
            leased = 0.0
            while process.poll() is None:
                for event in reader.read(LOOK_SECONDS):
                    tell(event)
                now = time.monotonic()
                if not wanted():
                    ended = CALLED_OFF
                elif now - begun > limit:
                    ended = f"it was not done after {limit:.0f} s, several times as long as planned"
                if ended:
                    break
                if now - leased > LEASE_EVERY_SECONDS:
                    leased = now
                    with contextlib.suppress(OSError):
                        process.stdin.write(b"\n")
                        process.stdin.flush()
        finally:
            _end(process)
        errors.seek(0)
        stderr = errors.read(1 << 16).decode(errors="replace").strip()
    lines = stderr.splitlines()
    return (lines[-1] if lines else f"code {process.returncode}"), ended


class _Lines:
    """JSON objects that a process writes, one in each line."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._rest, self._open = file, b"", True
        os.set_blocking(file.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(file, selectors.EVENT_READ)

    def read(self, seconds: float) -> list[dict[str, Any]]:
        """Returns the lines that arrived within this number of seconds, parsed as JSON objects."""
        if not self._open:
            time.sleep(0.05)
            return []
        if not self._selector.select(seconds):
            return []
        data = os.read(self._file.fileno(), 1 << 16)
        self._open = bool(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        messages = []
        for line in lines:
            with contextlib.suppress(ValueError):
                value = json_any(line)
                messages += [value] if isinstance(value, dict) else []
        return messages


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process by ending its lease; a process that does not stop is killed, and the kernel ends its
    children."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    if not ends_within(process, END_SECONDS):
        process.kill()
        process.wait()


__all__ = ["PRELOAD", "RESOURCE", "perform"]

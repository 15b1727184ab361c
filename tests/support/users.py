"""Another user of the machine: what it does is really done as that user."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STRANGER = 4711
"""A user that owns nothing; no system has an account with this number."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def shell_as(uid: int, script: str, *arguments: str | Path) -> None:
    """Runs a shell script as a user."""
    command = ["/bin/sh", "-euc", script, "sh", *map(str, arguments)]
    subprocess.run(command, user=uid, group=uid, extra_groups=[], cwd="/", check=True)


def call_as(uid: int, work: Callable[[], Any]) -> Any:
    """What a function returns, or raises, when this process is that user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            try:
                answer: tuple[bool, Any] = (True, work())
            except Exception as error:
                answer = (False, error)
            os.write(writing, pickle.dumps(answer))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        good, outcome = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    if not good:
        raise outcome
    return outcome

"""Processes that are started while a signal comes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from typing import Any

import psutil
import pytest

from pgstrata.server.system.process import start

pytestmark = pytest.mark.program


class Signalled(BaseException):
    pass


def test_a_process_that_is_being_started_when_a_signal_comes_is_ended_again() -> None:
    """The one that waits for it is gone, and nobody would know of it."""

    def handler(number: int, frame: object) -> None:
        raise Signalled

    class Slow(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **how: Any) -> None:
            time.sleep(0.5)  # a machine that is busy takes its time
            super().__init__(*words, **how)

    former = signal.signal(signal.SIGUSR1, handler)
    begun = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Signalled):
            patch.setattr(subprocess, "Popen", Slow)
            begun.start()
            start(["sleep", "987"])
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert [p for p in psutil.Process().children() if p.cmdline() == ["sleep", "987"]] == []

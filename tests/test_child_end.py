"""Whether a process has ended is told by the kernel, not looked for."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from pgstrata.child_end import ends_within

pytestmark = pytest.mark.program


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when it is told to."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture(params=["file of the process", "without it"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "without it":

        def missing(*_: Any) -> NoReturn:
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(os, "pidfd_open", missing)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_a_process_ends_or_does_not(sleeper: subprocess.Popen[bytes]) -> None:
    assert not ends_within(sleeper, 0.01)
    assert not ends_within(sleeper, 0)
    sleeper.terminate()
    assert ends_within(sleeper, 60)
    assert sleeper.returncode == -15
    assert ends_within(sleeper, 0), "it is asked again"


def test_nothing_sleeps_until_it_ends(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slept(*_: Any) -> NoReturn:
        raise AssertionError("it was looked for from time to time")

    sleeper.terminate()
    monkeypatch.setattr(time, "sleep", slept)
    monkeypatch.setattr(subprocess.Popen, "wait", slept)
    assert ends_within(sleeper, 60)
    monkeypatch.undo()

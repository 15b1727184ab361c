"""Signals become one exception, and wait where something is being taken down."""

from __future__ import annotations

import os
import signal
import time

import pytest

from pgstrata.measure.interrupt import Interrupted, Interrupts


def test_a_signal_is_raised_where_it_arrives() -> None:
    said: list[str] = []
    with Interrupts(said.append), pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert caught.value.exit_code == 143
    assert said


def test_ctrl_c_is_130() -> None:
    with Interrupts(), pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    assert caught.value.exit_code == 130


def test_a_shield_lets_it_wait() -> None:
    with Interrupts() as interrupts:
        with interrupts.shield():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
        with pytest.raises(Interrupted):
            interrupts.check()


def test_former_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before

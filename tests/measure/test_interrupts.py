"""Signals become one exception, and wait where something is being taken down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import weakref

import pytest

from pgstrata.measure.interrupt import Interrupted, Interrupts


def test_a_signal_is_raised_where_it_arrives() -> None:
    messages: list[str] = []
    with Interrupts(messages.append), pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert caught.value.exit_code == 143
    assert messages


@pytest.mark.parametrize("error", [ImportError, AttributeError, RuntimeError])
def test_what_cannot_be_said_at_that_moment_does_not_take_the_place_of_the_signal(
    error: type[Exception],
) -> None:
    """Saying it needs a module whose import the signal has interrupted: it is there in part."""

    def say(text: str) -> None:
        raise error(text)

    with Interrupts(say), pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)


def test_a_hang_up_that_nohup_has_ignored_is_ignored() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            interrupts.check()
            with pytest.raises(Interrupted):
                os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)


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


def test_repeated_signals_do_not_cut_the_way_out_short() -> None:
    """Ctrl-C twice: the second must not come between the first and the shield of what takes down."""
    reached = False
    with Interrupts() as interrupts, pytest.raises(Interrupted):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            with interrupts.shield():
                reached = True
    assert reached


def test_a_signal_whose_exception_is_swallowed_comes_again(capfd: pytest.CaptureFixture[str]) -> None:
    """Python raises nothing out of the callback of a weak reference; it only prints it."""

    class Thing:
        pass

    def callback(unused: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.5)

    thing = Thing()
    with Interrupts(), pytest.raises(Interrupted) as caught:
        kept = weakref.ref(thing, callback)
        del thing
        assert kept() is None
        time.sleep(20)
    assert caught.value.exit_code == 143
    assert "Traceback" not in capfd.readouterr().err


WAITS = """
import os, signal, threading, time
from concurrent.futures import ThreadPoolExecutor, wait
from pgstrata.measure.interrupt import Interrupted, Interrupts
with ThreadPoolExecutor() as pool, Interrupts():
    import duckdb, numpy, pgstrata.store.parquet
    pgstrata.store.parquet.to_bytes("lag", [])
    begun = time.monotonic()
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        wait([pool.submit(time.sleep, 6)])
    except Interrupted:
        print(time.monotonic() - begun)
"""


@pytest.mark.program
def test_a_library_that_is_imported_later_does_not_hold_up_a_signal() -> None:
    """A library may take the signal first, so that system calls go on after it."""
    done = subprocess.run([sys.executable, "-c", WAITS], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 5

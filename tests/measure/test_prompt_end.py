"""Ctrl-C, SIGTERM and SIGHUP in every phase of a count, of a run and of a build: all end soon, and a second
one sooner. Servers that valgrind executes took half a minute to end by themselves."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from pgstrata.server.find.model import Server
from support.program import PGSTRATA, Running, descendants, living_in

needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")

PROMISED_SECONDS, LOADED = 5.0, 2.0
"""A command ends within 5 s of the first signal; tests share their machine with others."""

AGAIN_SECONDS = 1.0
"""And within 1 s of the second."""

SEED = int(os.environ.get("PGSTRATA_KILLS_SEED", str(int(time.time()))))


def command_lines(running: Running) -> list[str]:
    """Returns the command lines of all that pgstrata has started."""
    lines = []
    for process in descendants(running.process.pid):
        try:
            lines.append(f"{process.name()} {' '.join(process.cmdline())}")
        except psutil.Error:
            continue
    return lines


def runs(*words: str) -> Callable[[Running], bool]:
    """A descendant has all of these words in its name or command line."""
    return lambda running: any(all(word in line for word in words) for line in command_lines(running))


def has_counts(running: Running) -> bool:
    return any(running.output.parent.glob("data/*/counts/count.*.*"))


def printed(text: str) -> Callable[[Running], bool]:
    return lambda running: text in running.printed


PHASES: dict[str, Callable[[Running], bool]] = {
    "at once": lambda running: True,
    "initdb": runs("initdb"),
    "the server starts": runs("postgres", "-D"),
    "valgrind starts the server": runs("callgrind"),
    "marks are written": has_counts,
    "operations are counted": runs("pgstrata-driver"),
    "the first look is over": printed("start 1 of"),
}

COUNT = [
    *("count", "--server", "pg:17", "--workload", "pgbench", "--set", 'builtin=["tpcb-like"]'),
    *("--engine", "valgrind", "--starts", "2", "--most-starts", "3", "--data-dir", "data"),
]


def seconds_to_end(
    place: Path, command: list[str], begun: Callable[[Running], bool], sent: signal.Signals, after: float
) -> float:
    """Seconds from the signal to the end of the command, some time after a phase has begun."""
    running = Running(place, command, program=PGSTRATA)
    try:
        running.wait_for(lambda: begun(running) or running.process.poll() is not None)
        time.sleep(after)
        if running.process.poll() is not None:
            return 0.0
        at = time.monotonic()
        running.process.send_signal(sent)
        code = running.process.wait(120)
        seconds = time.monotonic() - at
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
    assert code in (128 + sent, -sent, 0), running.printed
    assert "Traceback" not in running.printed, running.printed
    until = time.monotonic() + 5
    while living_in(place) and time.monotonic() < until:
        time.sleep(0.05)
    assert living_in(place) == []
    return seconds


@needs_valgrind
@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_ends_a_count_in_every_phase(place: Path, pg17: Server, phase: str) -> None:
    draw = random.Random(f"{SEED} {phase}")
    (place / "data").mkdir()
    sent = draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    after = draw.uniform(0, 1.5)
    seconds = seconds_to_end(place, COUNT, PHASES[phase], sent, after)
    case = f"{sent.name} {after:.2f} s after {phase!r}, seed {SEED}"
    assert seconds < PROMISED_SECONDS * LOADED, case
    assert list((place / "data").glob("count-*")) == [], case


@needs_valgrind
def test_a_second_signal_ends_a_count_at_once(place: Path, pg17: Server) -> None:
    (place / "data").mkdir()
    running = Running(place, COUNT, program=PGSTRATA)
    try:
        running.wait_for(partial(has_counts, running))
        running.process.send_signal(signal.SIGINT)
        time.sleep(random.Random(SEED).uniform(0.3, 0.6))
        again = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        # It may be about to end by itself, without a handler any more.
        assert running.process.wait(60) in (130, -signal.SIGINT)
        assert time.monotonic() - again < AGAIN_SECONDS * LOADED
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
    until = time.monotonic() + 5
    while living_in(place) and time.monotonic() < until:
        time.sleep(0.05)
    assert living_in(place) == []


def test_a_vacuum_that_takes_long_does_not_hold_up_the_end(place: Path, pg17: Server) -> None:
    """A table of many pages that settles with a cost limit of one page per delay."""
    (place / "data").mkdir()
    (place / "slow.conf").write_text("vacuum_cost_delay = 100\nvacuum_cost_limit = 1\nautovacuum = off\n")
    (place / "setup.sql").write_text(
        "CREATE TABLE t AS SELECT i, repeat('x', 500) x FROM generate_series(1, 20000) i"
    )
    (place / "one.sql").write_text("SELECT 1;\n")
    (place / "mine.toml").write_text(
        'data_dir = "data"\n[[variants]]\nserver = "pg:17"\nconfig = ["default", "slow.conf"]\n'
        '[[workloads]]\nname = "custom"\noptions = { setup = ["setup.sql"], scripts = ["one.sql"] }\n'
    )
    seconds = seconds_to_end(
        place, ["run", "mine.toml", "--no-report"], runs("postgres", "VACUUM"), signal.SIGINT, 1.0
    )
    assert 0 < seconds < PROMISED_SECONDS * LOADED
    assert list((place / "data").iterdir()) == []


STUBBORN = """
import signal, sys, time
from pathlib import Path
from pgstrata.measure.interrupt import Interrupted, Interrupts
from pgstrata.process_end import allow_process_end
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.acquire import acquire
allow_process_end()
server = acquire("pg:17")
with Interrupts(lambda text: print(text, flush=True)) as interrupts:
    cluster = Cluster(server, resolve([], server.version_num, 8 << 30), Path(sys.argv[1]) / "c")
    cluster.create()
    cluster.start()
    try:
        print("ready", flush=True)
        time.sleep(600)
    except Interrupted:
        with interrupts.shield():
            time.sleep(600)  # a clean-up that hangs
"""


@pytest.mark.parametrize("second", [False, True])
def test_a_clean_up_that_hangs_is_cut_short_and_no_server_is_left(
    place: Path, pg17: Server, second: bool
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN, str(place)], cwd=place, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert len(living_in(place)) > 3
        at = time.monotonic()
        process.send_signal(signal.SIGINT)
        if second:
            time.sleep(0.4)
            at = time.monotonic()
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        promised = AGAIN_SECONDS if second else PROMISED_SECONDS
        assert time.monotonic() - at < promised * LOADED
        assert living_in(place) == []
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.program
def test_ctrl_c_before_the_program_has_begun_is_no_traceback(place: Path) -> None:
    for after in (0.05, 0.15, 0.3):
        process = subprocess.Popen(
            [sys.executable, "-m", "pgstrata", "doctor"],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
        # Python may still be finding the package: no line that could take the signal has run.
        assert "__main__.py" not in text or "Traceback" not in text, text
        assert process.returncode in (-signal.SIGINT, 130, 0, 1), text

"""What others use of the CPUs is told apart from what this program and its children use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pgstrata.measure.measurement import other_load_of
from pgstrata.observe.other_load import LoadReading, OtherLoad

BURN = "import time\nwhile time.process_time() < {seconds}: pass"
WATCH = """
import os, subprocess, sys, time
from pgstrata.observe.other_load import OtherLoad
os.sched_setaffinity(0, {{{cpu}}})
begun, load = time.monotonic(), OtherLoad()
subprocess.run([sys.executable, "-c", {burn!r}], check=True)
print(load.share(), time.monotonic() - begun)
"""


def watched(cpu: int, seconds: float) -> tuple[float, float]:
    """The share of others on a CPU where a program watched its child use these seconds, and its time."""
    text = WATCH.format(cpu=cpu, burn=BURN.format(seconds=seconds))
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    share, took = map(float, done.stdout.split())
    return share, took


@pytest.mark.program
def test_another_program_on_the_same_cpu_is_seen_and_ones_own_children_are_not() -> None:
    cpu = min(os.sched_getaffinity(0))
    alone, took = watched(cpu, 1.5)
    assert took * (1 - alone) > 1.3, "what the child used is not that of others"
    other = subprocess.Popen([sys.executable, "-c", BURN.format(seconds=60)])
    os.sched_setaffinity(other.pid, {cpu})
    try:
        beside, took = watched(cpu, 1.5)
    finally:
        other.kill()
        other.wait()
    assert beside > 0.2, "two programs have about half of it each"
    assert took * (1 - beside) > 1.3


def test_a_moment_is_no_share() -> None:
    assert 0.0 <= OtherLoad().share() <= 1.0


@pytest.mark.parametrize(
    ("other", "stolen", "throttled", "share"),
    [(0.2, 0.0, None, 0.1), (0.2, 0.6, None, 0.4), (0.0, 0.0, 0.5, 0.5), (2.0, 1.0, 0.5, 1.0)],
)
def test_what_a_pair_lost_to_guests_and_quotas_counts_like_other_programs(
    other: float, stolen: float, throttled: float | None, share: float
) -> None:
    reading = LoadReading(1.0, 2.0, other, stolen, None, throttled)
    assert other_load_of(reading, 0.25) == share
    assert other_load_of(reading, 1.0) is None


def test_a_pair_whose_load_is_not_known_has_none() -> None:
    assert other_load_of(None, 0.25) is None

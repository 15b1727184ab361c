"""What the driver is asked has bounds, and it says so itself: it can be called without pgstrata."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from pgstrata.driver.path import find_driver

pytestmark = pytest.mark.program


def asked(*arguments: str, text: str = "") -> tuple[int, dict[str, Any]]:
    """Exit code and the first event. Standard input stays open meanwhile: its end would end the driver."""
    with subprocess.Popen([find_driver(), *arguments], stdin=PIPE, stdout=PIPE, text=True) as driver:
        assert driver.stdin is not None and driver.stdout is not None
        driver.stdin.write(text)
        driver.stdin.flush()
        event = json.loads(driver.stdout.readline())
        return driver.wait(120), event


def test_a_script_without_an_end_is_not_read_for_ever() -> None:
    code, event = asked("check", "/dev/zero")
    assert code == 1
    assert event["message"].endswith("it has more than 16 MiB, and no script is that large")


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ({"sampling_rate": 0}, "the sampling rate of the log is not above 0 and at most 1"),
        ({"sampling_rate": 1.5}, "the sampling rate of the log is not above 0 and at most 1"),
        ({"aggregate_seconds": 0}, "the intervals of the log have no length"),
    ],
)
def test_a_log_that_cannot_be_is_refused(log: dict[str, float], message: str, tmp_path: Path) -> None:
    spec = {
        "version": 1,
        "step": "s",
        "connection": {"host": str(tmp_path), "port": 5432, "user": "u", "database": "d"},
        "seconds": 1,
        "log": {"path": str(tmp_path / "log"), **log},
        "roles": [{"name": "r", "clients": 1, "scripts": [{"name": "s", "text": "SELECT 1;"}]}],
    }
    _, event = asked("run", text=json.dumps(spec) + "\n")
    assert (event["event"], event["kind"], event["message"]) == ("error", "spec", message)
    assert not (tmp_path / "log").exists()

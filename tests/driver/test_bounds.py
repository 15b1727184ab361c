"""What the driver is asked has bounds, and it says so itself: it can be called without pgstrata."""

from __future__ import annotations

import json
import subprocess
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

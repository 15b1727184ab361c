"""What a working driver makes of the commands it is given."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgstrata.driver.path import find_driver
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server

ROLE = {"name": "query", "clients": 1, "scripts": [{"ops": [{"sql": ["SELECT 1"], "name": "one"}]}]}


@contextmanager
def ready(server: Server, place: Path) -> Iterator[subprocess.Popen[str]]:
    """A driver that waits for a command, on a server of its own."""
    with Cluster(server, Resolved("plain"), place / "c") as cluster:
        cluster.create()
        cluster.start()
        connection = {"host": str(cluster.socket_dir), "port": cluster.port}
        connection |= {"user": "postgres", "database": "postgres"}
        spec = {"version": 1, "step": "s", "connection": connection, "seconds": 600, "roles": [ROLE]}
        with subprocess.Popen(
            [find_driver(), "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as driver:
            try:
                tell(driver, json.dumps(spec))
                assert hear(driver)["event"] == "ready"
                yield driver
            finally:
                driver.kill()


def tell(driver: subprocess.Popen[str], line: str) -> None:
    assert driver.stdin
    driver.stdin.write(line + "\n")


def hear(driver: subprocess.Popen[str]) -> dict[str, Any]:
    assert driver.stdout
    event: dict[str, Any] = json.loads(driver.stdout.readline())
    return event


@pytest.mark.parametrize("line", ['{"command": "halt"}', '{"command": "start", "when": 5}', "stop"])
def test_a_line_that_is_no_command_is_refused_with_the_list_of_commands(
    pg17: Server, place: Path, line: str
) -> None:
    with ready(pg17, place) as driver:
        tell(driver, line)
        event = hear(driver)
        assert (event["event"], event["kind"]) == ("error", "spec")
        assert "the commands are start, stretch, slice, stop and close" in event["message"]
        assert driver.wait(60) == 1


def test_an_unknown_command_in_the_middle_ends_the_step_with_what_was_measured(
    pg17: Server, place: Path
) -> None:
    with ready(pg17, place) as driver:
        tell(driver, '{"command": "start"}')
        assert hear(driver)["event"] == "measuring"
        tell(driver, '{"command": "pause"}')
        events: list[dict[str, Any]] = []
        while not events or events[-1]["event"] != "done":
            events.append(hear(driver))
        (error,) = [event for event in events if event["event"] == "error"]
        assert "pause" in error["message"]
        tell(driver, '{"command": "close"}')
        assert driver.wait(60) == 1

"""Two processes on one empty cache: both end right and each thing is in it once, also where one is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.commands import Command, workshop
from support.kills import Room
from support.users import needs_root

ROUNDS = int(os.environ.get("PGSTRATA_CACHES", "10"))
NAMES = ("servers build", "run tpcds", "run replayed", "run windows", "bisect commits")

pytestmark = needs_root


def begin(room: Room, command: Command, number: int) -> tuple[subprocess.Popen[bytes], Path]:
    """Starts the command with results and output of its own."""
    room.output = room.place / f"said-{number}"
    arguments = [word for word in command.arguments if word not in ("--results", "results")]
    results = [] if command.name == "servers build" else ["--results", f"results/{number}"]
    return room.start(*arguments, *results), room.output


def together(room: Room, command: Command, kill_after: float | None) -> list[str]:
    """Runs a command twice at once on an empty cache; the first may be killed. What is wrong."""
    for folder in (room.cache, room.results, room.data):
        subprocess.run(["rm", "-rf", folder], check=True)
    room.cache.mkdir()
    processes = [begin(room, command, number) for number in range(2)]
    faults = []
    if kill_after is not None:
        time.sleep(kill_after)
        processes[0][0].send_signal(signal.SIGKILL)
    for number, (process, output) in enumerate(processes):
        code = process.wait(600)
        text = output.read_text()
        if code not in command.codes and not (kill_after is not None and number == 0):
            faults.append(f"{command.name}, {number}: exit code {code}: {text[-600:]}")
        if "Traceback" in text or "defect" in text:
            faults.append(f"{command.name}, {number}: {text[-1000:]}")
    if kill_after is not None:  # the next one on this cache finds what was left, and goes on
        # What was killed lies in its results folder until the next start there.
        was_killed = processes[0][0].returncode == -signal.SIGKILL
        process, output = begin(room, command, 0 if was_killed else 2)
        if (code := process.wait(600)) not in command.codes:
            faults.append(f"{command.name}, afterwards: exit code {code}: {output.read_text()[-600:]}")
    names = Counter(path.name for path in (room.cache / "servers").glob("built-*"))
    if command.name == "servers build" and list(names.values()) != [1]:
        faults.append(f"built {dict(names)}")
    return faults + room.left_after(5, "process") + room.left_after(1, "folder")


def studied(place: Path, server: Server, names: tuple[str, ...], rounds: int) -> list[str]:
    draw, faults = random.Random(7), []
    with workshop(place, server) as shop, Room(place) as room:
        for number in range(rounds):
            command = shop.named(names[number % len(names)])
            killed = None if number // len(names) % 2 == 0 else draw.uniform(0, 4 * command.seconds)
            faults += together(room, command, killed)
    return faults


@pytest.mark.timeout(1200)
def test_a_server_is_built_once(place: Path, pg17: Server) -> None:
    assert studied(place, pg17, ("servers build",), 2) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_two_at_once_in_every_part_of_the_cache(place: Path, pg17: Server) -> None:
    assert studied(place, pg17, NAMES, ROUNDS) == []

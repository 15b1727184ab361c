"""Running the program beside a test, and finding what it left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

import pgstrata
from pgstrata.server.system.process import children


def living_in(folder: Path) -> list[psutil.Process]:
    """Processes with this folder in their command line or as working directory."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            words = [*process.cmdline(), process.cwd()]
        except psutil.Error:
            continue
        if any(str(folder) in word for word in words):
            processes.append(process)
    return processes


def wait_until_ended(folder: Path, seconds: float = 120) -> None:
    """Waits until nothing lives in a folder: a fleet ends a moment after its command, or half a minute after
    that was killed."""
    until = time.monotonic() + seconds
    while processes := living_in(folder):
        assert time.monotonic() < until, [process.cmdline() for process in processes]
        time.sleep(0.2)


def descendants(pid: int) -> Iterator[psutil.Process]:
    """Yields what a process has started and what that has, parents first; asks for no other process, of which
    there are hundreds where tests run beside each other."""
    for child in children(pid):
        with suppress(psutil.Error):
            yield psutil.Process(child)
        yield from descendants(child)


def environment(**more: str) -> dict[str, str]:
    """Returns the environment of a pgstrata that tests start: no terminal, plain output, and the code that
    the tests import, whatever folder it is started in."""
    paths = [*filter(None, [more.get("PYTHONPATH")]), str(Path(pgstrata.__file__).parents[1])]
    return {
        **os.environ,
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "PGSTRATA_TRACE": "",
        **more,
        "PYTHONPATH": os.pathsep.join(paths),
    }


PGSTRATA = ("-m", "pgstrata")
COPYING = ("-P", str(Path(__file__).with_name("launch.py")))
"""The program, and the same with clusters that begin as copies."""


class Running:
    """A pgstrata that runs beside the test, and what it has printed so far. more: of its environment."""

    def __init__(
        self, folder: Path, arguments: list[str], *, program: Sequence[str] = COPYING, **more: str
    ) -> None:
        self.output = folder / f"output-{time.monotonic_ns()}"
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *program, *arguments],
                cwd=folder,
                env=environment(**more),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def printed(self) -> str:
        return self.output.read_text()

    def wait_for(self, what: Callable[[], Any], seconds: float = 240) -> Any:
        """The first true answer of `what`; the test fails if the program ends before."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if answer := what():
                return answer
            assert self.process.poll() is None, self.printed
            time.sleep(0.02)
        raise AssertionError(f"nothing happened for {seconds} s: {self.printed}")

    def wait_for_text(self, text: str) -> None:
        self.wait_for(lambda: text in self.printed)

    def end(self) -> int:
        return self.process.wait(240)

    def child(self, name: str) -> psutil.Process | None:
        """The first descendant whose program has this name."""
        for process in descendants(self.process.pid):
            try:
                if process.name() == name:
                    return process
            except psutil.Error:
                continue
        return None

    def backend(self, cpu_seconds: float = 0.0) -> psutil.Process | None:
        """A backend that serves the driver and has used this much CPU time."""
        for process in descendants(self.process.pid):
            try:
                words = " ".join(process.cmdline())
                busy = process.cpu_times().user >= cpu_seconds
            except psutil.Error:
                continue
            if busy and words.startswith("postgres: ") and " pgstrata " in f"{words} ":
                return process
        return None


Program = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs pgstrata with these arguments to its end."""
WriteCampaign = Callable[..., Path]
"""Writes a campaign for these servers."""
Start = Callable[..., Running]
"""Starts pgstrata with these arguments."""

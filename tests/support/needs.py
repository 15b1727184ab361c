"""What a test needs beyond Python: a server, another program, or seconds of CPU.

`make quick` leaves those tests out by their marks. A fixture that needs one of these says so, and marks every
test that uses it; a test that starts a program by itself is marked where it stands.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest

Mark = Literal["server", "program", "long"]
Function = TypeVar("Function", bound=Callable[..., Any])

STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec"}
"""Events that Python reports before it starts a process (PEP 578)."""
MAY_START = ("server", "program", "slow")
"""Marks of tests that may start programs."""
ASKS_ONLY = {"test"}
"""Programs that answer a question about files at once: whether the unprivileged account reaches a folder."""
OF_A_SERVER = {"postgres", "postmaster", "initdb", "pg_ctl", "pgstrata-tools"}
"""Programs of servers, and the one that fetches them."""


def needs(mark: Mark) -> Callable[[Function], Function]:
    """Marks a fixture, below `@pytest.fixture`: every test that uses it gets the mark."""

    def marked(function: Function) -> Function:
        function.__dict__["needs"] = mark
        return function

    return marked


def mark_by_fixtures(items: Iterable[pytest.Item]) -> None:
    """Gives each test the marks of the fixtures that it uses, directly or through others."""
    for item in items:
        fixtures = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
        for definitions in fixtures.values():
            if mark := getattr(definitions[-1].func, "needs", None):
                item.add_marker(mark)


def missing_mark(item: pytest.Item, event: str, arguments: tuple[Any, ...]) -> str | None:
    """Returns what to say when a test without the mark starts a program; None if it has the mark or if the
    event starts nothing."""
    if event not in STARTS or any(map(item.get_closest_marker, MAY_START)):
        return None
    program = "another process" if event.startswith("os.fork") else os.fsdecode(arguments[0] or "")
    name = Path(program).name
    if name in ASKS_ONLY:
        return None
    mark = "server" if name in OF_A_SERVER else "program"
    return (
        f"{item.nodeid} starts {name} without a mark: add @pytest.mark.{mark} to the test, or "
        f'@needs("{mark}") to the fixture that starts it'
    )

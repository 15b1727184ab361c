"""What a campaign on a fleet says: a line for each machine on a terminal, lines of text or JSON elsewhere."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NotRequired, TypedDict

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.dispatch import Dispatcher
from pgstrata.fleet.forecast import forecast
from pgstrata.fleet.roles import Machine
from pgstrata.measure.progress import plain_lines
from pgstrata.numbers import clock


class FleetEvent(TypedDict):
    """A line that `pgstrata run --fleet --format json` prints; the other keys depend on `event`."""

    event: str
    text: NotRequired[str]
    machine: NotRequired[str]
    address: NotRequired[str]
    kind: NotRequired[str]
    reason: NotRequired[str]
    workload: NotRequired[str]
    repeat: NotRequired[int]
    attempt: NotRequired[int]
    verdicts: NotRequired[dict[str, int]]
    seconds_left: NotRequired[int]
    machines: NotRequired[list[dict[str, Any]]]
    made: NotRequired[int]
    failed: NotRequired[int]


Words = Mapping[str, Sequence[str]]

EVERY_SECONDS = 30.0
"""How often plain output has a line for each machine that measures."""


def said_of(words: Sequence[str]) -> str:
    """Returns verdicts in short: `1 slower, 2 same, 1 unclear`."""
    counts = Counter(words)
    return ", ".join(
        f"{counts[word]} {word}" for word in ("slower", "faster", "same", "unclear") if counts[word]
    )


class Lines:
    """Lines of text, as things happen."""

    def __init__(self, say: Callable[[str], None], words: Callable[[], Words]) -> None:
        self.say, self._words = say, words
        self.dispatcher: Dispatcher | None = None
        self._told = time.monotonic()

    def machine(self, machine: Machine, event: str) -> None:
        match event:
            case "ready":
                qualification = getattr(machine.record, "qualification", None)
                sees = (
                    f", sees {qualification.seen:.1%}"
                    if qualification is not None and qualification.seen is not None
                    else ""
                )
                self.say(f"{machine.name}: ready{sees} ({machine.kind})")
            case "out":
                self.say(f"{machine.name}: takes no part: {machine.why}")
            case "gone":
                self.say(f"{machine.name}: lost: {machine.why}")

    def assignment(self, assignment: Assignment, event: str, machine: str, reason: str) -> None:
        match event:
            case "begins":
                begun = self.dispatcher.begun(assignment) if self.dispatcher else 1
                again = f", attempt {begun}" if begun > 1 else ""
                about = f", about {clock(assignment.seconds)}" if assignment.seconds else ""
                self.say(f"{machine}: {assignment} begins{again}{about}")
            case "found":
                self.say(f"{assignment}: goes on since an earlier start")
            case "home":
                words = said_of(self._words().get(assignment.workload, ()))
                self.say(f"{machine}: {assignment} is home{f'; so far {words}' if words else ''}")
            case "again":
                self.say(f"{assignment} begins again elsewhere: {machine}: {reason}")
            case "failed":
                self.say(f"{assignment} FAILED: {reason}")
            case "waits":
                self.say(f"{assignment} waits: {reason}")

    def refresh(self, machines: Sequence[Machine]) -> None:
        if time.monotonic() - self._told < EVERY_SECONDS:
            return
        self._told = time.monotonic()
        for machine in machines:
            if machine.state == "measuring" and machine.assignment is not None:
                self.say(f"  {machine.name}: {machine.assignment}: {machine.doing}")
        if left := campaign_seconds_left(self.dispatcher, machines):
            self.say(f"  about {clock(left)} left")


def campaign_seconds_left(dispatcher: Dispatcher | None, machines: Sequence[Machine]) -> float:
    """Returns the seconds until all is done, by the estimates of the plan."""
    if dispatcher is None:
        return 0.0
    now = time.monotonic()
    running = [
        max(0.0, machine.assignment.seconds - (now - machine.since))
        for machine in machines
        if machine.assignment is not None
    ]
    usable = sum(machine.state in ("ready", "measuring", "arriving") for machine in machines)
    rest = forecast(dispatcher.waiting, max(1, usable)).seconds
    # Those that measure are free only later: their time is shared among all.
    return max([rest + sum(running) / max(1, usable), *running])


class JsonLines:
    """The same for scripts: one JSON object in each line of standard output."""

    def __init__(self, words: Callable[[], Words]) -> None:
        self._words = words
        self.dispatcher: Dispatcher | None = None
        self._told = 0.0

    def say(self, text: str) -> None:
        print_json_line(event="text", text=text)

    def machine(self, machine: Machine, event: str) -> None:
        print_json_line(
            event=f"machine-{event}",
            machine=machine.name,
            address=machine.address,
            kind=machine.kind,
            reason=machine.why,
        )

    def assignment(self, assignment: Assignment, event: str, machine: str, reason: str) -> None:
        print_json_line(
            event=f"comparison-{event}",
            workload=assignment.workload,
            repeat=assignment.repeat,
            machine=machine,
            attempt=self.dispatcher.begun(assignment) if self.dispatcher else 0,
            reason=reason,
            verdicts=dict(Counter(self._words().get(assignment.workload, ()))),
        )

    def refresh(self, machines: Sequence[Machine]) -> None:
        if time.monotonic() - self._told < EVERY_SECONDS:
            return
        self._told = time.monotonic()
        print_json_line(
            event="progress",
            seconds_left=round(campaign_seconds_left(self.dispatcher, machines)),
            machines=[
                {
                    "machine": machine.name,
                    "state": machine.state,
                    "workload": machine.assignment.workload if machine.assignment else None,
                    "repeat": machine.assignment.repeat if machine.assignment else None,
                    "doing": machine.doing,
                }
                for machine in machines
            ],
        )


def print_json_line(**event: object) -> None:
    """Prints an object as JSON in a single line of standard output."""
    print(json.dumps(event, ensure_ascii=False), flush=True)


class LiveLines(Lines):
    """Lines of text above, and below them one for each machine, which changes."""

    def __init__(self, console: Console, words: Callable[[], Words], head: str) -> None:
        super().__init__(plain_lines(console), words)
        self._head, self._machines = head, list[Machine]()
        self._live = Live(console=console, refresh_per_second=2, transient=True, get_renderable=self._render)

    @contextmanager
    def on_screen(self) -> Iterator[None]:
        with self._live:
            yield

    def refresh(self, machines: Sequence[Machine]) -> None:
        self._machines = list(machines)

    def _render(self) -> Group:
        grid = Table.grid(padding=(0, 2))
        for machine in sorted(self._machines, key=lambda machine: machine.name):
            words = said_of(self._words().get(machine.assignment.workload, ())) if machine.assignment else ""
            what = str(machine.assignment) if machine.assignment else machine.state
            grid.add_row(
                Text(machine.name, style="bold"),
                Text(what),
                Text(
                    machine.doing if machine.state != "out" else machine.why,
                    overflow="ellipsis",
                    no_wrap=True,
                ),
                Text(words, style="dim"),
            )
        left = "waiting for machines"
        if self._machines:
            seconds = campaign_seconds_left(self.dispatcher, self._machines)
            left = f"about {clock(seconds)} left" if seconds else ""
        return Group(grid, Text(f"{self._head}  {left}", style="dim"))


Watching = Lines | JsonLines


@contextmanager
def watching(
    console: Console, words: Callable[[], Words], *, as_json: bool, dashboard: str
) -> Iterator[Watching]:
    """Yields the display that fits: JSON where it was asked for, live lines on a terminal, plain lines
    elsewhere."""
    if as_json:
        yield JsonLines(words)
    elif console.is_terminal and not console.is_dumb_terminal:
        live = LiveLines(console, words, f"dashboard {dashboard}" if dashboard else "")
        with live.on_screen():
            yield live
    else:
        yield Lines(plain_lines(console), words)


__all__ = ["JsonLines", "Lines", "Watching", "print_json_line", "said_of", "watching"]

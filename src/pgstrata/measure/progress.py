"""What a campaign says while it runs: one live block on a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.plan.stages import units_of
from pgstrata.driver.events import Second
from pgstrata.measure.pace import Pace
from pgstrata.numbers import clock, quantity
from pgstrata.store.record import StepRecord
from pgstrata.units import parse_unit, rate_of
from pgstrata.workload.core.language import Headline, Step

SOONER = 0.8
"""Verdicts that come sooner than this share of the longest time are worth a word of their own."""

HEARTBEAT_SECONDS = 10.0
"""Plain output says this often that a long step is alive."""


class Progress(Protocol):
    """What the conductor reports. `second` gets the driver's event, `step_ended` the step record, and the
    rate that belongs to the ratio to the base where that is another one than the record's.

    Runs begin and end together where they take turns. number: from 1; total: how many runs or comparisons
    there are; failed: those that failed, and why; seconds: by the clock, of all of them together.
    """

    def say(self, text: str) -> None: ...
    def runs_begin(self, runs: Sequence[PlannedRun], number: int, total: int) -> None: ...
    def runs_ended(self, failed: Sequence[tuple[PlannedRun, str]], seconds: float) -> None: ...
    def phase(self, name: str, seconds: float | None = None) -> None: ...
    def step_begins(self, step: Step) -> None: ...
    def round_begins(self, number: int, variant: str) -> None: ...
    def second(self, event: Second) -> None: ...
    def step_ended(self, record: StepRecord, rate: float | None = None) -> None: ...


def plain_lines(console: Console) -> Callable[[str], None]:
    """Prints texts as they are, each on lines of its own: brackets in what a server says are no markup."""
    return lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)


def rate_meanwhile(headline: Headline, event: Second) -> float:
    """Returns the rate of one second of a step by the clock; 0 where its role did nothing."""
    counted = sum(getattr(role, headline.counts) for role in event.roles if role.name == headline.role)
    return rate_of(counted * headline.factor, max(event.seconds, 1e-9), headline.unit)


def unit_meanwhile(headline: Headline) -> str:
    """Returns the unit of such a rate: the time that operations take is known at the end."""
    note = parse_unit(headline.unit).note
    return headline.unit.removesuffix(f" {note}") if headline.busy and note else headline.unit


def has_rate_meanwhile(step: Step) -> bool:
    """Returns whether single seconds have a rate: not where the step is one transaction, which counts at its
    end."""
    single = any(r.name == step.headline.role and r.operations == 1 for r in step.roles)
    return step.headline.fixed is None and not single


def seconds_left(step: Step, at: float, done: int) -> float | None:
    """Returns the seconds until a step ends, `at` seconds after its begin with `done` operations of the
    headline's role; None if not known."""
    if step.seconds is not None:
        return max(0.0, step.seconds - at)
    role = next(role for role in step.roles if role.name == step.headline.role)
    if role.operations and done and at > 0:
        return max(0.0, (role.operations * role.clients - done) * at / done)
    if step.estimated_seconds and step.estimated_seconds > at:
        return step.estimated_seconds - at
    return None


def step_line(record: StepRecord, rate: float | None = None) -> str:
    """Returns a step as a single line: name, rate, seconds, and whether its writers kept up. rate: in the
    place of the record's."""
    rate = record.rate if rate is None else rate
    shown = "no rate" if rate is None else quantity(rate, record.rate_unit)
    line = f"{record.name:<10} {shown:>28}"
    line += f"  {record.seconds:8.1f} s"
    if record.sla_met is False:
        line += (
            f"  SLA missed: {record.background_rate:,.0f} of "
            f"{record.target_rate:,.0f} rows/s written behind it"
        )
    return line


class PlainProgress:
    """One line for each step, and a sign of life every ten seconds of a long one."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self._console = console
        self._pace = Pace(units_of(plan))
        self._bound = plan.bound
        self._repeats = len({run.key.repeat for run in plan.missing}) > 1
        self._step: Step | None = None
        self._said = 0.0
        self._measured = 0.0
        self._is_alone = True

    def say(self, text: str) -> None:
        plain_lines(self._console)(text)

    def runs_begin(self, runs: Sequence[PlannedRun], number: int, total: int) -> None:
        self._pace.begin(number - 1)
        self._measured = 0.0
        self._is_alone = len(runs) == 1
        key = runs[0].key
        what = f"run {number} of {total}: {key.variant}"
        if len(runs) > 1:
            *others, last = (run.key.variant for run in runs)
            what = f"comparison {number} of {total}: {', '.join(others)} and {last} take turns"
        repeat = f", repeat {key.repeat}" if self._repeats else ""
        self.say(f"{what}, {key.workload}{repeat} ({self._left()})")

    def runs_ended(self, failed: Sequence[tuple[PlannedRun, str]], seconds: float) -> None:
        self._pace.end()
        # One that has left a comparison was said to, with the reason.
        for run, error in failed if self._is_alone else ():
            self.say(f"  {run.key.variant} FAILED: {error}")
        measured = f", {clock(self._measured)} of it measured in turns" if self._measured else ""
        self.say(f"  {'ended after' if failed else 'done in'} {clock(seconds)}{measured}")

    def _left(self) -> str:
        soon, late = self._pace.left_as_before(), self._pace.left()
        if soon < SOONER * late:
            return f"{clock(soon)} left if steps end as soon as so far, {self._bound} {clock(late)}"
        return f"{self._bound} {clock(late)} left"

    def phase(self, name: str, seconds: float | None = None) -> None:
        if seconds is not None and seconds >= HEARTBEAT_SECONDS:
            self.say(f"  {name}, up to {clock(seconds)}")

    def step_begins(self, step: Step) -> None:
        self._pace.step_begins(step.name)
        self._step, self._said = step, time.monotonic()

    def round_begins(self, number: int, variant: str) -> None:
        """Reports that a whole step begins again, of one variant."""
        now = time.monotonic()
        if self._step is not None and now - self._said >= HEARTBEAT_SECONDS:
            self._said = now
            self.say(f"  {self._step.name:<10} … round {number}, {variant}")

    def second(self, event: Second) -> None:
        now = time.monotonic()
        if self._step is None or now - self._said < HEARTBEAT_SECONDS:
            return
        self._said = now
        rate = rate_meanwhile(self._step.headline, event)
        limit = "at most " if self._bound != "about" else ""
        # Statements that are longer than their slice take a step beyond its time.
        within = self._step.seconds is not None and event.second < self._step.seconds
        of = f" of {limit}{self._step.seconds:.0f}" if within else ""
        shown = (
            f", {quantity(rate, unit_meanwhile(self._step.headline))}"
            if has_rate_meanwhile(self._step)
            else ""
        )
        self.say(f"  {self._step.name:<10} … {event.second + 1}{of} s{shown}; {self._left()}")

    def step_ended(self, record: StepRecord, rate: float | None = None) -> None:
        self._pace.step_ended(record.seconds)
        if record.slices:
            self._measured += record.seconds
        self._step = None
        self.say(f"  {step_line(record, rate)}")


class LiveProgress(PlainProgress):
    """The same lines above, and below them two that change: where the campaign is, what runs now."""

    def __init__(self, console: Console, plan: Plan) -> None:
        super().__init__(console, plan)
        self._where = ""
        self._what = ""
        self._until: float | None = None
        self._done = 0
        self._live = Live(console=console, refresh_per_second=2, transient=True, get_renderable=self._render)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._live.stop()

    def _render(self) -> Group:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text(self._where, style="bold"), Text(self._left(), style="dim"))
        what = self._what
        if self._until is not None:
            what += f", {clock(self._until - time.monotonic())} to go"
        return Group(grid, Text(f"  {what}"))

    def runs_begin(self, runs: Sequence[PlannedRun], number: int, total: int) -> None:
        super().runs_begin(runs, number, total)
        variants, key = " · ".join(run.key.variant for run in runs), runs[0].key
        self._where = f"[{number}/{total}] {variants} · {key.workload} · repeat {key.repeat}"

    def phase(self, name: str, seconds: float | None = None) -> None:
        self._what = name
        self._until = None if seconds is None else time.monotonic() + seconds

    def step_begins(self, step: Step) -> None:
        super().step_begins(step)
        self._what = f"{step.name}: connecting"
        self._done = 0
        self._until = None

    def round_begins(self, number: int, variant: str) -> None:
        if self._step is not None:
            self._what, self._until = f"{self._step.name}: round {number}, {variant}", None

    def second(self, event: Second) -> None:
        if (step := self._step) is None:
            return
        at = event.second + event.seconds
        self._what = f"{step.name}: {at:.0f} s"
        if has_rate_meanwhile(step):
            self._what += f", {quantity(rate_meanwhile(step.headline, event), unit_meanwhile(step.headline))}"
        self._done += sum(r.operations for r in event.roles if r.name == step.headline.role)
        left = seconds_left(step, at, self._done)
        self._until = None if left is None else time.monotonic() + left


@contextmanager
def progress_on(console: Console, plan: Plan) -> Iterator[PlainProgress]:
    """Yields the progress that fits the console: live on a terminal, plain lines otherwise."""
    if console.is_terminal and not console.is_dumb_terminal:
        with LiveProgress(console, plan) as live:
            yield live
    else:
        yield PlainProgress(console, plan)

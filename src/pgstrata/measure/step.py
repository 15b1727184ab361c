"""One step: the driver makes the load, StepWatch sees what it costs, a step record comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from msgspec import structs

from pgstrata import numbers
from pgstrata.driver.client import Driver, driver_failure
from pgstrata.driver.events import (
    Done,
    Failure,
    Measuring,
    Ready,
    Second,
    SliceEnded,
    StatementDone,
    Stretch,
)
from pgstrata.driver.message import GivenSlices
from pgstrata.driver.spec import Connection, EngineChoice, FrozenSpec, Spec, WindowsSpec
from pgstrata.errors import DriverError
from pgstrata.files import digests
from pgstrata.measure.placement import pin
from pgstrata.measure.step_records import sends_nothing, step_record
from pgstrata.observe import StepObserved, StepWatch
from pgstrata.observe.profile import Profile, Profiler
from pgstrata.store.record import StepRecord
from pgstrata.workload.core.language import Step


def step_seed(seed: int, repeat: int, order: int, name: str) -> int:
    """Returns the seed of a single step: the same for every variant, another for every step and repeat.

    Were it the same for every step, the point queries of one would read what those of the step
    before it left in the cache.
    """
    text = f"{seed}/{repeat}/{order}/{name}"
    return int(digests.of(text)[:12], 16)


@dataclass
class StepResult:
    """What one step, or one part of it, gave. `error` says why it ended before its time; the rest is until
    then. `number`: of the part, from 1; 0 of a step in one piece.

    `ready`, `done`: the driver's events, from which the slices of a step are put together.
    """

    record: StepRecord
    seconds: list[Second]
    histograms: dict[str, str]
    observed: StepObserved
    ready: Ready
    done: Done
    statements: list[StatementDone] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    error: DriverError | None = None
    number: int = 0


def driver_spec(
    step: Step,
    connection: Connection,
    seed: int,
    engine: EngineChoice,
    *,
    apart: Mapping[str, Connection] = MappingProxyType({}),
    results_dir: str | None = None,
    turns: WindowsSpec | FrozenSpec | GivenSlices | None = None,
    local: bool = False,
) -> Spec:
    """Returns the whole spec: what the step says of itself, and where and how it runs.

    apart: of roles whose connections lead elsewhere. local: backends are processes of this machine. engine:
    `auto` is `blocking` where rows are kept. A thread of its own keeps them before its next query's clock
    starts; one that serves many connections would keep them while the clocks of the others run.
    """
    if engine == "auto" and results_dir is not None:
        engine = "blocking"
    spec = step.spec()
    roles = [structs.replace(role, connection=apart.get(role.name)) for role in spec.roles]
    return Spec(
        **structs.asdict(structs.replace(spec, roles=roles)),
        connection=connection,
        seed=seed,
        engine=engine,
        results_dir=results_dir,
        windows=turns if isinstance(turns, WindowsSpec) else None,
        frozen=turns if isinstance(turns, FrozenSpec) else None,
        slices=isinstance(turns, GivenSlices),
        local=local,
        overtime_seconds=step.overtime,
    )


def measure(
    step: Step,
    order: int,
    spec: Spec,
    watch: StepWatch,
    *,
    on_second: Callable[[Second], None] = lambda event: None,
    on_stretch: Callable[[Stretch | SliceEnded], None] = lambda event: None,
    profiler: Callable[[Mapping[str, Sequence[int]]], Profiler] | None = None,
    cpus: Sequence[int] = (),
    begin: Callable[[Driver], None] = Driver.start,
    pin_backends: Sequence[int] = (),
) -> StepResult:
    """Runs one step to its end and observes it. profiler: makes one for the backends of each role; cpus: the
    only ones the driver uses; begin: starts a driver that is ready; pin_backends: the only CPUs that the
    backends of its connections use, empty: those of the server.

    Raises DriverError where nothing was measured; an error in the middle is in `StepResult.error`.
    """
    seconds: list[Second] = []
    statements: list[StatementDone] = []
    error: DriverError | None = None
    done: Done | None = None
    unix_time, begun, cut_after = time.time(), time.monotonic(), 0.0
    profile = _Profiling(profiler)
    try:
        with Driver(spec, cpus=cpus) as driver:
            ready = driver.ready()
            pids = {role.name: role.pids for role in ready.roles}
            if pin_backends:
                pin((pid for of_role in pids.values() for pid in of_role), pin_backends)
            watch.before(pids)
            profile.prepare(pids)
            begin(driver)
            for event in driver.events():
                match event:
                    case Measuring():
                        watch.begin()
                        profile.start()
                        unix_time, begun = event.unix_time, time.monotonic()
                    case Second():
                        seconds.append(event)
                        on_second(event)
                    case Stretch() | SliceEnded():
                        on_stretch(event)
                    case StatementDone():
                        statements.append(event)
                    case Failure():
                        error = driver_failure(event)
                        cut_after = time.monotonic() - begun
                    case Done():
                        watch.end()
                        profile.stop()
                        done = event
            driver.close()
        # Backends report the last of their statistics when they end: the connections are closed now.
        observed = watch.after()
    finally:
        profile.stop()
        watch.close()
    assert done is not None  # events() raises where it does not come
    if error is not None and not done.seconds:
        # The driver's clock stops with the last transaction that ended, and here none did.
        done = structs.replace(done, seconds=round(cut_after, 3))
    if error is None and sends_nothing(done) and any(role.transactions for role in done.roles):
        error = DriverError(
            "no statement was sent, so there is no rate",
            "a script does something to be measured: see what its conditions leave of it",
        )
    if error is None and step.reads_only and observed.changed_rows:
        table, rows = next(iter(observed.changed_rows.items()))
        # Of a captured file nobody has said it: its statements are known to, by what they look like.
        instead = "leave reads_only out" if step.replay is None else "capture it without --reads-only"
        error = DriverError(
            f"it was said to read only, and has changed {numbers.counted(rows, 'row')} of {table}",
            f"what comes after it would read other data: {instead}",
        )
    begun = time.monotonic()
    profiles = profile.finish()
    observed.observe_seconds += time.monotonic() - begun
    observed.notes += profile.notes
    record = step_record(step, order, ready, unix_time, seconds, done, observed)
    if error is not None:
        record = structs.replace(record, error=error.message)
    histograms = {role.name: role.histogram for role in done.roles}
    return StepResult(record, seconds, histograms, observed, ready, done, statements, profiles, error)


class _Profiling:
    """A profiler whose troubles are notes: observing never ends a run."""

    def __init__(self, make: Callable[[Mapping[str, Sequence[int]]], Profiler] | None) -> None:
        self._make = make
        self._profiler: Profiler | None = None
        self.notes: list[str] = []

    def prepare(self, pids: Mapping[str, Sequence[int]]) -> None:
        if self._make is not None:
            self._try(lambda make=self._make: self._begin(make(pids)))  # type: ignore[misc]

    def start(self) -> None:
        if self._profiler is not None:
            self._try(self._profiler.start)

    def stop(self) -> None:
        if self._profiler is not None:
            self._try(self._profiler.stop)

    def finish(self) -> list[Profile]:
        profiles: list[Profile] = []
        if self._profiler is not None:
            finish = self._profiler.finish
            self._try(lambda: profiles.extend(finish()))
        return profiles

    def _begin(self, profiler: Profiler) -> None:
        self._profiler = profiler
        profiler.prepare()

    def _try(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:
            note = f"no profile: {type(error).__name__}: {error}"
            self._profiler, profiler = None, self._profiler
            if profiler is not None:
                with suppress(Exception):
                    profiler.stop()
            self.notes.append(note)

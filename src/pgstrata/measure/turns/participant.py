"""One variant of a comparison while it is measured, and when enough is known of all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from pgstrata.driver.events import SqlError, StatementDone
from pgstrata.errors import PgstrataError, ServerError
from pgstrata.judge.disturbance import LEFT_OUT
from pgstrata.judge.pairs import disturbed_pairs, left_out, pairs_of, ratio_of
from pgstrata.judge.recall import FACT as RECALL
from pgstrata.judge.statements import Executions, RoundKey, Rounds, enough_known
from pgstrata.judge.times import TimesSide, judge_times, part_of
from pgstrata.measure.measurement import Part, StepMeasurement, cut_short
from pgstrata.measure.run.active import DATABASE, ActiveRun
from pgstrata.measure.step import StepResult
from pgstrata.measure.turns.connected import waited_share
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.stats import sequential
from pgstrata.stats.criterion import Criterion
from pgstrata.store.histogram import Histogram
from pgstrata.store.kept import KeptData
from pgstrata.store.record import Slice, TurnKind
from pgstrata.store.statement import statement_of
from pgstrata.workload.core.language import Op, Phase, Refine, Script, Sql, Step

MOST_ENDED = 10
"""Queries of a pass that end their connection, or crash their server, and are left out."""

RECOVERY_SECONDS = 60.0
"""How long a server that has crashed may take until it accepts connections again."""


class Participant:
    """One variant of the comparison: how far its run is, its slices of the present step, and why it left.

    Every method that measures or prepares raises PgstrataError where the variant cannot go on; StoreError is
    of the results and ends all.
    """

    def __init__(self, run: ActiveRun) -> None:
        assert isinstance(run.cluster, Cluster)  # check_interleaved refuses others
        self.run, self.cluster = run, run.cluster
        self.turns: TurnKind | None = None
        self.slices: list[Slice] = []
        self.blocks: list[int] = []
        self.span: float | None = None
        self.slice_seconds: float | None = None
        self.cpus: set[int] = set()
        self.one_start = False
        """These seven are as in the step record, of the present step."""
        self.measurement: StepMeasurement | None = None
        self._times: list[Histogram | None] = []
        self.error: PgstrataError | None = None
        self._log_tail = ""
        self._at = 0
        self._order = 0

    @property
    def label(self) -> str:
        return self.run.planned.key.variant

    @property
    def phase(self) -> Phase | None:
        """What comes next; None at the end."""
        return self.run.phases[self._at] if self._at < len(self.run.phases) else None

    # --- before the first measured step -------------------------------------------------------

    def load(self, phases: int) -> None:
        """Makes the cluster and does its first phases, which make the data; the server is stopped then."""
        self.run.start()
        self.run.create_database()
        self.run.keep_settings()
        while self._at < phases:
            if isinstance(self.phase, Step):
                self.step_alone()
            else:
                self.prepare()
        self.cluster.stop("fast")

    def adopt(self, donor: Participant) -> None:
        """Makes the cluster from a copy of the donor's data, which is stopped."""
        self.run.start(donor.cluster.data_folder.path)
        self.run.keep_settings()
        self.cluster.stop("fast")
        self.run.adopt(donor.run)
        self._at = donor._at

    def adopt_kept(self) -> bool:
        """Makes the cluster from data that is kept; False where there is none."""
        if not self.run.start_loaded():
            return False
        self.run.keep_settings()
        self.cluster.stop("fast")
        self._at, _ = self.run.begins_at
        return True

    def keep_loaded(self) -> None:
        """Keeps the data where all of it has just been loaded."""
        self.run.keep_loaded(self._at)

    def prepare(self) -> None:
        """Executes the next phase, which is no step."""
        phase = self.phase
        assert phase is not None and not isinstance(phase, Step)
        self.run.prepare(phase)
        self._at += 1

    def refine(self, clients: int | None) -> None:
        """Adds a point with this number of clients to the curve that has been measured; None: it is whole."""
        phase = self.phase
        assert isinstance(phase, Refine)
        if clients is None:
            self._at += 1
        else:
            self.run.add_point(self._at, phase, clients)

    def step_alone(self) -> None:
        """Executes the next step, which is no comparison: a load, or a step that records its queries one by
        one."""
        step = self._next_step()
        self.run.step(step, self._order, last=self.phase is None)

    def measure_once(self, rows: ExitStack) -> None:
        """Executes the next step, which is measured in one piece and stored by `store_once`: work done on the
        same servers meanwhile belongs to it. rows: removes its rows of recorded statements."""
        step = self._next_step()
        self.run.interrupts.check()
        self.run.progress.step_begins(step)
        measurement = self.run.measurement(step, self._order, last=self.phase is None)
        self.measurement = rows.enter_context(measurement)
        result = measurement.measure(Part(step), self.run.progress.second)
        ended: list[StatementDone] = []
        while (query := _connection_ended_in(step, result)) is not None and len(ended) < MOST_ENDED:
            # The query is left out, and the pass begins again: what it measured until then is not the whole.
            ended.append(query)
            self.accepts_connections()
            measurement.parts.pop()
            step = _without(step, query.name)
            result = measurement.measure(Part(step), self.run.progress.second)
        result.statements += ended
        if result.error is not None:
            self.store_once()

    def accepts_connections(self) -> None:
        """Waits until the server accepts connections: where one of its processes has crashed, it ends all
        others and recovers. Raises ServerError where it does not."""
        until = time.monotonic() + RECOVERY_SECONDS
        while True:
            try:
                self.cluster.connect(DATABASE).close()
                return
            except ServerError:
                if self.cluster.postmaster.pid is None or time.monotonic() > until:
                    raise
            self.run.interrupts.check()
            time.sleep(0.1)

    def store_once(self) -> None:
        """Stores what `measure_once` has measured, also of a variant that failed. Raises DriverError where
        the step was cut short."""
        measurement, self.measurement = self.measurement, None
        if measurement is not None and measurement.parts:
            self.run.store(measurement, reachable=self.error is None)

    def once(self) -> Sequence[StatementDone]:
        """Returns the statements that the driver recorded in the present step where it is measured in one
        piece."""
        parts = self.measurement.parts if self.measurement is not None else []
        return [statement for part in parts for statement in part.statements]

    def take(self, kept: KeptData) -> None:
        """Takes over the next step, which an earlier attempt has finished."""
        self._next_step()
        self.run.take(kept)

    # --- a step at which variants take turns --------------------------------------------------

    @property
    def step(self) -> Step:
        """The present step, as this variant does it."""
        assert self.measurement is not None
        return self.measurement.step

    def begin(self, parts: int, turns: TurnKind) -> None:
        """Begins the next step, which will be measured in this number of parts at least."""
        self.turns, self.slices, self.blocks, self.span, self.cpus = turns, [], [], None, set()
        self.slice_seconds, self.one_start = None, False
        self._times = []
        self.measurement = self.run.measurement(self._next_step(), self._order, parts=parts)

    def measure(self, step: Step, pair: int) -> None:
        """Measures a single slice, or the whole step. step: as long as this part."""
        assert self.measurement is not None
        result = self.measurement.measure(Part(step, pair))
        if result.error is not None:
            raise cut_short(step, result.error)
        record = result.record
        # A slice may be too short for any statement to end in it.
        rate = record.rate or 0.0
        waited = self._waited(result)
        self.slices.append(
            Slice(
                pair=pair,
                started=record.started,
                seconds=record.seconds,
                rate=rate,
                waited=waited,
                other_load=self._other_load(result) if waited is None else None,
            )
        )

    def _waited(self, result: StepResult) -> float | None:
        """Returns the share of a slice in which its backends waited for a CPU that other programs had."""
        record, waited = result.record, result.observed.waited_seconds
        if waited is None or record.server_cpu_seconds is None or self.run.settings.other_load >= 1:
            return None
        clients = sum(role.clients for role in record.roles.values())
        ran = record.server_cpu_seconds + record.driver_cpu_seconds
        return waited_share((ran, waited), record.seconds * clients, clients, len(os.sched_getaffinity(0)))

    def _other_load(self, result: StepResult) -> float | None:
        """Returns the share of the CPUs that other programs used meanwhile; None where any share is
        allowed."""
        load, limit = result.observed.load, self.load_limit
        return None if load is None or limit >= 1 else load.record(limit).other_load

    def disturbed_rounds(self, base: Participant) -> set[RoundKey]:
        """Returns the rounds of the present step in which other programs disturbed one of the two."""
        return {("", 1, pair) for pair in disturbed_pairs(base, self)}

    @property
    def load_limit(self) -> float:
        """Share of the CPUs that other programs may use (`other_load` of the campaign)."""
        return self.run.settings.other_load

    def measure_slice(self, step: Step, pair: int) -> None:
        """Measures a single slice and waits for the replica, so that the next participant finds it idle."""
        self.measure(step, pair)
        self.cluster.standbys.await_replayed()

    def measure_round(self, step: Step, pair: int) -> None:
        """Measures the whole step, from the snapshot of the cluster."""
        if step.recovery is None:
            self.restored()
        self.measure(step, pair)
        self.cluster.stop("fast")

    def restored(self) -> None:
        """Restores the snapshot's data and starts the server with it."""
        # Also before the first round: data that has just been copied is cached as it is in every later one.
        with self.run.timings.of("restore"):
            self.cluster.restore()
        self.cluster.start()

    def ratio_to(self, base: Participant) -> float | None:
        """Returns how many times as fast as the base this variant is at the present step, as the page will
        say it; None where pairs do not tell."""
        settings, drawn = self.run.settings, self.run.facts.get(RECALL, {})
        if self.measurement is None or base.measurement is None or self.measurement.step.name in drawn:
            return None
        return ratio_of(base, self, Criterion(settings.margin), watched=settings.until == "verdict")

    def store(self, ratio: tuple[float, float] | None = None) -> float | None:
        """Puts what was measured of the step together and stores it, also of a variant that failed; returns
        its rate. ratio: as of `ActiveRun.store`."""
        rate = None
        if self.measurement is not None and self.measurement.parts:
            rate = self.run.store(self.measurement, self, reachable=self.error is None, ratio=ratio)
        self.measurement, self.turns, self.slices, self.blocks, self.span = None, None, [], [], None
        self.slice_seconds, self.cpus, self.one_start = None, set(), False
        return rate

    def rounds(self) -> Rounds:
        """Returns the executions of each statement of a replay in the present step; empty for other steps."""
        parts = self.measurement.parts if self.measurement is not None else []
        return {
            ("", 1, part.number): {
                statement_of(totals): Executions(totals.count, totals.errors, totals.seconds_total)
                for role in part.done.roles
                if role.replay is not None
                for totals in role.statements_by_name
            }
            for part in parts
        }

    def times(self) -> TimesSide:
        """Returns the response times of the parts of the present step; each part is read once."""
        parts = self.measurement.parts if self.measurement is not None else []
        for part in parts[len(self._times) :]:
            roles = (role for second in part.seconds for role in second.roles)
            self._times.append(part_of([role.histogram for role in roles if role.name == part.record.role]))
        return TimesSide(self, self._times)

    def _next_step(self) -> Step:
        step = self.phase
        assert isinstance(step, Step)
        self._at += 1
        self._order = self.run.order_of(step)
        return step

    # --- the end ------------------------------------------------------------------------------

    def leave(self, error: PgstrataError) -> None:
        """Takes a failed participant out of the comparison; its server is stopped."""
        self.error, self._log_tail = self.run.explained(error)
        self.run.progress.say(f"  {self.label} FAILED and leaves the comparison: {self.error.message}")
        with self.run.interrupts.shield():
            self.cluster.stop("immediate")

    def take_down(self) -> None:
        """Ends the server and removes its data; for every end, also an interrupt."""
        with self.run.timings.of("stop"):
            with suppress(ServerError):
                self.cluster.data_folder.drop_snapshot()
            self.run.take_down()

    def finish(self) -> tuple[Path, str | None]:
        """Writes the run. Returns its folder, and why it failed or None. Raises StoreError."""
        folder = self.run.finish(self.error, self._log_tail)
        return folder, self.error.message if self.error else None


def _connection_ended_in(step: Step, result: StepResult) -> StatementDone | None:
    """Returns the recorded query in which the connection of a pass ended, as if the server had rejected it;
    None where it ended otherwise, or the queries are not executed alone."""
    error = result.error
    if error is None or error.kind != "connection" or step.single is None:
        return None
    names = [op.name for op in _ops(step) if isinstance(op, Sql)]
    if len(result.statements) >= len(names):
        return None
    return StatementDone(
        role=step.headline.role,
        client=0,
        name=names[len(result.statements)],
        start=0.0,
        seconds=0.0,
        planning_seconds=None,
        rows=0,
        error=SqlError(
            sqlstate=error.sqlstate or CONNECTION_FAILURE,
            message=f"it ends its connection: {error.server_message or error.message}",
        ),
        result=None,
    )


CONNECTION_FAILURE = "08006"


def _ops(step: Step) -> Sequence[Op]:
    (script,) = step.roles[0].scripts
    return script.ops if isinstance(script, Script) else ()


def _without(step: Step, name: str) -> Step:
    """Returns the same step without the executions of a query."""
    ops = [op for op in _ops(step) if not (isinstance(op, Sql) and op.name == name)]
    return replace(step, roles=[replace(step.roles[0], scripts=[Script(*ops)])])


def known(
    here: Sequence[Participant],
    base: str,
    margin: float,
    times: Sequence[str],
    times_margin: float,
) -> bool:
    """Returns whether every variant has its verdict on the present step against the base (against the first,
    without the base), on these response times, too, and of a replay every statement that weighs something has
    its own."""
    first = next((participant for participant in here if participant.label == base), here[0])
    for other in here:
        if other is first:
            continue
        out, pairs = left_out(first, other)
        if out > LEFT_OUT * pairs:
            return False
        if not sequential.look(*pairs_of(first, other), criterion=Criterion(margin), span=first.span).decided:
            return False
        if times:
            sides = [(first.times(), other.times())]
            verdicts = judge_times(times, sides, watched=True, criterion=Criterion(times_margin))
            if len(verdicts) < len(times) or not all(time.verdict.decided for time in verdicts):
                return False
    others = [other for other in here if other is not first]
    disturbed = {other.label: other.disturbed_rounds(first) for other in others}
    rounds = {other.label: other.rounds() for other in others}
    return enough_known(first.rounds(), rounds, Criterion(margin), disturbed)

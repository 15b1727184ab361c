"""A campaign as the machines of a fleet do it: who may take part, what each is asked, what comes of it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

import pgstrata
from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.recorded import as_planned
from pgstrata.campaign.plan.runs import Plan
from pgstrata.errors import StoreError, UsageError
from pgstrata.files import disk
from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.disk import storing
from pgstrata.files.ownership import read_small
from pgstrata.fleet import provision
from pgstrata.fleet.admission import asked, look_at, words_of
from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.home import ARRIVED, bring_home
from pgstrata.fleet.machine import driver_build
from pgstrata.fleet.portable import portable, wanted_specs
from pgstrata.fleet.qualify import step_minutes
from pgstrata.fleet.roles import Machine, RetryError, UnfitError
from pgstrata.fleet.tasks import (
    Compare,
    Install,
    Installed,
    Look,
    MeasuredRuns,
    Portable,
    Provide,
    Provided,
    Qualified,
    Qualify,
    SeenMachine,
    Unable,
    Wanted,
    decode_answer,
    encode,
)
from pgstrata.judge.compare import compare_all
from pgstrata.server.find.sources import is_source
from pgstrata.stats.criterion import Criterion
from pgstrata.store import Results, Run
from pgstrata.store.choose import Side
from pgstrata.store.read import read_run
from pgstrata.store.record import (
    MachineRecord,
    Qualification,
    RunFailure,
)

LIMIT_TIMES, LIMIT_SECONDS = 6.0, 1800.0
"""A comparison is ended after so many times its estimate and so many seconds more."""

QUALIFIED = "qualified.json"
"""In the results' folder of the fleet: what machines were found to see, so that a client that is started
again need not ask them again."""


class Known(msgspec.Struct, frozen=True):
    """A qualification that was made before, and of what."""

    fingerprint: str
    release: str
    qualification: Qualification


class CampaignJob:
    """Assignments of a plan. topic: under which machines tell how far they are.

    Raises UsageError where the campaign cannot travel.
    """

    def __init__(self, plan: Plan, results: Results, assignments: Sequence[Assignment], topic: str) -> None:
        self.plan, self._results, self._topic = plan, results, topic
        self.left = {assignment.id: assignment for assignment in assignments}
        """Those that are neither home nor failed."""
        self._spec = plan.campaign.spec.fleet
        self._check()
        self._portable: dict[str, Portable] = {
            chosen.label: portable(plan, chosen) for chosen in plan.campaign.workloads
        }
        self._any = next(iter(self._portable.values()))
        self._wanted = [Wanted(spec=spec, variant=number) for number, spec in wanted_specs(plan.variants)]
        self._provided: dict[tuple[str, int], Provided] = {}
        self._providing: dict[tuple[str, int], Machine] = {}
        self._driver = driver_build()
        self._place = results.root / ARRIVED
        self._mark = self._place / "mark"
        with storing("begin the campaign", results.root):
            self._place.mkdir(parents=True, exist_ok=True)
            self._mark.touch()
        self._known = self._read_known()
        self.folders: list[Path] = []
        self.failures: list[tuple[PlannedRun, str]] = []
        self._runs: dict[str, list[Run]] = {}
        for planned in plan.runs:
            if planned.existing is not None and isinstance(run := read_run(planned.existing), Run):
                self._runs.setdefault(planned.key.workload, []).append(run)
        self.words: dict[str, list[str]] = {}
        """By workload the verdicts so far, of every step and variant."""
        for workload in self._runs:
            self._judge(workload)
        self._changed = True

    def _check(self) -> None:
        campaign = self.plan.campaign
        if campaign.spec.count is not None:
            raise UsageError(
                "instructions are counted on one machine, not on a fleet",
                "leave `count` out, and run `pgstrata count` on one of them",
            )
        foreign = [variant.label for variant in self.plan.variants if not variant.server.managed]
        named = self._spec.machines
        if foreign and (len(named) != 1 or any(letter in named[0] for letter in "*?[")):
            raise UsageError(
                f"{foreign[0]} is a running server (dsn:), and which machine measures it is part of what is "
                "measured",
                'name that machine: [fleet] machines = ["its-name"]; `pgstrata fleet status` shows the names',
            )

    # --- who takes part -----------------------------------------------------------------------

    def admit(self, machine: Machine, others: Sequence[Machine]) -> Generator[bytes | None, Any, None]:
        """Raises UnfitError where the machine takes no part."""
        look = Look(
            data_dir=self.plan.campaign.spec.data_dir,
            servers=tuple(self._wanted),
            mark=str(self._mark.resolve()),
        )
        seen = yield from look_at(machine, others, look, self._driver, self._spec.machines)
        self._check_cpus(seen)
        for wanted in self._wanted:
            if wanted.travels:
                yield from self._serve(machine, seen, wanted)
        qualification = self._still_qualified(seen)
        if qualification is None:
            machine.doing = "is qualified, the base against itself"
            qualification = yield from self._qualify(machine)
            self._remember(seen, qualification)
        machine.record = MachineRecord(
            name=machine.name,
            kind=seen.kind,
            fingerprint=seen.fingerprint,
            qualification=qualification,
            trial=seen.trial,
        )

    def _check_cpus(self, seen: SeenMachine) -> None:
        spec = self.plan.campaign.spec
        for key, cpus in (("server_cpus", spec.server_cpus), ("driver_cpus", spec.driver_cpus)):
            if missing := sorted(set(cpus) - set(seen.cpus)):
                raise UnfitError(
                    f"`{key}`: it has no CPU {', '.join(map(str, missing))}; "
                    f"it has {', '.join(map(str, seen.cpus))}"
                )

    def _serve(
        self, machine: Machine, seen: SeenMachine, wanted: Wanted
    ) -> Generator[bytes | None, Any, None]:
        """Sees to it that a server is in the cache of a machine: made once for each kind."""
        key = (seen.kind, wanted.variant)
        if wanted.spec in seen.have and not is_source(wanted.spec):
            return
        while (maker := self._providing.get(key)) is not None and maker is not machine:
            if maker.state in ("out", "gone"):
                del self._providing[key]
                break
            machine.doing = f"waits for {wanted.spec} of {maker.name}"
            yield None
        if (provided := self._provided.get(key)) is not None:
            machine.doing = f"gets {provided.server.label}"
            answer = yield from asked(Install(server=provided))
            if not isinstance(answer, Installed):
                raise UnfitError(words_of(answer))
            return
        machine.doing = f"fetches or builds {wanted.spec}"
        self._providing[key] = machine
        try:
            tree = None
            if is_source(wanted.spec):
                campaign = self.plan.campaign
                tree = provision.packed_tree(wanted.spec, campaign.folder, lambda text: None)
            task = Provide(campaign=self._any, server=wanted, topic=self._topic, tree=tree)
            answer = yield from asked(task)
        finally:
            self._providing.pop(key, None)
        if not isinstance(answer, Provided):
            raise UnfitError(f"{wanted.spec}: {words_of(answer)}")
        self._provided[key] = answer

    def _servers(self, kind: str) -> tuple[Provided, ...]:
        """Returns the servers that a machine of a kind has, without their files."""
        return tuple(
            provision.without_files(provided)
            for (its, _), provided in sorted(self._provided.items(), key=lambda item: item[0])
            if its == kind
        )

    def _qualify(self, machine: Machine) -> Generator[bytes | None, Any, Qualification]:
        spec = self.plan.campaign.spec
        numbers_of = {variant.label: variant.number for variant in self.plan.variants}
        answer = yield from asked(
            Qualify(
                campaign=self._any,
                servers=self._servers(machine.kind),
                number=numbers_of[self.plan.base],
                seconds=self._spec.qualify_seconds,
                minutes=step_minutes(self.plan),
                margin=spec.margin,
                disk_bytes=max((run.disk_bytes for run in self.plan.missing), default=0),
                topic=self._topic,
            )
        )
        if not isinstance(answer, Qualified):
            raise UnfitError(words_of(answer))
        if answer.problem:
            raise UnfitError(answer.problem)
        return answer.qualification

    def _still_qualified(self, seen: SeenMachine) -> Qualification | None:
        known = self._known.get(seen.host)
        if known is None or (known.fingerprint, known.release) != (seen.fingerprint, pgstrata.__version__):
            return None
        qualification = known.qualification
        asked = (self.plan.campaign.spec.margin, step_minutes(self.plan))
        if (qualification.margin, qualification.minutes) != asked or self._is_over(qualification):
            return None
        return qualification

    def _is_over(self, qualification: Qualification) -> bool:
        age = datetime.now(UTC) - datetime.fromisoformat(qualification.at)
        return age > timedelta(hours=self._spec.qualify_hours)

    def _read_known(self) -> dict[str, Known]:
        try:
            return json_as(read_small(self._place / QUALIFIED).encode(), dict[str, Known])
        except (OSError, BoundError):
            return {}

    def _remember(self, seen: SeenMachine, qualification: Qualification) -> None:
        self._known[seen.host] = Known(seen.fingerprint, pgstrata.__version__, qualification)
        with storing("remember a qualification", self._place):
            disk.replace(self._place / QUALIFIED, msgspec.json.encode(self._known))

    # --- what they are asked ------------------------------------------------------------------

    def task(self, assignment: Assignment, machine: Machine, attempt: int) -> bytes:
        """Raises UnfitError where the machine's qualification is over."""
        record: MachineRecord = machine.record
        if record.qualification is None or self._is_over(record.qualification):
            raise UnfitError("its qualification is over")
        shared = self._place.resolve() / f"{assignment.id}-{attempt}.tar" if machine.shares else None
        if shared is not None:
            shared.unlink(missing_ok=True)
        return encode(
            Compare(
                campaign=self._portable[assignment.workload],
                servers=self._servers(machine.kind),
                repeat=assignment.repeat,
                machine=msgspec.structs.replace(record, attempt=attempt),
                limit=LIMIT_TIMES * assignment.seconds + LIMIT_SECONDS,
                topic=self._topic,
                shared=str(shared) if shared is not None else "",
            )
        )

    def arrived(self, assignment: Assignment, machine: str, answer: bytes) -> None:
        """Raises RetryError, ServerError for what cannot be used, StoreError."""
        reply = decode_answer(answer)
        if isinstance(reply, Unable):
            raise RetryError(words_of(reply), fault=reply.machine and not reply.ended)
        if not isinstance(reply, MeasuredRuns):
            raise RetryError(f"it answered with {type(reply).__name__}")
        try:
            runs = bring_home(self._results, assignment, reply.runs)
        except OSError as error:
            raise StoreError(f"{error.filename}: {error.strerror}") from error
        del self.left[assignment.id]
        self._came(assignment, runs)

    def _came(self, assignment: Assignment, runs: Sequence[Run]) -> None:
        planned = {run.key: run for run in assignment.runs}
        for run in runs:
            self.folders.append(run.folder)
            if run.record.status == "failed" and run.record.error is not None:
                error = run.record.error
                self.failures.append((planned[run.key], "; ".join(filter(None, (error.message, error.hint)))))
        old = [run for run in self._runs.get(assignment.workload, []) if run.repeat != assignment.repeat]
        self._runs[assignment.workload] = [*old, *runs]
        self._judge(assignment.workload)
        self._changed = True

    def failed(self, assignment: Assignment, reason: str) -> None:
        """Stores a failed run for every variant. Raises StoreError."""
        message = f"no machine of the fleet could measure it: {reason}"
        for planned in assignment.runs:
            if planned.unable:
                continue
            builder = self._results.begin(planned.key)
            failure = RunFailure(message=message, hint="the same command tries again", log_tail="")
            record = structs.replace(
                as_planned(self.plan.campaign, planned.variant, planned.workload), error=failure
            )
            self.folders.append(builder.finish(record))
            self.failures.append((planned, message))
        del self.left[assignment.id]

    # --- what is known of it ------------------------------------------------------------------

    def further(self, number: int) -> None:
        """Returns None: all are known from the start."""

    def earlier(self, id: str) -> None:
        """Returns None: all are known from the start."""

    def open_workloads(self) -> set[str] | None:
        if not self._changed:
            return None
        self._changed = False
        return {
            label for label in self._portable if not self.words.get(label) or "unclear" in self.words[label]
        }

    def _judge(self, workload: str) -> None:
        sides: dict[str, list[Run]] = {}
        for run in self._runs.get(workload, []):
            sides.setdefault(run.variant, []).append(run)
        base = sides.pop(self.plan.base, [])
        if not base or not sides:
            return
        others = [Side(label, tuple(runs)) for label, runs in sides.items()]
        criterion = Criterion(self.plan.campaign.spec.margin)
        comparisons = compare_all(Side(self.plan.base, tuple(base)), others, criterion=criterion)
        self.words[workload] = [step.verdict.word for comparison in comparisons for step in comparison.judged]


__all__ = ["CampaignJob", "Known"]

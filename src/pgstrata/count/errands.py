"""A count on the machines of a fleet: each server and workload is an errand of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console

from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.plan.model import PlannedRun, PlannedVariant
from pgstrata.campaign.plan.runs import Plan, make_plan
from pgstrata.campaign.study import CountSpec
from pgstrata.cli.machines import Machines
from pgstrata.count.measure.asked import AskedSteps
from pgstrata.count.measure.count import CountOutcome, check_managed, count_campaign
from pgstrata.errors import ServerError
from pgstrata.measure.errands import Errand, There, errand_id, understood_as
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.measure.run.cause import DISK_FULL
from pgstrata.server.find.lookup import look_up
from pgstrata.store import Results, Run
from pgstrata.store.counted import COUNTED
from pgstrata.store.names import RunKey

DOES = "count"

MOST_SECONDS = 12 * 3600.0
"""Longest time that counting one workload of one server may take."""


class _Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What travels beside the campaign. variant: label of the one that is counted; count: `[count]`."""

    variant: str
    count: dict[str, Any]


def count_there(there: There) -> bytes:
    """Counts one variant of a campaign on a machine of a fleet; its run is what goes home. Raises UsageError
    where nothing can count here, ServerError where the disk is full, StoreError, Interrupted."""
    with understood_as("count"):
        asked = msgspec.msgpack.decode(there.asked, type=_Asked)
        wanted = CountSpec.model_validate(asked.count)
        (campaign,) = there.campaigns
    campaign = campaign.model_copy(update={"spec": campaign.spec.model_copy(update={"count": wanted})})
    outcome = count_campaign(
        campaign, Results(there.results), there.console, fresh=True, only=asked.variant, find=there.find
    )
    for _, _, reason in outcome.failed:
        if reason.startswith(DISK_FULL):
            raise ServerError(reason)
    return b""


class CountErrands:
    """The counts of a campaign that are missing. Raises UsageError for steps that are not there."""

    does = DOES
    most_seconds = MOST_SECONDS

    def __init__(self, plan: Plan, results: Results, fresh: bool) -> None:
        self.name = f"{plan.campaign.name}{COUNTED}"
        self.results = results.root
        self.fleet = plan.campaign.spec.fleet
        self.outcome = CountOutcome(plan)
        self._kinds: Counter[str] = Counter()
        """Of the machines that have counted what is there already."""
        wanted = plan.campaign.spec.count or CountSpec()
        self.left: dict[str, Errand] = {}
        for chosen in plan.campaign.workloads:
            asked = AskedSteps(chosen, wanted, marks=wanted.engine != "perf")
            unable = {run.key.variant for run in plan.runs if run.unable and run.key.workload == chosen.label}
            able = [variant for variant in plan.variants if variant.label not in unable]
            asked.check(able[0].server.features)
            for variant in able:
                key = RunKey(plan.campaign.name, variant.label, f"{chosen.label}{COUNTED}", 1)
                there = None if fresh else asked.run_there(results, key, variant, wanted.engine)
                if there is not None and there.record.counted is not None:
                    self._kinds[f"{there.record.host.cpu_model}, {there.record.counted.libc}, "] += 1
                else:
                    errand = _errand(plan, variant, chosen, key, wanted)
                    self.left[errand.id] = errand

    def preferred(self, kinds: Sequence[str]) -> str:
        """Returns the kind that has counted before."""
        there = [kind for begin, _ in self._kinds.most_common() for kind in kinds if kind.startswith(begin)]
        return there[0] if there else ""

    def begin(self, kind: str) -> None:
        """Does nothing: all kinds count in the same way."""

    def next(self, number: int) -> list[Errand]:
        return [self.left.pop(id) for id in list(self.left)[:number]]

    def earlier(self, id: str) -> Errand | None:
        return self.left.pop(id, None)

    def arrived(self, errand: Errand, answer: bytes, runs: Sequence[Run]) -> None:
        if not runs:
            raise ServerError(f"{errand.name} came home without a run")
        for run in runs:
            self.outcome.folders.append(run.folder)
            if not run.done and run.record.error is not None:
                self.outcome.failed.append((run.variant, run.workload, run.record.error.message))

    def failed(self, errand: Errand, reason: str) -> None:
        key = errand.runs[0].key
        why = f"no machine of the fleet could count it: {reason}"
        self.outcome.failed.append((key.variant, key.workload, why))


def _errand(
    plan: Plan, variant: PlannedVariant, chosen: ChosenWorkload, key: RunKey, wanted: CountSpec
) -> Errand:
    base = next((v for v in plan.variants if v.label == plan.base), variant)
    asked = msgspec.msgpack.encode(_Asked(variant.label, wanted.model_dump(mode="json")))
    identity: Mapping[str, Any] = {
        "variant": variant.identity(),
        "base": base.identity(),
        "workload": chosen.identity(),
        "seed": plan.campaign.spec.seed,
        "asked": asked.hex(),
    }
    return Errand(
        id=errand_id(identity),
        name=f"{variant.label}, {key.workload}",
        questions=((plan, chosen),),
        servers=tuple(dict.fromkeys((base.server.spec, variant.server.spec))),
        asked=asked,
        runs=(PlannedRun(key, variant, chosen, 0.0, 0),),
    )


def count_on_fleet(
    campaign: Campaign, results: Results, machines: Machines, fleet: str, console: Console, *, fresh: bool
) -> CountOutcome:
    """Counts what is missing on the machines of a fleet, as `count_campaign` does on this one. Raises as it
    does, and ServerError where no scheduler answers."""
    machines.check_fleet(fleet)
    with Interrupts(plain_lines(console)) as interrupts, results.lock():
        results.clean()
        plan = make_plan(
            campaign,
            results,
            lambda spec, how: look_up(spec, how, folder=campaign.folder),
            fresh=True,
            elsewhere=True,
        )
        check_managed(plan)
        errands = CountErrands(plan, results, fresh)
        if errands.left:
            machines.do_errands(errands, fleet, console, interrupts)
        return errands.outcome


__all__ = ["CountErrands", "count_on_fleet", "count_there"]

"""Which steps of a workload a campaign wants counted, and whether a stored run has them."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass

from pgstrata.campaign.checked import ChosenWorkload
from pgstrata.campaign.plan.existing import difference
from pgstrata.campaign.plan.model import PlannedVariant
from pgstrata.campaign.study import CountSpec
from pgstrata.count.measure.marks import Length
from pgstrata.count.measure.start import CountPlan, plan_steps
from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.server.features import Features
from pgstrata.store import Results
from pgstrata.store.names import RunKey
from pgstrata.store.read import Run, read_run
from pgstrata.suggest import meant

PILOT = Length(1, 1)
"""Operations of the first look, which says how many are counted."""


@dataclass(frozen=True)
class AskedSteps:
    """The steps of a workload that are counted. marks: whether the engine closes a part at marks."""

    chosen: ChosenWorkload
    wanted: CountSpec
    marks: bool

    def plan(self, features: Features, length: Callable[[str], Length] = lambda name: PILOT) -> CountPlan:
        """Returns the plan of a server with these features."""
        phases = self.chosen.workload.phases(self.chosen.options, features)
        return plan_steps(phases, self._wants, length, marks=self.marks)

    def _wants(self, name: str) -> bool:
        return not self.wanted.steps or any(fnmatch.fnmatchcase(name, glob) for glob in self.wanted.steps)

    def check(self, features: Features) -> None:
        """Raises UsageError where no step is left to count, with those that there are."""
        plan = self.plan(features)
        if plan.steps:
            return
        reasons = "; ".join(f"{name}: {why}" for name, why in plan.left_out.items())
        phases = self.chosen.workload.phases(self.chosen.options, features)
        everything = plan_steps(phases, lambda name: True, lambda name: PILOT, marks=True)
        known = [phase.step.name for phase in everything.steps]
        for wanted in self.wanted.steps:
            if not reasons and known and not any(fnmatch.fnmatchcase(name, wanted) for name in known):
                raise UsageError(
                    f"{self.chosen.label} has no step {shown(wanted)} that can be counted",
                    meant(wanted, known, "steps"),
                )
        names = ", ".join(known)
        raise UsageError(
            f"{self.chosen.label}: no step to count" + (f" ({reasons})" if reasons else ""),
            f"steps that can be counted: {names}" if names else "choose another workload",
        )

    def run_there(self, results: Results, key: RunKey, variant: PlannedVariant, engine: str) -> Run | None:
        """Returns the finished run of this variant that has counted everything that is asked for, in the
        same way; None where there is none. engine: its name, or `auto` for any."""
        folder = results.find(key)
        run = read_run(folder) if folder is not None else None
        if not isinstance(run, Run) or run.record.counted is None:
            return None
        counted = run.record.counted
        wanted = {phase.step.name for phase in self.plan(variant.server.features).steps}
        is_whole = (
            wanted <= {step.name for step in counted.steps} | counted.left_out.keys()
            and not difference(variant, self.chosen, run.record)
            and engine in ("auto", counted.engine)
            and counted.simulated == self.wanted.simulate
        )
        return run if is_whole else None


__all__ = ["PILOT", "AskedSteps"]

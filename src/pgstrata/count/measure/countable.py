"""Whether steps can be counted on this machine, before anything is built."""

from __future__ import annotations

from collections.abc import Sequence

from pgstrata.campaign.checked import Campaign
from pgstrata.count.measure.choose import find_engine
from pgstrata.count.measure.marks import Length
from pgstrata.count.measure.start import plan_steps
from pgstrata.errors import UsageError
from pgstrata.server.features import NEWEST
from pgstrata.workload.core.options import NotInVersionError


def check_counted(campaign: Campaign, steps: Sequence[str]) -> None:
    """Raises UsageError for the first of these steps that cannot be counted here, with the reason; no steps:
    where none of the workload's can."""
    engine = find_engine()
    chosen = campaign.workloads[0]
    try:
        phases = chosen.phases(NEWEST)
    except NotInVersionError:
        return  # the servers tell
    plan = plan_steps(
        phases, lambda name: not steps or name in steps, lambda name: Length(1, 1), marks=engine.marks
    )
    able = {phase.step.name for phase in plan.steps}
    for step in steps or sorted(plan.left_out) * (not able):
        if step not in able and (reason := plan.left_out.get(step)):
            raise UsageError(f"{step} cannot be counted: {reason}", "measure it by the rate")


__all__ = ["check_counted"]

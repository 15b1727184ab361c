"""What is given to one machine as a whole: one workload and repeat with all its variants, or an errand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property

from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.order import takes_turns
from pgstrata.campaign.plan.runs import Plan
from pgstrata.files import digests
from pgstrata.fleet.kinds import kind_of
from pgstrata.store import Results
from pgstrata.store.read import Run, read_run


@dataclass(frozen=True)
class Assignment:
    """Runs whose rates are compared with each other, and so are measured on one machine, or an errand.

    seconds: estimate of all of them, one after the other or in turn, 0 where none is known; disk_bytes: at
    its largest. kind: a glob of the kinds of machine that may have it, empty for any. runs: with those that a
    version cannot do. errand, name: identity and name of an errand.
    """

    workload: str
    repeat: int
    seconds: float
    disk_bytes: int = 0
    kind: str = ""
    runs: tuple[PlannedRun, ...] = ()
    errand: str = ""
    name: str = ""

    @cached_property
    def id(self) -> str:
        """The same each time that the campaign is started."""
        return self.errand or digests.of(f"{self.workload}\0{self.repeat}")[:16]

    def suits(self, kind: str) -> bool:
        """Returns whether a machine of a kind may have the assignment."""
        return not self.kind or fnmatchcase(kind.lower(), self.kind.lower())

    def __str__(self) -> str:
        return self.name or f"{self.workload}, repeat {self.repeat}"


def assignments_of(plan: Plan, results: Results) -> list[Assignment]:
    """Returns the assignments of a plan that are still to do, in its order.

    What is there of an assignment counts as a whole, where all of it was measured on one machine.
    """
    grouped: dict[tuple[str, int], list[PlannedRun]] = {}
    for run in plan.runs:
        grouped.setdefault((run.key.workload, run.key.repeat), []).append(run)
    assignments = []
    for (workload, repeat), runs in grouped.items():
        able = [run for run in runs if not run.unable]
        if not able or _is_there(able):
            continue
        again = tuple(
            replace(run, existing=None, again=run.again or run.existing is not None) for run in runs
        )
        disk = [run.disk_bytes for run in able]
        in_turn = takes_turns(plan.campaign.spec)
        assignments.append(
            Assignment(
                workload,
                repeat,
                sum(run.seconds for run in able),
                sum(disk) if in_turn else max(disk),
                kind_of(plan.campaign, workload),
                again,
            )
        )
    return assignments


def _is_there(runs: Sequence[PlannedRun]) -> bool:
    stored = [read_run(run.existing) for run in runs if run.existing is not None]
    whole = [run for run in stored if isinstance(run, Run)]
    return len(whole) == len(runs) and len({run.machine for run in whole}) == 1


__all__ = ["Assignment", "assignments_of"]

"""How long a campaign still takes, from its plan and from how long its first stages have taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pgstrata.campaign.plan.stages import LOADING, Stage, Unit
from pgstrata.step_names import CLIENTS


@dataclass
class Pace:
    """How far a campaign is, and how many seconds the rest takes.

    Estimates are corrected by what the stages that are over took by the clock: the same step of an earlier
    repeat, else stages of the same kind, else all that were measured. A stage that may end as soon as its
    verdict is known is corrected by the time around each measured second, so that what is left stays the most
    that it can be.
    """

    units: Sequence[Unit]
    _unit: int = -1
    _stage: int = 0
    _begun: float = field(default_factory=time.monotonic)
    _measured: float = 0.0
    _over: list[tuple[str, Stage, float, float]] = field(default_factory=list)
    """Workload, stage, the seconds that were expected of it, and those it took."""

    def begin(self, number: int) -> None:
        """Records that a unit begins, of this number from 0."""
        self._unit, self._stage = number, 0
        self._begun, self._measured = time.monotonic(), 0.0

    def step_begins(self, name: str) -> None:
        """Records that a step begins. Steps that belong to a load are none of the stages; further points of a
        curve are a single stage, called after the curve."""
        names = [stage.step for stage in self._stages]
        if name not in names:
            name = CLIENTS.sub("", name)
        if self._unit < 0 or name not in names[self._stage + 1 :]:
            return
        self._stage_ends()
        self._stage = names.index(name, self._stage + 1)

    def step_ended(self, seconds: float) -> None:
        """Records that a step of one of the runs was measured for `seconds`."""
        self._measured += seconds

    def end(self) -> None:
        """Records that the unit is over."""
        self._stage_ends()
        self._stage = len(self._stages)

    @property
    def _stages(self) -> Sequence[Stage]:
        return self.units[self._unit].stages if 0 <= self._unit < len(self.units) else ()

    def _stage_ends(self) -> None:
        now = time.monotonic()
        if self._stage < len(self._stages):
            stage = self._stages[self._stage]
            share = 1.0
            if stage.measured and self._measured:
                share = self._measured / stage.measured
            self._over.append((self._workload(self._unit), stage, stage.seconds * share, now - self._begun))
        self._begun, self._measured = now, 0.0

    def _workload(self, unit: int) -> str:
        return self.units[unit].runs[0].workload.label

    def _expected(self, workload: str, stage: Stage) -> float:
        measured = stage.kind != LOADING
        choices = [
            [entry for entry in self._over if entry[0] == workload and entry[1].step == stage.step],
            [entry for entry in self._over if entry[1].kind == stage.kind],
            [entry for entry in self._over if entry[1].kind != LOADING] if measured else [],
        ]
        for choice in choices:
            expected, took = sum(entry[2] for entry in choice), sum(entry[3] for entry in choice)
            if expected > 0:
                return stage.seconds * took / expected
        return stage.seconds

    def _as_before(self, workload: str, stage: Stage) -> float:
        """Returns the seconds of a stage if it ends as soon as those earlier stages did in which a verdict
        was waited for."""
        before = [entry for entry in self._over if entry[1].kind == stage.kind and entry[1].measured]
        most = self._expected(workload, stage)
        if not stage.measured or not before:
            return most
        return min(
            most,
            stage.seconds * sum(entry[3] for entry in before) / sum(entry[1].seconds for entry in before),
        )

    def left_as_before(self) -> float:
        """Returns the seconds until the last unit has ended if verdicts come as soon as they did so far."""
        return self._sum(self._as_before)

    def left(self) -> float:
        """Returns the estimated seconds until the last unit has ended."""
        return self._sum(self._expected)

    def _sum(self, expected: Callable[[str, Stage], float]) -> float:
        total = 0.0
        for number, unit in enumerate(self.units):
            if number < self._unit:
                continue
            workload = self._workload(number)
            for at, stage in enumerate(unit.stages):
                if number > self._unit or at > self._stage:
                    total += expected(workload, stage)
                elif at == self._stage:
                    total += max(0.0, expected(workload, stage) - (time.monotonic() - self._begun))
        return total


__all__ = ["Pace"]

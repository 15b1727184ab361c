"""One variant of a comparison while it is measured, and when enough is known of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgstrata.errors import PgstrataError
from pgstrata.measure.profiles import TurnProfiles
from pgstrata.measure.run.conduct import DATABASE, Conductor, without_password
from pgstrata.measure.step import Measured, driver_spec
from pgstrata.server.cluster import Cluster
from pgstrata.stats import sequential
from pgstrata.workload.core.language import Phase, Step

Json = dict[str, Any]


@dataclass
class Lane:
    """One variant of the comparison: its conductor and cluster, and why it left, if it did."""

    conductor: Conductor
    cluster: Cluster
    phases: Sequence[Phase]
    at: int = 0
    order: int = 0
    error: PgstrataError | None = None
    log_tail: str = ""
    slices: list[Measured] = field(default_factory=list)
    turns: list[Json] = field(default_factory=list)
    told: Json = field(default_factory=dict)
    """The driver's spec of the step's first slice."""
    profiles: TurnProfiles = field(default_factory=lambda: TurnProfiles(None, 0))

    @property
    def label(self) -> str:
        return self.conductor.run.key.variant

    def spec(self, step: Step, number: int, **more: Any) -> Json:
        """The driver's spec of one turn at a step; that of the first turn is kept with the run.

        number: of the turn. Each has another random stream, the same for all variants. more: keys of its own.
        """
        c = self.conductor
        seed = (c.seed(step, self.order) + number) % 2**48
        spec = driver_spec(step, self.cluster.connection(DATABASE), seed, c.campaign.spec.engine) | more
        if not self.slices:
            self.told = without_password(spec)
            c.builder.spec(self.order, step.name, self.told)
        return spec

    def rates(self) -> dict[int, float]:
        """Rate of the present step by pair."""
        return {turn["pair"]: turn["rate"] for turn in self.turns}


def known(rates: Mapping[str, Mapping[int, float]], base: str, margin: float) -> bool:
    """Whether every variant has its verdict against the base (against the first, without the base).

    rates: of the present step, by variant and pair.
    """
    first = base if base in rates else next(iter(rates))
    for label, theirs in rates.items():
        if label != first:
            ours = rates[first]
            common = sorted(ours.keys() & theirs.keys())
            verdict = sequential.look([ours[p] for p in common], [theirs[p] for p in common], margin=margin)
            if not verdict.decided:
                return False
    return True

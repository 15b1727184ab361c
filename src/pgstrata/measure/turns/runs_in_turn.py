"""Variants that take turns: all clusters loaded once, then each measured step in pairs A B, B A, B A, A B, …

What drifts on the machine hits all variants alike, and the ratio of neighbours does not see it. Steps that
only read are cut into slices while all clusters are up. A step that writes would meet other data in every
turn, so it is repeated whole, each time from the same snapshot of the data folder, with no other cluster up.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from msgspec import structs

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.plan.order import data_at, data_of, freezes, loaded_at, schedule_of
from pgstrata.measure.run.active import ActiveRun
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.measure.turns.refining import next_point
from pgstrata.measure.turns.table import MEASURES
from pgstrata.server.cluster.loaded import find
from pgstrata.store.record import ComparisonRecord
from pgstrata.workload.core.language import Refine, Step


class RunsInTurn:
    """One workload and repeat on all variants. Made anew for each group of runs."""

    def __init__(self, campaign: Campaign, runs: Sequence[ActiveRun], base: str) -> None:
        self.settings = settings = campaign.spec
        self.group = Group(settings, runs, base)
        self.participants, self.interrupts = self.group.participants, self.group.interrupts
        comparison = ComparisonRecord(
            id=_goes_on_from(runs) or secrets.token_hex(8),
            variants=tuple(p.label for p in self.participants),
            base=base,
            slice_seconds=settings.slice_seconds,
            rounds=settings.rounds,
            until=settings.until,
            max_seconds=settings.max_seconds if settings.until == "verdict" else None,
            margin=settings.margin,
            turns=settings.turns,
            window_seconds=settings.window_seconds if freezes(settings) else None,
            layout="shared" if self.group.is_alike else "own",
            judge=self.group.times,
            times_margin=settings.times_margin,
        )
        for run in runs:
            run.comparison = comparison
            run.keep_steps(comparison.id)

    def measure(self) -> list[tuple[Path, str | None]]:
        """Measures all runs. Returns the folder of each, and why it failed or None, in their order.

        A variant that fails leaves the comparison; what it measured is kept, and the others go on. Raises
        StoreError where results cannot be stored, and Interrupted; nothing is left running.
        """
        try:
            self._load()
            self._record_freezer()
            while step := self._next_step():
                self.interrupts.check()
                if self._taken(step):
                    continue
                schedule = schedule_of(step, self.settings)
                MEASURES[schedule.how](self.group, schedule)
            for participant in self.participants:
                participant.run.keep_log()
        finally:
            # All of them, whatever is wrong with one.
            with self.interrupts.shield(), ExitStack() as stack:
                for participant in self.participants:
                    stack.callback(participant.take_down)
        return [participant.finish() for participant in self.participants]

    # --- before the first measured step -------------------------------------------------------

    def _load(self) -> None:
        """Starts every cluster with its data. The same server and initdb options load once: the data folder
        of the first is copied to the other variants. All are started anew then, so that none has pages of its
        load in memory."""
        donors: dict[tuple[object, ...], Participant] = {}
        may = self._all_may_begin_with_kept_data()
        for participant in self.participants:
            end = loaded_at(participant.run.phases)
            if may and self._adopted(participant):
                continue
            donor = donors.setdefault(data_of(participant.run.planned.variant), participant)
            if donor is participant or donor.error is not None or not end:
                self.group.attempt(participant, partial(Participant.load, phases=end))
            else:
                self.group.progress.say(f"  {participant.label}: data copied from {donor.label}")
                self.group.attempt(participant, partial(Participant.adopt, donor=donor))
        self.group.draw_layout()
        self.group.each(lambda participant: participant.cluster.start())

    def _record_freezer(self) -> None:
        """Records how the processes of each participant are stopped, which is known when they run."""
        for participant in self.group.here:
            freezer, comparison = participant.cluster.freezer, participant.run.comparison
            if freezer is not None and comparison is not None:
                participant.run.comparison = structs.replace(comparison, freezer=freezer.kind)

    def _all_may_begin_with_kept_data(self) -> bool:
        """Returns whether all may begin with kept data: a load that is measured is left out of all or of
        none, since they take turns at the same steps."""
        measured = any(
            loaded_at(p.run.phases) != data_at(p.run.phases)
            for p in self.participants
            if p.run.planned.data_key
        )
        return not measured or all(find(p.run.planned.data_key) for p in self.participants)

    def _adopted(self, participant: Participant) -> bool:
        adopted: list[bool] = []
        self.group.attempt(participant, lambda participant: adopted.append(participant.adopt_kept()))
        return adopted != [False]

    def _next_step(self) -> Step | None:
        """Brings every variant to its next step, the same for all (`check_interleaved`)."""

        def forward(participant: Participant) -> None:
            participant.keep_loaded()
            while participant.phase is not None and not isinstance(participant.phase, Step | Refine):
                participant.prepare()
                participant.keep_loaded()

        while True:
            self.group.each(forward)
            phase = next((participant.phase for participant in self.group.here), None)
            if not isinstance(phase, Refine):
                return phase if isinstance(phase, Step) else None
            clients = next_point(self.group, phase)
            self.group.each(partial(Participant.refine, clients=clients))

    def _taken(self, step: Step) -> bool:
        """Takes over the step where an earlier attempt has finished it, of all variants or of none. Returns
        whether it did."""
        kept_steps = [participant.run.kept_step(step) for participant in self.participants]
        if len(self.group.here) < len(self.participants) or None in kept_steps:
            return False
        for participant, data in zip(self.participants, kept_steps, strict=True):
            assert data is not None
            participant.take(data)
        return True


def _goes_on_from(runs: Sequence[ActiveRun]) -> str | None:
    """Returns the comparison that an earlier attempt began, if this attempt goes on with it."""
    return next((step.comparison for run in runs for step in run.planned.kept), None)


__all__ = ["RunsInTurn"]

"""Measuring slices, or whole steps, in turn while all clusters are up."""

from __future__ import annotations

from functools import partial

from pgstrata.campaign.plan.order import Schedule, warmed_up
from pgstrata.measure.turns.alone import execute_alone
from pgstrata.measure.turns.group import Group, is_balanced
from pgstrata.measure.turns.participant import Participant
from pgstrata.store.record import TurnKind


def measure(group: Group, schedule: Schedule) -> None:
    """Measures a step of all participants in slices and stores it."""
    measure_parts(group, schedule, "slices")


def measure_parts(group: Group, schedule: Schedule, turns: TurnKind) -> None:
    """Measures parts of a step that leaves the data as it is, in pairs A B, B A, …, and stores it."""
    # What a replica has left to do would be done in the slices of others.
    group.each(lambda participant: participant.cluster.standbys.await_replayed())
    group.begin(turns, schedule.count, one_start=True)
    pair = 0
    while group.goes_on(pair, schedule.count, may_end=is_balanced(pair)):
        pair += 1
        for participant in group.order(pair):
            step = warmed_up(schedule.step, group.settings, first=not participant.slices)
            group.attempt(participant, partial(Participant.measure_slice, step=step, pair=pair))
    execute_alone(group, schedule.step)
    group.end()


__all__ = ["measure", "measure_parts"]

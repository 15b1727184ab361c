"""Measuring whole steps in turn, each from the snapshot of its cluster, the others stopped."""

from __future__ import annotations

from functools import partial

from pgstrata.campaign.plan.order import Schedule, warmed_up
from pgstrata.measure.turns.alone import execute_alone
from pgstrata.measure.turns.group import Group, is_balanced
from pgstrata.measure.turns.participant import Participant


def measure(group: Group, schedule: Schedule) -> None:
    """Measures a step of all participants in rounds and stores it; all servers run again then."""
    group.begin("rounds", schedule.count)
    group.save()
    pair = 0
    while group.goes_on(pair, schedule.count, may_end=is_balanced(pair)):
        pair += 1
        group.draw_layout()
        for participant in group.order(pair):
            group.progress.round_begins(pair, participant.label)
            # Its own: versions may do the same in other words.
            step = warmed_up(participant.step, group.settings, first=not participant.slices)
            group.attempt(participant, partial(Participant.measure_round, step=step, pair=pair))
    if not execute_alone(group, schedule.step, restored=True):
        group.each(lambda participant: participant.cluster.start())
    group.drop_snapshots()
    group.end()


__all__ = ["measure"]

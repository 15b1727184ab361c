"""How each kind of turns is measured."""

from __future__ import annotations

from collections.abc import Callable

from pgstrata.campaign.plan.order import How, Schedule
from pgstrata.measure.turns import frozen, queries, rounds, slices, whole, windows
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant

Measure = Callable[[Group, Schedule], None]
"""Measures the next step of all participants and stores it. Raises StoreError and Interrupted; a participant
that fails leaves the group."""


def once(group: Group, schedule: Schedule) -> None:
    """Measures a step that is no comparison, on one variant after the other."""
    del schedule
    group.each(Participant.step_alone)


MEASURES: dict[How, Measure] = {
    "once": once,
    "queries": queries.measure,
    "slices": slices.measure,
    "windows": windows.measure,
    "whole": whole.measure,
    "rounds": rounds.measure,
    "frozen": frozen.measure,
}
"""By `Schedule.how`, which `pgstrata.campaign.plan.order.schedule_of` chooses."""

__all__ = ["MEASURES", "Measure"]

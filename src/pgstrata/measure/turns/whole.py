"""Measuring a step that only reads and cannot be cut: the whole step in turn, all clusters up."""

from __future__ import annotations

from pgstrata.campaign.plan.order import Schedule
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.slices import measure_parts


def measure(group: Group, schedule: Schedule) -> None:
    """Measures a step of all participants whole, as often as scheduled, and stores it."""
    measure_parts(group, schedule, "whole")


__all__ = ["measure"]

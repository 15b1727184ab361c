"""What a plan says of settings that configs have and servers do not get."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgstrata.campaign.plan.model import PlannedVariant
from pgstrata.server.config.classes import class_of


def left_out_lines(variants: Sequence[PlannedVariant]) -> list[str]:
    """Returns one line for each reason, with all settings that it holds for, and how to keep them."""
    names: dict[str, dict[str, list[str]]] = {}
    for variant in variants:
        for change in variant.config.dropped:
            labels = names.setdefault(change.reason, {}).setdefault(change.name, [])
            if variant.label not in labels:
                labels.append(variant.label)
    lines, can_be_kept = [], False
    every = [variant.label for variant in variants]
    for reason, settings in names.items():
        groups: dict[tuple[str, ...], list[str]] = {}
        for name, labels in settings.items():
            groups.setdefault(tuple(labels), []).append(name)
            chosen = class_of(name)
            can_be_kept = can_be_kept or (chosen is not None and not chosen.is_fixed)
        for who, some in groups.items():
            where = "" if list(who) == every else f"{', '.join(who)}: "
            why = reason if len(some) == 1 else re.sub(r"\Ait ", "each ", reason)
            lines.append(f"config: {where}left out {', '.join(some)}: {why}")
    for variant in variants:
        for change in variant.config.mapped:
            if class_of(change.name) is not None:
                lines.append(f"config: {variant.label}: {change.name} = {change.to_value}: {change.reason}")
    if can_be_kept:
        lines.append("config: keep one nevertheless with --keep-setting NAME (docs/guides/config.md)")
    return lines


__all__ = ["left_out_lines"]

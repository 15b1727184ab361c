"""The kinds of turns."""

from __future__ import annotations

from pgstrata.store.record import TurnKind
from pgstrata.turns.frozen import Frozen
from pgstrata.turns.model import Kind
from pgstrata.turns.rounds import Rounds
from pgstrata.turns.slices import Slices
from pgstrata.turns.whole import Whole
from pgstrata.turns.windows import Windows

KINDS: dict[TurnKind, Kind] = {
    "slices": Slices(),
    "windows": Windows(),
    "whole": Whole(),
    "rounds": Rounds(),
    "frozen": Frozen(),
}
"""All kinds. `pgstrata.campaign.plan.order.schedule_of` chooses for a step."""


def kind_of(turns: TurnKind | None, *, reads_only: bool = True) -> Kind:
    """Returns the kind that a record names. A record that names none is of slices or, where the step writes,
    of rounds."""
    return KINDS[turns or ("slices" if reads_only else "rounds")]


__all__ = ["KINDS", "kind_of"]

"""Which number of clients a curve is measured with next, while its variants take turns."""

from __future__ import annotations

from collections.abc import Mapping

from pgstrata.judge.curves import curves_of, log_rate_error, words_in_turns
from pgstrata.measure.turns.group import Group
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.curve import Curve, next_clients
from pgstrata.store.record import StepRecord
from pgstrata.workload.core.language import Refine


def next_point(group: Group, refine: Refine) -> int | None:
    """Returns the number of clients that tells most of where verdicts change and rates stop growing; None
    where both are known, `refine.most` points were added, or fewer than two variants are left."""
    here = group.here
    if len(here) < 2:
        return None
    curves = [curves_of(participant.run.records.items()).get(refine.steps, {}) for participant in here]
    labels = [participant.label for participant in here]
    base = curves[labels.index(group.base) if group.base in labels else 0]
    if len(base) >= len(refine.clients) + refine.most:
        return None
    watched, criterion = group.settings.until == "verdict", Criterion(group.settings.margin)
    words = [
        words_in_turns(base, curve, watched=watched, criterion=criterion)
        for curve in curves
        if curve is not base
    ]
    clients = next_clients(words, [_rates(curve) for curve in curves])
    if clients is None or here[0].run.has_step(refine.name(clients)):
        return None
    group.progress.say(f"  {refine.steps}: next with {clients} clients, as the curve is not known there yet")
    return clients


def _rates(curve: Mapping[int, StepRecord]) -> Curve:
    measured = [(clients, record, record.rate) for clients, record in curve.items()]
    return {clients: (rate, log_rate_error([record])[0]) for clients, record, rate in measured if rate}


__all__ = ["next_point"]

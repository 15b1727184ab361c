"""Whether other programs, the host or a quota disturbed a step so much that its rates say nothing of the
servers.

Nothing is called slower, faster or the same on a disturbed step: its verdict is unclear, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgstrata.judge.pairs import left_out
from pgstrata.store.record import Disturbance, StepRecord
from pgstrata.turns.table import kind_of

LEFT_OUT = 0.5
"""Share of the pairs that may be left out because other programs disturbed a side."""

STOLEN = 0.1
"""Share of the CPU time that other guests of the host may have had."""

THROTTLED = 0.05
"""Share of the time for which the quota of a container may have stopped processes."""

LONGER_SLICES = "some transactions work on into the slice of another server, so give slice_seconds more"
"""The reason and the next step where servers that take turns wait for each other."""

SAID = 0.1
"""From this share of the CPUs on a page says that other programs used them, also where verdicts hold."""


def disturbed(pairs: Sequence[tuple[StepRecord, StepRecord]], others: Iterable[StepRecord] = ()) -> str:
    """Returns why a comparison of these records of one step was disturbed; an empty text where it was not.

    pairs: of base and other in each repeat in which they took turns; others: further records of both sides,
    whose slices make no pairs.
    """
    counts = [left_out(*both) for both in pairs]
    out, known = sum(out for out, _ in counts), sum(known for _, known in counts)
    base = [ours for ours, _ in pairs]
    records = [*(record for both in pairs for record in both), *others]
    seen = [record.disturbance for record in records if record.disturbance is not None]
    if not seen:
        return ""
    load = _largest(seen, "other_load")
    text = f"other programs used {load:.0%} of the CPUs"
    if known and out > LEFT_OUT * known:
        if any(part.waited is not None for record in base for part in record.slices):
            grown = any(record.slice_seconds is not None for record in base)
            if load < SAID and not grown:
                where = f"in {out:,} of {known:,} pairs"
                return f"{where} the servers kept each other from a CPU: {LONGER_SLICES}"
            return f"{text}: in {out:,} of {known:,} pairs a server waited for a CPU"
        allowed = _largest(seen, "allowed")
        nouns = {kind_of(record.turns).pair for record in base}
        parts = f"{nouns.pop() if len(nouns) == 1 else 'pair'}s"
        return f"{text}, and more than {allowed:.0%} in {out:,} of {known:,} {parts}"
    # Where no slice tells whether it waited.
    if not known and load > _largest(seen, "allowed"):
        return text
    if (stolen := _largest(seen, "stolen")) > STOLEN:
        return f"other guests of the host used {stolen:.0%} of the CPUs"
    if (throttled := _largest(seen, "throttled")) > THROTTLED:
        return f"the CPU quota of the container stopped processes for {throttled:.0%} of the time"
    return ""


def other_load(records: Iterable[StepRecord]) -> float:
    """Returns the largest share of the CPUs that other programs used beside one of these steps."""
    return _largest([record.disturbance for record in records if record.disturbance], "other_load")


def _largest(seen: Iterable[Disturbance], name: str) -> float:
    return max((getattr(each, name) or 0.0 for each in seen), default=0.0)


__all__ = ["LEFT_OUT", "LONGER_SLICES", "SAID", "disturbed", "other_load"]

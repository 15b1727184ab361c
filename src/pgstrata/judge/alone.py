"""What a statement of a replay says alone: a difference beside the others may be that of a neighbour, which
holds a lock, the disk or the CPU for longer.

Where rounds call a statement slower or faster it was executed again with nothing beside it, in pairs. Only
where both say the same it is called so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pgstrata import numbers
from pgstrata.judge.disturbance import LEFT_OUT
from pgstrata.judge.pairs import left_out, pairs_of, together
from pgstrata.stats import sequential
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.verdict import Verdict, Word, set_aside
from pgstrata.store.record import OTHER_LOAD, AloneRecords, Slice, TurnKind
from pgstrata.store.statement import Statement, statement_of

_NAMED: dict[Word, str] = {"slower": "slower", "faster": "faster", "same": "the same", "unclear": "not known"}

FIRST = 16
"""Pairs before the first look: a turn takes a tenth of a second only, and bounds from fewer are wide."""

WIDEST = 1000
"""Bounds beyond this many times are not shown."""


@dataclass(frozen=True)
class AloneTurns:
    """The turns of one variant at a statement that is executed alone (`store.record.TookTurns`)."""

    slices: Sequence[Slice]
    load_limit: float = OTHER_LOAD
    turns: TurnKind | None = "slices"
    blocks: Sequence[int] = ()
    span: float | None = None
    slice_seconds: float | None = None
    cpus: Sequence[int] = field(default=())
    one_start: bool = False


@dataclass(frozen=True)
class AloneVerdict:
    """What a statement says alone. verdict: None where there is no pair; reason: why there is none, or why it
    ended before it was known."""

    verdict: Verdict | None
    reason: str = ""


def disturbed_by(turns: Sequence[tuple[AloneTurns, AloneTurns]]) -> str:
    """Returns what disturbed most of the pairs, so that the clock tells nothing; empty where nothing did."""
    counts = [left_out(*both) for both in turns]
    out, known = sum(out for out, _ in counts), sum(known for _, known in counts)
    return f"others used the CPUs in {out:,} of {known:,} pairs" if out > LEFT_OUT * known else ""


def judge_alone(parts: Sequence[tuple[AloneTurns, AloneTurns]], criterion: Criterion) -> Verdict:
    """Returns the verdict on the pairs so far, of one comparison or of several, whose servers started once.

    It may be looked at after every pair, and pairs that other programs disturbed are left out; set aside
    where these are most of them.
    """
    pairs = together([pairs_of(base, other) for base, other in parts])
    verdict = sequential.look(pairs.base, pairs.other, starts=len(parts), criterion=criterion, first=FIRST)
    disturbance = disturbed_by(parts)
    return set_aside(verdict, disturbance) if disturbance else verdict


def alone_in(
    statement: Statement, records: Sequence[tuple[AloneRecords, AloneRecords, float]], criterion: Criterion
) -> AloneVerdict:
    """Returns the result of a statement alone. records: of the base and of the variant in each comparison,
    with the share of the CPUs that other programs were allowed to use."""
    parts: list[tuple[AloneTurns, AloneTurns]] = []
    reason = ""
    for base, other, limit in records:
        sides = [
            next((record for record in side.statements if statement_of(record) == statement), None)
            for side in (base, other)
        ]
        ours, theirs = sides
        if theirs is not None:
            reason = reason or theirs.reason
        if ours is not None and theirs is not None and ours.slices and theirs.slices:
            parts.append((AloneTurns(ours.slices, limit), AloneTurns(theirs.slices, limit)))
    if not parts:
        return AloneVerdict(None, reason)
    return AloneVerdict(judge_alone(parts, criterion), reason)


def agreed(beside: Verdict, alone: AloneVerdict) -> Verdict:
    """Returns the verdict beside the others where the statement says the same alone; else it is unclear, with
    both figures in the reason."""
    if alone.verdict is not None and alone.verdict.word == beside.word:
        return replace(beside, reason=f"{beside.reason}; alone {figures(alone.verdict)}")
    begins = f"{beside.word} beside the others ({figures(beside)})"
    if alone.verdict is None:
        why = f": {alone.reason}" if alone.reason else ""
        return set_aside(beside, f"{begins}, and not executed alone{why}")
    pairs = f" in {numbers.counted(alone.verdict.n, 'pair')}" if alone.verdict.word == "unclear" else ""
    alone_words = f"{_NAMED[alone.verdict.word]} alone ({figures(alone.verdict)}{pairs})"
    if alone.verdict.aside:
        alone_words += f": {alone.verdict.reason}"
    return set_aside(beside, f"{begins}, {alone_words}")


def figures(verdict: Verdict) -> str:
    """Returns how much longer an execution takes, with its bounds: `12 % longer, × 1.08 – 1.16`."""
    if not verdict.n or verdict.ratio <= 0:
        return "nothing was measured"
    text = numbers.longer(1 / verdict.ratio)
    if verdict.low > 1 / WIDEST and verdict.high < WIDEST:
        text += f", × {numbers.ratio(1 / verdict.high)} – {numbers.ratio(1 / verdict.low)}"
    return text


__all__ = [
    "FIRST",
    "AloneTurns",
    "AloneVerdict",
    "agreed",
    "alone_in",
    "disturbed_by",
    "figures",
    "judge_alone",
]

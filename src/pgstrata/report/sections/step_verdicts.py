"""The steps of two variants in one table: both rates, the change, its interval as a bar, the word and why."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgstrata import numbers
from pgstrata.judge.compare import StepVerdict
from pgstrata.judge.marks import verdict_mark
from pgstrata.page.blocks import Cell, Column, Row, Span, Table, missing, words
from pgstrata.page.results import RunSet, StepResults, WorkloadResults
from pgstrata.report.sections.summary import MISSED, absent, word_counts
from pgstrata.report.sections.why import explained
from pgstrata.report.verdicts import evidence

WIDEST = math.log(1.5)
"""The axis of the bars ends here, as a log ratio, so that small differences show beside an outlier."""

_HOW = (
    "The rate of {base} is the mean over the whole step, that of {other} the same times the ratio of the "
    "verdict. Change and {confidence} interval are those of the pairs of slices or repeats that the verdict "
    "is made of; the interval holds for each step by itself. The bar shows it around no change (the line); "
    "the grey field is the margin, {margin} %, and a bar that goes further than the axis ends at its edge. "
    "Why: what moved with a proven change, which need not be its cause, or why a verdict is unclear. A "
    "colour means proven: the words slower and faster are adjusted for the number of comparisons, the same "
    "means a difference smaller than the margin."
)
_ORDER = {"slower": 0, "faster": 1, "same": 2, "unclear": 3}


def pair_table(results: RunSet, workload: WorkloadResults, *, why: bool = True) -> Table | None:
    """Returns the table that decides between two variants, the largest proven changes first.

    None where there are more or fewer than two (`is_pair`), and where the runs are of several machines, whose
    rates do not belong beside each other. why: whether the last column is there.
    """
    if not is_pair(results) or len(workload.machines) > 1:
        return None
    (other,) = results.others
    steps = sorted(workload.compared, key=lambda step: _place(results.verdict(step, other)))
    if not any(results.verdict(step, other) for step in steps):
        return None
    axis = _axis(results, steps, other)
    units = {step.unit for step in steps}
    unit = units.pop() if len(units) == 1 else ""
    columns = [
        Column("step", "Step", align="left"),
        Column("base", results.base, unit),
        Column("other", other, unit),
        Column("change", "Change"),
        Column("interval", f"{_confidence(results)} interval", align="left"),
        Column("verdict", "Verdict", align="left"),
    ]
    if why:
        columns.append(Column("why", "Why", align="left"))
    rows = []
    for step in steps:
        cells = _cells(results, step, other, axis, with_unit=not unit)
        reason = [_why(results, step, other)] if why else []
        rows.append(Row([words(step.name) if not why else _named(step), *cells, *reason]))
    return Table(
        name="verdicts",
        title=f"Verdicts: {workload.name}, {other} against {results.base}",
        columns=columns,
        rows=rows,
        how=_HOW.format(
            base=results.base,
            other=other,
            confidence=_confidence(results),
            margin=f"{100 * results.margin:.3g}",
        ),
        keys=(("workload", workload.name),),
        legend=(
            ("bad", "proven slower"),
            ("good", "proven faster"),
            ("same", "proven the same"),
            ("missed", "SLA missed, not comparable"),
        ),
        stacked=True,
        sortable=True,
    )


def is_pair(results: RunSet) -> bool:
    """Returns True if two variants are compared, and verdicts, not thresholds, colour the tables."""
    return len(results.others) == 1 and not results.by_thresholds


def change(ratio: float) -> str:
    """Returns how much a rate has changed: `+3.1 %`, `−12 %`, `4.2 ×` from twice as fast on."""
    if ratio >= 1.995:
        return f"{numbers.significant(ratio, 2)}\N{NO-BREAK SPACE}×"
    share = 100 * (ratio - 1)
    text = f"{abs(share):.1f}" if abs(share) < 9.95 else f"{abs(share):.0f}"
    sign = "" if float(text) == 0 else "−" if share < 0 else "+"
    return f"{sign}{text}\N{NO-BREAK SPACE}%"


def _cells(results: RunSet, step: StepResults, other: str, axis: float, *, with_unit: bool) -> list[Cell]:
    judged = results.verdict(step, other)
    of = results.ratio(step, other)
    rates = [_rate(results, step, variant, with_unit=with_unit) for variant in (results.base, other)]
    if judged is None:
        return [*rates, missing(), missing(), missing()]
    if of.mark == "missed":
        return [*rates, missing(MISSED), missing(MISSED), Cell("missed", "SLA missed", "missed", MISSED)]
    verdict = judged.verdict
    mark = verdict_mark(verdict.word)
    word = "the same" if verdict.word == "same" else verdict.word
    small = word_counts(judged) if judged.queries else evidence(judged)
    return [
        *rates,
        missing() if of.value is None else Cell(of.value, change(of.value), mark),
        _interval(judged, results.margin, axis),
        Cell(verdict.word, word, mark, small=small),
    ]


def _rate(results: RunSet, step: StepResults, variant: str, *, with_unit: bool) -> Cell:
    rate = results.rate(step, variant)
    if rate is None:
        return absent(results, variant, step.workload)
    return Cell(rate, numbers.rate(rate), small=step.unit if with_unit else "")


def _interval(judged: StepVerdict, margin: float, axis: float) -> Cell:
    verdict, ratio = judged.verdict, judged.ratio
    if ratio is None or not verdict.is_bounded:
        return missing("one run on each side has no interval" if verdict.single_run else "no interval")

    def place(value: float) -> float:
        return 0.5 + 0.5 * max(-1.0, min(1.0, math.log(value) / axis))

    span = Span(
        place(verdict.low), place(ratio), place(verdict.high), place(1 - margin), place(1 / (1 - margin))
    )
    return Cell(
        ratio, f"{change(verdict.low)}\N{NO-BREAK SPACE}…\N{NO-BREAK SPACE}{change(verdict.high)}", span=span
    )


def _axis(results: RunSet, steps: Sequence[StepResults], other: str) -> float:
    """Returns the log ratio at the right end of the bars: all intervals fit, as far as WIDEST."""
    bounded = [
        v for step in steps if (v := results.verdict(step, other)) is not None and v.verdict.is_bounded
    ]
    ends = (abs(math.log(end)) for v in bounded for end in (v.verdict.low, v.verdict.high))
    return min(WIDEST, max(-4 * math.log(1 - results.margin), *ends, 0.0))


def _named(step: StepResults) -> Cell:
    return Cell(step.name, step.name, small=step.summary.removesuffix("."))


def _why(results: RunSet, step: StepResults, other: str) -> Cell:
    """Returns a cell about what moved with a proven change, or why a verdict is unclear."""
    judged = results.verdict(step, other)
    if judged is None:
        return words("")
    if judged.verdict.word == "unclear":
        return words(judged.verdict.reason)
    if judged.verdict.word == "same":
        return words("")
    explanation, more = explained(results, step, other)
    texts = [explanation.moved if explanation is not None else "", *more]
    return words("; ".join(filter(None, texts)) or "nothing that was measured")


def _place(judged: StepVerdict | None) -> tuple[int, float]:
    """Returns the sort key of a step: slower steps first, then faster ones, then the same and unclear ones,
    each by how much."""
    if judged is None:
        return len(_ORDER), 0.0
    ratio = judged.ratio or 1.0
    return _ORDER[judged.verdict.word], -abs(math.log(ratio)) if ratio > 0 else 0.0


def _confidence(results: RunSet) -> str:
    verdicts = [v.verdict for c in results.comparisons for v in c.steps]
    return f"{100 * verdicts[0].confidence:.0f} %" if verdicts else "95 %"


__all__ = ["change", "is_pair", "pair_table"]

"""The queries of a workload that have verdicts of their own: times, change, interval and word of each."""

from __future__ import annotations

from collections.abc import Sequence

from pgstrata import numbers
from pgstrata.judge.compare import StepVerdict
from pgstrata.judge.marks import Mark, verdict_mark
from pgstrata.judge.single_queries import Phases
from pgstrata.page.blocks import Cell, Column, Row, Table, missing, words
from pgstrata.page.results import RunSet, WorkloadResults

_HOW = (
    "Each query was executed alone, in turn on {base} and on the others, one execution at a time. Times are "
    "of one execution: for the base the median of its turns, for the others that of the base divided by the "
    "relative rate, which is that of the pairs: above 1 is faster. Its {confidence} interval holds however "
    "often it was looked at; the words slower and faster (margin {margin} %) are adjusted for the number of "
    "comparisons. A query that a side rejects is no comparison; one that is cancelled at its limit is slower "
    "than one that ends clearly before it."
)

_ORDER = {"slower": 0, "faster": 1, "unclear": 2, "same": 3}


def query_table(results: RunSet, workload: WorkloadResults, most: int | None = None) -> Table | None:
    """Returns the queries that have verdicts of their own, the largest changes first; None if there are none.
    most: rows that are shown."""
    queries = [
        (comparison.other, step.step, query)
        for comparison in results.comparisons
        for step in comparison.steps
        if step.workload == workload.name
        for query in step.queries
    ]
    if not queries:
        return None
    one_step = len({step for _, step, _ in queries}) == 1
    names = (query.step.removeprefix(f"{step}.") if one_step else query.step for _, step, query in queries)
    rows = sorted(
        ((variant, name, query) for (variant, _, query), name in zip(queries, names, strict=True)),
        key=lambda row: _place(row[2]),
    )
    return verdict_table(
        results,
        workload,
        rows[:most],
        name="query-verdicts",
        title=f"Queries, each by itself: {workload.name} against {results.base}"
        + ("" if most is None or len(rows) <= most else f" (the first {most} of {len(rows):,})"),
        first="Query",
        count="Pairs",
        how=_HOW,
    )


def verdict_table(
    results: RunSet,
    workload: WorkloadResults,
    rows: Sequence[tuple[str, str, StepVerdict]],
    *,
    name: str,
    title: str,
    first: str,
    count: str,
    how: str,
) -> Table:
    """Returns a table of verdicts on times: those of the base and of the other, change, interval and word.

    rows: variant, what is judged, and its verdict, at least one. first, count: titles of the first and last
    column; how: with `{base}`, `{confidence}` and `{margin}`.
    """
    several = len(results.others) > 1
    apart = any(judged.phases is not None for _, _, judged in rows)
    verdict = rows[0][2].verdict
    confidence = f"{100 * verdict.confidence:.0f} %"
    return Table(
        name,
        title,
        [
            Column(first.lower(), first, align="left"),
            *([Column("variant", "Variant", align="left")] if several else []),
            Column("base_ms", results.base if not several else "Base", "ms"),
            Column("ms", results.others[0] if not several else "Variant's", "ms"),
            Column("change", "Change", align="left"),
            Column("relative", "Relative"),
            Column("interval", f"{confidence} interval"),
            Column("verdict", "Verdict", align="left", rule=True),
            *([Column("phases", "Planning and execution", align="left")] if apart else []),
            Column(count.lower(), count),
        ],
        [
            Row(
                [words(text), *([words(variant)] if several else []), *_cells(judged, apart=apart)],
                variant=variant,
            )
            for variant, text, judged in rows
        ],
        how.format(base=results.base, confidence=confidence, margin=f"{100 * verdict.margin:.3g}"),
        keys=(("workload", workload.name),),
        lead=2 if several else 1,
        stacked=True,
        sortable=True,
        legend=(("bad", "slower"), ("same", "the same"), ("good", "faster")),
    )


def verdict_cell(query: StepVerdict) -> Cell:
    """Returns the cell with the word of a query, and the reason where its figures do not tell it."""
    verdict = query.verdict
    at_limit = verdict.decided and not verdict.is_bounded
    small = verdict.reason if verdict.aside or at_limit else ""
    mark: Mark = "missing" if verdict.aside and not verdict.n else verdict_mark(verdict.word)
    text = "no comparison" if mark == "missing" else verdict.word
    return Cell(verdict.word, text, mark, verdict.reason, small=small)


def change(ratio: float) -> str:
    """Returns in words how much less or more time something with this relative rate takes: `87 times as
    fast`."""
    if ratio >= 1.995:
        return f"{numbers.significant(ratio, 2)} times as fast"
    return numbers.longer(1 / ratio) if ratio > 0 else numbers.UNKNOWN


def phases_text(phases: Phases) -> str:
    """Returns in words the times of planning and execution on both sides: `planning 0.4 → 2.1 ms, execution
    the same`."""
    return ", ".join(
        f"{name} the same"
        if times.word == "same"
        else f"{name} {numbers.significant(1000 * times.base)} → {numbers.significant(1000 * times.other)} ms"
        for name, times in (("planning", phases.planning), ("execution", phases.execution))
    )


def _cells(query: StepVerdict, *, apart: bool) -> list[Cell]:
    verdict = query.verdict
    ratio = query.ratio
    bounded = verdict.is_bounded
    reach = f"{numbers.ratio(verdict.low)} – {numbers.ratio(verdict.high)}" if bounded else numbers.UNKNOWN
    more = "" if bounded or not verdict.decided else ("≤ " if verdict.word == "slower" else "≥ ")
    return [
        _time(query.base_rate, query.ends[0]),
        _time(query.other_rate, query.ends[1]),
        missing("no pair") if ratio is None else words(change(ratio)),
        missing("no pair") if ratio is None else Cell(ratio, f"{more}{numbers.ratio(ratio)}"),
        Cell(None, reach),
        verdict_cell(query),
        *([missing() if query.phases is None else words(phases_text(query.phases))] if apart else []),
        Cell(verdict.n, numbers.count(verdict.n)),
    ]


def _time(rate: float | None, end: str) -> Cell:
    if end:
        text = "rejected" if end == "rejected" else "limit"
        return Cell(
            None, text, "missing", "the server rejects it" if end == "rejected" else "cancelled at its limit"
        )
    return missing() if not rate else Cell(1000 / rate, numbers.significant(1000 / rate))


def _place(query: StepVerdict) -> tuple[int, float]:
    """Returns the sort key of a query: slower queries first, then faster ones, each by how much."""
    ratio = query.ratio or 1.0
    word = query.verdict.word
    return _ORDER[word], ratio if word == "slower" else -ratio if word == "faster" else 0.0


__all__ = ["change", "phases_text", "query_table", "verdict_cell", "verdict_table"]

"""Why single queries differ from the base, and what helps: sentences, nodes that moved, remedies tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgstrata import numbers
from pgstrata.judge.compare import StepVerdict
from pgstrata.judge.marks import verdict_mark
from pgstrata.judge.query_causes import QueryCause, Remedy
from pgstrata.page.blocks import Block, Cell, Column, Listing, Row, Table, missing, words
from pgstrata.page.results import RunSet, WorkloadResults
from pgstrata.report.sections.query_times import (
    TimedQuery,
    difference_text,
    functions,
    nodes_table,
    timed_queries,
    title_of,
)
from pgstrata.report.sections.query_verdicts import verdict_cell
from pgstrata.stats.verdict import Word
from pgstrata.store.record import FOR_ONE_QUERY

_HOW_CAUSES = (
    "Where the plan differs, the variant executed the query with the plan of {base} in turn with {base} and "
    "with its own plan: what is left of the difference is the executor's, the rest the planner's. Where the "
    "plan is the same, all of it is the executor's. Figures are times of one execution with their "
    "{confidence} intervals."
)

_HOW_REMEDIES = (
    "Each was tried on {variant} in turn with the query as it is, in a transaction that was rolled back; an "
    "index was created and dropped again. Time is that of an execution with the remedy ÷ without; the "
    "interval allows for how many were tried. Other queries: those of the same set, executed in the same way."
)


@dataclass(frozen=True)
class Explained:
    """A query with a cause. name: as its table of verdicts calls it; word, change: its verdict, and what a
    table says of it."""

    variant: str
    name: str
    word: Word
    change: Cell
    confidence: float
    cause: QueryCause


def explained(results: RunSet, workload: WorkloadResults) -> list[Explained]:
    """Returns the queries that have a cause, those that are slower first, the largest changes first."""
    explanations = [
        (query, _explained(comparison.other, query.step.removeprefix(f"{step.step}."), query, query.cause))
        for comparison in results.comparisons
        for step in comparison.steps
        if step.workload == workload.name
        for query in step.queries
        if query.cause is not None
    ]
    explanations.sort(key=lambda each: (each[0].verdict.word != "slower", -_size(each[0])))
    return [explanation for _, explanation in explanations]


def _explained(variant: str, name: str, query: StepVerdict, cause: QueryCause) -> Explained:
    verdict = query.verdict
    return Explained(variant, name, verdict.word, verdict_cell(query), verdict.confidence, cause)


def _size(query: StepVerdict) -> float:
    ratio = query.ratio or 1.0
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def cause_lines(results: RunSet, workload: WorkloadResults) -> Iterator[tuple[str, str]]:
    """Yields title and text of what a terminal says of each query."""
    timed = {
        (timed_query.variant, timed_query.name): timed_query
        for timed_query in timed_queries(results, workload)
    }
    for explanation in explained(results, workload):
        text = f"{explanation.word}: {explanation.cause.sentence}."
        query = timed.pop((explanation.variant, explanation.name), None)
        if query is not None:
            text += _times_text(query)
        if explanation.cause.advice:
            text += f" What helps: {explanation.cause.advice}."
        if query is not None:
            text = " ".join((text, *functions(results, workload, query)))
        yield title_of(results, explanation.name, explanation.variant), text
    for query in timed.values():
        text = f"{query.verdict.verdict.word}.{_times_text(query)}"
        yield (
            title_of(results, query.name, query.variant),
            " ".join((text, *functions(results, workload, query))),
        )


def _times_text(query: TimedQuery) -> str:
    parts = query.verdict.parts
    return "" if parts is None else f" Where the time went: {difference_text(parts)}."


def cause_blocks(results: RunSet, workload: WorkloadResults) -> list[Block]:
    """Returns tables of causes and remedies, and the statements that help; empty without any."""
    return _blocks(results, workload, explained(results, workload), nodes=False)


def explained_blocks(
    results: RunSet, workload: WorkloadResults, explanations: list[Explained]
) -> list[Block]:
    """Returns the same of statements of a replay that are explained."""
    return _blocks(results, workload, explanations, nodes=True)


def _blocks(
    results: RunSet, workload: WorkloadResults, explanations: list[Explained], *, nodes: bool
) -> list[Block]:
    if not explanations:
        return []
    blocks: list[Block] = [_causes(results, workload, explanations)]
    if sql := remedies_as_sql(explanations):
        blocks.append(Listing("What helps, as SQL", sql, open=True))
    tables = (
        _nodes(results, workload, explanations) if nodes else None,
        _remedies(results, workload, explanations),
    )
    blocks += [table for table in tables if table is not None]
    blocks += [_plans(results, explanation) for explanation in explanations if explanation.cause.differences]
    return blocks


def _lead(results: RunSet, explanation: Explained) -> list[Cell]:
    return [words(explanation.name), *([words(explanation.variant)] if len(results.others) > 1 else [])]


def _lead_columns(results: RunSet) -> list[Column]:
    variant = [Column("variant", "Variant", align="left")] if len(results.others) > 1 else []
    return [Column("query", "Query", align="left"), *variant]


def _causes(results: RunSet, workload: WorkloadResults, explanations: list[Explained]) -> Table:
    confidence = explanations[0].confidence
    return Table(
        "query-causes",
        f"Why, and what helps: {workload.name} against {results.base}",
        [
            *_lead_columns(results),
            Column("sentence", "Why", align="left"),
            Column("advice", "What helps", align="left"),
            Column("verdict", "Verdict", align="left"),
        ],
        [
            Row(
                [
                    *_lead(results, explanation),
                    words(explanation.cause.sentence),
                    words(explanation.cause.advice or "not looked for: it is faster"),
                    explanation.change,
                ],
                variant=explanation.variant,
            )
            for explanation in explanations
        ],
        _HOW_CAUSES.format(base=results.base, confidence=f"{100 * confidence:.0f} %"),
        keys=(("workload", workload.name),),
        lead=2 if len(results.others) > 1 else 1,
        notes=tuple(
            f"{explanation.name}: {note}." for explanation in explanations for note in explanation.cause.notes
        ),
    )


def remedies_as_sql(explanations: Sequence[Explained]) -> str:
    """Returns the statements of the best proven remedies, each below what it is for; empty without any."""
    return "\n".join(line for explanation in explanations for line in _statements(explanation)).rstrip()


def _statements(explanation: Explained) -> list[str]:
    best = explanation.cause.remedy
    if best is None:
        return []
    scope = ", in the transaction of the query" if best.kind in FOR_ONE_QUERY else ""
    if best.kind == "rewrite":
        scope = ", instead of the query"
    return [f"-- {explanation.name} on {explanation.variant}{scope}", *(f"{sql};" for sql in best.sql), ""]


def _nodes(results: RunSet, workload: WorkloadResults, explanations: list[Explained]) -> Table | None:
    nodes = [
        (explanation.name, explanation.variant, explanation.cause.nodes)
        for explanation in explanations
        if explanation.cause.nodes
    ]
    if not nodes:
        return None
    variant = "Variant" if len(results.others) > 1 else results.others[0]
    return nodes_table(results, variant, nodes, [("workload", workload.name)])


def _remedies(results: RunSet, workload: WorkloadResults, explanations: list[Explained]) -> Table | None:
    rows = []
    for explanation in explanations:
        for number, remedy in enumerate(explanation.cause.remedies):
            rows.append(
                Row(
                    [
                        *_lead(results, explanation),
                        words("; ".join(remedy.sql)),
                        *_measured(remedy),
                        words(remedy.on_others or "not measured"),
                    ],
                    "next" if number else "",
                    explanation.variant,
                )
            )
    if not rows:
        return None
    variant = results.others[0] if len(results.others) == 1 else "the variant"
    return Table(
        "query-remedies",
        "Remedies that were tried",
        [
            *_lead_columns(results),
            Column("remedy", "Remedy", align="left"),
            Column("times", "Time"),
            Column("interval", "Interval"),
            Column("verdict", "Verdict", align="left"),
            Column("pairs", "Pairs"),
            Column("others", "Other queries", align="left"),
        ],
        rows,
        _HOW_REMEDIES.format(variant=variant),
        keys=(("workload", workload.name),),
        lead=2 if len(results.others) > 1 else 1,
        legend=(("good", "proven to help"), ("bad", "proven to be slower")),
    )


def _measured(remedy: Remedy) -> list[Cell]:
    mark = verdict_mark(remedy.word)  # type: ignore[arg-type]
    verdict = Cell(remedy.word, remedy.word, mark, remedy.reason)
    if remedy.times is None:
        return [missing(remedy.reason), Cell(None, numbers.UNKNOWN), verdict, Cell(0, "0")]
    bound = "≤ " if remedy.at_most else ""
    reach = numbers.UNKNOWN if remedy.at_most else remedy.times.interval
    return [
        Cell(remedy.times.ratio, f"{bound}{numbers.ratio(remedy.times.ratio)}"),
        Cell(None, reach),
        verdict,
        Cell(remedy.pairs, numbers.count(remedy.pairs)),
    ]


def _plans(results: RunSet, explanation: Explained) -> Listing:
    """Lists the differences between the planners' decisions, one below the other: lines are long."""
    lines = []
    for label, place in ((results.base, 0), (explanation.variant, 1)):
        lines += [f"only on {label}:"]
        lines += [f"    {pair[place]}" for pair in explanation.cause.differences if pair[place]] or [
            "    nothing"
        ]
    if explanation.cause.old_plan:
        lines += [f"what brings the plan of {results.base}:"]
        lines += [f"    {sql}" for sql in explanation.cause.old_plan]
    return Listing(f"{explanation.name}: how the plan of {explanation.variant} differs", "\n".join(lines))


__all__ = ["Explained", "cause_blocks", "cause_lines", "explained_blocks", "remedies_as_sql"]

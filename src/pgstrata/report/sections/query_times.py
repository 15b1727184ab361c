"""Where the time of single queries went: parts of an execution that add up, nodes below them, and how to get
the names of functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgstrata import numbers
from pgstrata.judge.compare import StepVerdict
from pgstrata.judge.query_parts import PartName, QueryParts
from pgstrata.page.blocks import Block, Cell, Column, Prose, Row, Section, Table, words
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor
from pgstrata.report.parts import report_parts
from pgstrata.report.sections.again import count_command
from pgstrata.report.time_parts import LEAST, part_columns, part_rows, signed
from pgstrata.store.record import NodeMoved

_NAMES: dict[PartName, tuple[str, str]] = {
    "planning": (
        "planning",
        "On a CPU, until it was parsed, planned and bound; by EXPLAIN where the protocol does not tell.",
    ),
    "execution": ("execution on a CPU", "Of the backend; parallel workers are not in it."),
    "files": ("reading files", "In reading tables and indexes, and in temporary files (track_io_timing)."),
    "cpu_wait": ("waiting for a CPU", "Ready to run while other processes had the CPUs."),
    "other_waits": ("other waits", "The rest: locks, parallel workers, the network, what is not known."),
}

_HOW = (
    "The mean execution of {pairs}. Parts exclude each other: time on a CPU and waiting for one are the "
    "kernel's, of the backend in these executions; reading files is that of EXPLAIN (ANALYZE, BUFFERS) once; "
    "other waits are the rest of the clock. They show where the time went and prove nothing by themselves."
)

_HOW_NODES = (
    "Nodes whose own time, without the nodes below them, or pages moved, by EXPLAIN (ANALYZE, BUFFERS) once "
    "on each server: they show where the time went and prove nothing. Pages are those of tables, indexes and "
    "temporary files."
)


@dataclass(frozen=True)
class TimedQuery:
    """A query that differs. step: whose query it is; name: as its table of verdicts calls it."""

    step: StepResults
    variant: str
    name: str
    verdict: StepVerdict


def timed_queries(results: RunSet, workload: WorkloadResults) -> list[TimedQuery]:
    """Returns the queries of which it is known where their time went, those that are slower first, the
    largest changes first."""
    steps = {step.name: step for step in workload.compared}
    queries = [
        TimedQuery(steps[step.step], comparison.other, query.step.removeprefix(f"{step.step}."), query)
        for comparison in results.comparisons
        for step in comparison.steps
        if step.workload == workload.name and step.step in steps
        for query in step.queries
        if query.parts is not None or (query.cause is not None and query.cause.nodes)
    ]
    return sorted(
        queries,
        key=lambda timed_query: (timed_query.verdict.verdict.word != "slower", -_size(timed_query.verdict)),
    )


def _size(query: StepVerdict) -> float:
    ratio = query.ratio or 1.0
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def time_section(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns a folded part for each query; None where nothing is known of any."""
    parts = [_part(results, workload, query) for query in timed_queries(results, workload)]
    if not parts:
        return None
    title = f"Where the time of queries went ({workload.name})"
    return Section(anchor("query-times", workload.name), title, parts=parts, quiet=True)


def _part(results: RunSet, workload: WorkloadResults, query: TimedQuery) -> Section:
    blocks: list[Block] = []
    parts, cause = query.verdict.parts, query.verdict.cause
    keys = (("workload", workload.name), ("query", query.name), ("variant", query.variant))
    title = title_of(results, query.name, query.variant)
    if parts is not None:
        blocks.append(parts_table(parts, results.base, query.variant, keys))
    if cause is not None and cause.nodes:
        nodes = [*cause.nodes, *([cause.all_nodes] if cause.all_nodes is not None else [])]
        blocks.append(nodes_table(results, query.variant, [("", query.variant, nodes)], keys))
    blocks += [Prose(text, "even") for text in functions(results, workload, query)]
    if parts is not None:
        title += f": {difference_text(parts)}"
    return Section(anchor("query-time", workload.name, query.variant, query.name), title, blocks, folded=True)


def title_of(results: RunSet, name: str, variant: str) -> str:
    """Returns the name of a query, with its variant where there are several."""
    return f"{name} on {variant}" if len(results.others) > 1 else name


def parts_table(parts: QueryParts, base: str, variant: str, keys: Sequence[tuple[str, str]]) -> Table:
    """Returns the table of the parts. base, variant: titles of its columns."""
    names = [words(_label(part.name, parts), _NAMES[part.name][1]) for part in parts.parts]
    rows = part_rows(parts, names, words("measured", "Mean of the executions."), "ms")
    notes = []
    if parts.pages is not None:
        ours, theirs = map(numbers.count, parts.pages)
        where = f"{ours} on {base}, {theirs} on {variant}"
        notes.append(f"Pages read from files in one execution: {where}.")
        if not parts.files_are_timed:
            notes.append("How long that took is not known: track_io_timing is off.")
    return Table(
        "query-parts",
        "Parts of an execution",
        part_columns(base, variant, "ms"),
        rows,
        _HOW.format(pairs=numbers.counted(parts.pairs, "pair")),
        keys=keys,
        notes=tuple(notes),
    )


def _label(name: PartName, parts: QueryParts) -> str:
    label = _NAMES[name][0]
    return f"planning and {label}" if name == "execution" and not parts.is_planning_apart else label


def difference_text(parts: QueryParts) -> str:
    """Returns where the difference of an execution went, in a few words."""
    sign = 1 if parts.difference >= 0 else -1
    chosen = sorted(parts.parts, key=lambda part: -sign * part.difference)
    named = [
        f"{_label(part.name, parts)} {signed(part.difference, 'ms')}"
        for part in chosen
        if abs(part.difference) >= LEAST * abs(parts.difference)
    ]
    if (rest := parts.unexplained) is not None:
        named.append(f"unexplained {signed(rest, 'ms')}")
    return f"{signed(parts.difference, 'ms')} ms an execution: {', '.join(named)}"


def functions(results: RunSet, workload: WorkloadResults, query: TimedQuery) -> list[str]:
    """Returns what counted instructions say of the functions of a query, else the command that counts them,
    where its difference is on a CPU."""
    step = replace(query.step, name=query.verdict.step)
    known = (part.explanation(results, workload.name, step, query.variant) for part in report_parts())
    if texts := list(filter(None, known)):
        return [f"{text}." for text in texts]
    parts = query.verdict.parts
    if parts is None or parts.largest.name not in ("planning", "execution"):
        return []
    both = (results.base, query.variant)
    runs = [run for variant in both for run in workload.runs if run.variant == variant]
    command = count_command(results, runs, query.verdict.step)
    return [f"Which functions, by counted instructions: {command}"] if command else []


# --- nodes ------------------------------------------------------------------------------------


def nodes_table(
    results: RunSet,
    variant: str,
    nodes: Sequence[tuple[str, str, Sequence[NodeMoved]]],
    keys: Sequence[tuple[str, str]],
) -> Table:
    """Returns nodes that moved. variant: title of its columns; nodes: of each query by its name, empty where
    the table is about one, and its variant."""
    has_facts = any(node.base_fact or node.other_fact for _, _, moved in nodes for node in moved)
    named = any(name for name, _, _ in nodes)
    several = named and len(results.others) > 1
    rows = [
        Row(
            [
                *([words(name)] if named else []),
                *([words(of)] if several else []),
                words(node.node),
                _milliseconds(node.base_ms),
                _milliseconds(node.other_ms),
                _pages(node.base_ms, node.base_buffers + node.base_temporary),
                _pages(node.other_ms, node.other_buffers + node.other_temporary),
                *(
                    [words(" → ".join(dict.fromkeys(filter(None, (node.base_fact, node.other_fact)))))]
                    if has_facts
                    else []
                ),
            ],
            "next" if named and number else "",
            of,
        )
        for name, of, moved in nodes
        for number, node in enumerate(moved)
    ]
    return Table(
        "query-nodes",
        "Nodes that moved",
        [
            *([Column("query", "Query", align="left")] if named else []),
            *([Column("variant", "Variant", align="left")] if several else []),
            Column("node", "Node", align="left"),
            Column("base_ms", results.base, "ms"),
            Column("ms", variant, "ms"),
            Column("base_pages", results.base, "pages"),
            Column("pages", variant, "pages"),
            *([Column("fact", "How", align="left")] if has_facts else []),
        ],
        rows,
        _HOW_NODES,
        keys=keys,
        lead=1 + several,
    )


def _milliseconds(value: float | None) -> Cell:
    return _no_node() if value is None else Cell(value, numbers.significant(value))


def _pages(milliseconds: float | None, pages: int) -> Cell:
    return _no_node() if milliseconds is None else Cell(pages, numbers.count(pages))


def _no_node() -> Cell:
    return Cell(None, numbers.UNKNOWN, note="no such node")


__all__ = [
    "TimedQuery",
    "difference_text",
    "functions",
    "nodes_table",
    "parts_table",
    "time_section",
    "timed_queries",
    "title_of",
]

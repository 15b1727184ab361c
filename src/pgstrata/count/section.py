"""Counted instructions: a table and a chart of each workload, and the functions that account for what
differs.

A section of its own, without a rate in it: nothing here was timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from pgstrata import numbers
from pgstrata.count.functions import costs_of, sentence
from pgstrata.count.results import counts_of
from pgstrata.count.verdicts import CountVerdict
from pgstrata.judge.functions import FunctionChange, function_changes
from pgstrata.judge.marks import Mark
from pgstrata.judge.phases import LEAST_SHARE, PartChange, file_changes, part_changes
from pgstrata.page.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Picture,
    Prose,
    Row,
    Section,
    Table,
    missing,
    words,
)
from pgstrata.page.charts import PALETTE, SHOWN_AT_FIRST, axis, color, label, legend_above, rounded, trace
from pgstrata.page.results import RunSet, anchor, natural
from pgstrata.report.flames import Flames
from pgstrata.stats.verdict import is_bounded
from pgstrata.store.choose import Side
from pgstrata.store.counted import COUNTED
from pgstrata.store.record import CountedStep, CountRecord

FLOOR, CEILING = 0.80, 1.50
"""Where bars of the chart are cut, as those of relative rates."""

LEAST_REACH = 0.01
"""To either side of 1 on its axis, which is otherwise as long as its bars: counts tell small differences."""

FUNCTIONS = 12
"""Functions, and source files, listed of each step that differs."""

FEWEST_VERSIONS = 3
STEPS_PER_CHART = 8

_COLUMNS = (
    Column("before", "Before", "instructions/o"),
    Column("after", "After", "instructions/o"),
    Column("difference", "Difference", "instructions/o"),
    Column("share", "Of the base", "%"),
)

_MARKS: Mapping[str, Mark] = {"more": "bad", "fewer": "good", "same": "same", "unclear": "even"}


def counted_section(results: RunSet, flames: Flames) -> Section | None:
    """Returns the section about counted instructions; None if nothing was counted."""
    workloads = results.counted_workloads
    if not workloads:
        return None
    parts: list[Section] = []
    blocks: list[Block] = [Prose(text, "even") for text in _facts(results)]
    for workload in workloads:
        blocks.append(count_table(results, workload))
        if results.others:
            blocks += _charts(results, workload)
        blocks += _trend(results, workload)
        parts += _functions(results, workload, flames)
    blocks += [
        Prose(f"{run.variant} could not be counted: {run.record.error.message}", "bad")
        for run in results.counted
        if run.record.error is not None
    ]
    notes = dict.fromkeys(note for comparison in counts_of(results).comparisons for note in comparison.notes)
    blocks += [Prose(note, "even") for note in notes]
    return Section("instructions", "Instructions per operation, counted", blocks, parts=parts)


def _facts(results: RunSet) -> list[str]:
    records = [record for run in results.counted if (record := run.record.counted) is not None]
    tools = ", ".join(sorted({f"{record.engine} ({record.tool})" for record in records}))
    settings = sorted({f"{name} = {value}" for record in records for name, value in record.settings.items()})
    facts = [
        "Counted, not timed: instructions that the backend of a role executes in user mode for one "
        "operation. More instructions are not the same as slower: waiting, caches and locks are not in "
        f"them. Counted by {tools}; while counting {', '.join(settings)}."
    ]
    if any(record.simulated for record in records):
        facts.append(
            "Caches and branches were simulated, not measured: view `instructions`, columns `simulated_…`."
        )
    return facts


def _steps(results: RunSet, workload: str) -> list[tuple[CountedStep, str]]:
    """Returns steps and roles in their order, from whichever variant has them."""
    steps: dict[tuple[str, str], CountedStep] = {}
    for record in counts_of(results).of(workload).values():
        for step in record.steps:
            for role in sorted(step.roles, key=lambda name: name != step.role):
                steps.setdefault((step.name, role), step)
    return [(step, role) for (_, role), step in sorted(steps.items(), key=lambda item: item[1].order)]


def _name(step: CountedStep, role: str) -> str:
    return step.name if role == step.role else f"{step.name}, {role}"


def count_table(results: RunSet, workload: str) -> Table:
    """Returns the instructions per operation of the base, and every other variant as a multiple of them."""
    counts = counts_of(results)
    base = counts.of(workload).get(results.base)
    columns = [Column("step", "Step", align="left"), Column(results.base, results.base, "instructions/o")]
    columns += [Column("left out", "Left out", "%")]
    columns += [Column(variant, variant, "÷ base", rule=True) for variant in results.others]
    rows = [
        Row(
            [
                words(_name(step, role)),
                _absolute(base, step.name, role),
                _left_out(results, workload, step.name, role),
                *(
                    _relative(counts_of(results).verdict(workload, v, step.name, role))
                    for v in results.others
                ),
            ]
        )
        for step, role in _steps(results, workload)
    ]
    return Table(
        name="instructions",
        title=f"Instructions per operation: {workload}",
        columns=columns,
        rows=rows,
        how=f"In the first column the instructions per operation of {results.base}, beside it the others as "
        "a multiple of them: above 1 is more. Behind each its 95 % interval over fresh starts. Coloured is "
        "what is proven to be beyond the margin of the count (docs/guides/count.md). Left out: the largest "
        "share of an operation, of any variant, that is not in these figures, because time decides whether "
        "it runs.",
        keys=(("workload", workload),),
        legend=(("bad", "more instructions"), ("good", "fewer instructions"), ("same", "the same")),
    )


def _absolute(record: CountRecord | None, step: str, role: str) -> Cell:
    for counted_step in record.steps if record else ():
        if counted_step.name == step and role in counted_step.roles and counted_step.roles[role].instructions:
            value = mean(counted_step.roles[role].instructions)
            return Cell(round(value, 1), numbers.count(value))
    return missing("not counted")


def _left_out(results: RunSet, workload: str, step: str, role: str) -> Cell:
    """Returns the largest share of an operation that is left out, over all variants, as a cell."""
    shares = [
        mean(counts.timed) / (mean(counts.timed) + mean(counts.instructions))
        for record in counts_of(results).of(workload).values()
        for counted in record.steps
        if counted.name == step
        and (counts := counted.roles.get(role))
        and counts.timed
        and counts.instructions
    ]
    return Cell(round(max(shares), 6), f"{max(shares) * 100:.2f}") if shares else missing("not known")


def _relative(verdict: CountVerdict | None) -> Cell:
    if verdict is None or verdict.other is None:
        return missing(verdict.reason if verdict else "not counted")
    known = is_bounded(verdict.low, verdict.high)
    interval = f"{verdict.low:.4f} – {verdict.high:.4f}" if known else ""
    return Cell(
        round(verdict.ratio, 6),
        f"{verdict.ratio:.4f}",
        _MARKS[verdict.word],
        f"{verdict.word}: {verdict.reason}",
        small=interval,
    )


# --- charts -----------------------------------------------------------------------------------


def _charts(results: RunSet, workload: str) -> list[Block]:
    steps = [(step, role) for step, role in _steps(results, workload)]
    groups: dict[str, list[tuple[CountedStep, str]]] = {}
    for step, role in steps:
        groups.setdefault(step.group if len(steps) > 12 else "", []).append((step, role))
    return [_chart(results, workload, group, group_steps) for group, group_steps in groups.items()]


def _chart(results: RunSet, workload: str, group: str, steps: Sequence[tuple[CountedStep, str]]) -> Chart:
    data: list[dict[str, Any]] = []
    for variant in results.others:
        verdicts = [counts_of(results).verdict(workload, variant, step.name, role) for step, role in steps]
        ratios = [v.ratio if v is not None and v.other is not None else None for v in verdicts]
        shown = [None if r is None else min(max(r, FLOOR), CEILING) for r in ratios]
        index = results.color(variant)
        data.append(
            trace(
                variant,
                index,
                shown=index < SHOWN_AT_FIRST + 1,
                type="bar",
                x=[label(_name(step, role)) for step, role in steps],
                y=[None if s is None else round(s - 1, 5) for s in shown],
                base=1,
                text=["" if r == s or r is None else f"{r:.2f}" for r, s in zip(ratios, shown, strict=True)],
                textposition="inside",
                insidetextanchor="end",
                textangle=-90,
                insidetextfont={"color": "#fff"},
                constraintext="none",
                customdata=[label("" if v is None else f"{v.ratio:.5f}, {v.word}") for v in verdicts],
                hovertemplate=f"%{{x}}: %{{customdata}}<extra>{label(variant)}</extra>",
                marker={"color": color(index)},
            )
        )
    what = f"{workload}, {group}" if group else workload
    ends = [1 + y for bars in data for y in bars["y"] if y is not None]
    low = min([1 - LEAST_REACH, *ends])
    high = max([1 + LEAST_REACH, *ends])
    beyond = (high - low) * 0.05
    return Chart(
        id=anchor("instructions", workload, group),
        title=f"Instructions per operation by step: {what} — above 1 is more than {results.base}",
        data=data,
        layout={
            "barmode": "group",
            "bargap": 0.28,
            "showlegend": True,
            "legend": legend_above(1.02),
            "margin": {"l": 50, "r": 12, "t": 40, "b": 40},
            "xaxis": axis(type="category", tickangle="auto", showgrid=False),
            "yaxis": axis(range=[round(low - beyond, 4), round(high + beyond, 4)], tickformat=".3f"),
            "shapes": [
                {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": 1, "y1": 1,
                 "line": {"width": 1.4, "color": "#888"}},
            ],
        },
        height=330,
        how=f"Bars start at 1, the instructions of {results.base}. A bar that would leave the axis is cut, "
        "and its value is written on it. Intervals are too small to be seen; the table has them.",
    )  # fmt: skip


def _trend(results: RunSet, workload: str) -> list[Block]:
    """Returns charts of the counts along versions with the same config, if there are at least three versions:
    no shift has to be looked for."""
    rows: dict[str, dict[str, int]] = {}
    for run in results.counted:
        rows.setdefault(run.record.config.name, {})[run.variant] = run.record.server.version_num
    records = counts_of(results).of(workload)
    blocks: list[Block] = []
    for row in rows.values():
        versions = sorted((v for v in row if v in records), key=lambda v: (row[v], natural(v)))
        if len(versions) < FEWEST_VERSIONS or len({row[v] for v in versions}) < len(versions):
            continue
        steps = [(step, role) for step, role in _steps(results, workload) if role == step.role]
        for begin in range(0, len(steps), STEPS_PER_CHART):
            blocks.append(_line_chart(records, workload, versions, steps[begin : begin + STEPS_PER_CHART]))
    return blocks


def _line_chart(
    records: Mapping[str, CountRecord],
    workload: str,
    versions: Sequence[str],
    steps: Sequence[tuple[CountedStep, str]],
) -> Chart:
    data = []
    for index, (step, role) in enumerate(steps):
        counts = [_absolute(records[v], step.name, role).value for v in versions]
        values = [float(c) if isinstance(c, int | float) else None for c in counts]
        first = next((v for v in values if v), None)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": label(step.name),
                "x": [label(v) for v in versions],
                "y": rounded([v / first if v is not None and first else None for v in values]),
                "line": {"color": PALETTE[index % len(PALETTE)], "width": 1.6},
                "hovertemplate": f"%{{x}}: %{{y:.4f}}<extra>{label(step.name)}</extra>",
            }
        )
    return Chart(
        id=anchor("instructions-trend", workload, versions[0], steps[0][0].name),
        title=f"Instructions per operation of {workload}, {versions[0]} to {versions[-1]} — higher is more",
        data=data,
        layout={
            "margin": {"l": 60, "r": 12, "t": 40, "b": 50},
            "showlegend": True,
            "legend": legend_above(1.02),
            "xaxis": axis(type="category"),
            "yaxis": axis(f"instructions relative to\n{versions[0]}"),
        },
        height=360,
        how=f"Instructions per operation ÷ those of {versions[0]}.",
    )


# --- functions --------------------------------------------------------------------------------


def _functions(results: RunSet, workload: str, flames: Flames) -> list[Section]:
    """Returns a folded section for each step that differs."""
    parts = []
    for step, role in _steps(results, workload):
        tables: list[Block] = []
        for variant in results.others:
            verdict = counts_of(results).verdict(workload, variant, step.name, role)
            if verdict is not None and verdict.word in ("more", "fewer"):
                base, other = (counts_of(results).side(name) for name in (results.base, variant))
                tables += difference_tables(base, other, verdict)
                tables += _picture(results, flames, verdict, variant)
        if tables:
            name = _name(step, role)
            parts.append(
                Section(
                    anchor("functions", workload, name), f"Functions: {workload}, {name}", tables, folded=True
                )
            )
    return parts


def _picture(results: RunSet, flames: Flames, verdict: CountVerdict, variant: str) -> list[Block]:
    key = (f"{verdict.workload}{COUNTED}", verdict.step, verdict.role)
    flame = flames.get(key, {}).get(variant)
    if flame is None or flame.difference is None:
        return []
    return [
        Picture(
            flame.difference,
            f"Instructions of {variant} against {results.base}",
            "Each box is a function, the width its share of the instructions of an operation, what it called "
            "above it; red frames have a larger share than the base's, blue ones a smaller. Stacks are of "
            "the call graph: a function with several callers is divided among them by what each call cost.",
            variant,
        )
    ]


def difference_tables(base: Side, other: Side, verdict: CountVerdict) -> list[Table]:
    """Returns the tables of the parts of the server and of the functions that account for a verdict; none if
    a side has no functions. Raises StoreError for a damaged table."""
    costs = costs_of(base, other, verdict.workload, verdict.step, verdict.role)
    changes = function_changes(*costs)
    if not changes:
        return []
    return [
        _part_table(verdict, other.name, base.name, part_changes(*costs)),
        *_file_tables(verdict, other.name, base.name, file_changes(*costs)),
        _function_table(verdict, other.name, base.name, changes),
    ]


def _part_table(verdict: CountVerdict, variant: str, base: str, changes: Sequence[PartChange]) -> Table:
    """Returns the table of the parts of the server behind a verdict."""
    how = (
        "Functions that one of them enters by are in that part, all others in those that call them, in "
        "proportion to what those calls cost. All parts together make the step."
    )
    column = Column("part", "Part", align="left")
    title = f"{variant} against {base}: by part of the server"
    return _changes_table(verdict, variant, "instructions-by-part", title, column, changes, how)


def _file_tables(
    verdict: CountVerdict, variant: str, base: str, changes: Sequence[PartChange]
) -> list[Table]:
    """Returns the table of the source files behind a verdict; none where these are not known."""
    if not changes:
        return []
    how = (
        "Inlined code counts for the file that it stands in; what moves between files changes both. "
        f"All together make the difference of the step: {_others(changes)}"
    )
    column = Column("file", "Source file", align="left")
    title = f"{variant} against {base}: by source file"
    shown = changes[:FUNCTIONS]
    return [_changes_table(verdict, variant, "instructions-by-file", title, column, shown, how)]


def _changes_table(
    verdict: CountVerdict,
    variant: str,
    name: str,
    title: str,
    column: Column,
    changes: Sequence[PartChange],
    how: str,
) -> Table:
    rows = [
        Row([words(change.part), *_cells(change.before, change.after, change.share)], variant=variant)
        for change in changes
    ]
    return Table(name, title, [column, *_COLUMNS], rows, how, keys=_keys(verdict, variant))


def _others(changes: Sequence[PartChange] | Sequence[FunctionChange]) -> str:
    """Returns what is in the changes that a table does not list."""
    rest = sum(change.after - change.before for change in changes[FUNCTIONS:])
    return f"{rest:+,.0f} are in {max(0, len(changes) - FUNCTIONS)} others."


def _cells(before: float, after: float, share: float) -> list[Cell]:
    return [
        Cell(round(before, 1), numbers.count(before)),
        Cell(round(after, 1), numbers.count(after)),
        Cell(round(after - before, 1), f"{after - before:+,.0f}", _mark(share)),
        Cell(round(share, 6), f"{share * 100:+.2f}"),
    ]


def _mark(share: float) -> Mark:
    return "" if abs(share) < LEAST_SHARE else "bad" if share > 0 else "good"


def _keys(verdict: CountVerdict, variant: str) -> tuple[tuple[str, str], ...]:
    return (
        ("workload", verdict.workload),
        ("step", verdict.step),
        ("role", verdict.role),
        ("variant", variant),
    )


def _function_table(
    verdict: CountVerdict, variant: str, base: str, changes: Sequence[FunctionChange]
) -> Table:
    """Returns the table of the functions that account for a verdict."""
    rows = [
        Row(
            [
                words(change.function),
                *_cells(change.before, change.after, change.share),
                words(change.remark),
            ],
            variant=variant,
        )
        for change in changes[:FUNCTIONS]
    ]
    return Table(
        name="instructions-by-function",
        title=f"{variant} against {base}: {sentence(verdict, changes)}",
        columns=[
            Column("function", "Function or library", align="left"),
            *_COLUMNS,
            Column("state", "", align="left"),
        ],
        rows=rows,
        how="Instructions in each function itself and in those that it inlines, or calls and the other side "
        f"lacks: what only moved is no difference. All together make that of the step: {_others(changes)}",
        keys=_keys(verdict, variant),
    )

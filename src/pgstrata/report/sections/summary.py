"""The three tables of the summary, worded: what `analyze.summary` says as data, as a reader sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pgstrata import numbers
from pgstrata.judge import summary as analysis
from pgstrata.judge.compare import StepVerdict
from pgstrata.judge.marks import Mark, verdict_mark
from pgstrata.page.blocks import Cell, Column, Row, Table, missing, words
from pgstrata.page.results import RunSet, StepResults, WorkloadResults
from pgstrata.report.verdicts import evidence

MOST_COLUMNS = 12
MOST_LETTERS = 100  # of all their names: what fits beside the name of a variant
MISSED = "SLA missed: less than 95 % of the background writes it was asked for"

_RATES_HOW = (
    "Each number is the rate of a step: for the base the mean over the whole step{repeats}; for the others "
    "the base's times the ratio of their verdict, so that rates and ratios say the same. {colours} Grey "
    "rates must not be compared: the writes in the background did not keep up, so the queries had less to "
    "share the machine with."
)
_QUARTERS = (
    "In each step the best quarter of the range is green, the worst quarter red; nothing is red where the "
    "smallest rate is within 80 % of the largest."
)
_PROVEN = "Green and red are rates that are proven to be faster and slower than the base's."
_ONE_MACHINE = (
    " The workload was measured on {others}, too: rates of different machines differ for reasons that have "
    "nothing to do with PostgreSQL, and only their relative rates stand together."
)
_ACROSS = (
    " Here it is the mean over the machines, each of which compares its own runs: 4 of 5 means that so many "
    "prove the verdict by themselves (see Machines)."
)
_RELATIVE_HOW = (
    "Each number is the rate of a variant divided by the rate of {base} in the same step: 0.90 means "
    "that it does 90 % of the work in the same time. {colours} It is the ratio of the pairs of slices or "
    "repeats that the verdict below it is made of, with its 95 % interval, which holds for this step by "
    "itself; the words slower and faster (margin {margin} %) are adjusted for the number of comparisons. "
    "One run each proves nothing, unless "
    "it is known how much runs differ from one to the next on this host. In grey cells with ✕ one of the two "
    "missed its SLA."
)
_BACKGROUND_HOW = (
    "While a step queries, rows are inserted and deleted at a fixed rate behind it. Each number is what "
    "the slower of the writers reached, over all clients; the target is the last row. Below 95 % of the "
    "target is red: there the server could not keep up, and the query rate of that step is greyed above."
)


def absolute_table(results: RunSet, workload: WorkloadResults) -> Table:
    """Returns the rates by variant and step."""
    several = len(workload.machines) > 1
    repeats = (
        ", and the geometric mean of the repeats with the smallest and the largest below it"
        if results.most_repeats > 1
        else ""
    )

    steps = {step.name: step for step in workload.steps}

    def cell(of: analysis.SummaryCell, variant: str, step: str) -> Cell:
        if of.value is None:
            return absent(results, variant, workload.name)
        note = MISSED if of.mark == "missed" else ""
        mark = of.mark
        if mark != "missed" and not results.by_thresholds:
            proven = verdict_mark(results.word(steps[step], variant))
            mark = proven if proven in ("good", "bad") else ""
        rate = results.rate(steps[step], variant)
        return Cell(rate, numbers.rate(rate), mark, note, small=_range(of, numbers.rate))

    return _table(
        results,
        workload.summary.absolute,
        cell,
        name="rates",
        title=f"Rates: {workload.name}{f' on {workload.machines[0]}' if several else ''} — more is better",
        keys=(("workload", workload.name),),
        how=_RATES_HOW.format(repeats=repeats, colours=_QUARTERS if results.by_thresholds else _PROVEN)
        + (_ONE_MACHINE.format(others=", ".join(workload.machines[1:])) if several else ""),
        legend=(
            ("good", "best quarter" if results.by_thresholds else "proven faster"),
            ("bad", "worst quarter" if results.by_thresholds else "proven slower"),
            ("missed", "SLA missed, not comparable"),
        ),
    )


def relative_table(results: RunSet, workload: WorkloadResults) -> Table | None:
    """Returns the rates relative to the base; None where there is nothing to compare with: no other variant,
    or none that has finished."""
    if not workload.has_any(results.others):
        return None
    low, high = results.thresholds
    colours = (
        f"Up to {low:g} is called slower, from {high:g} faster, whether that is proven or not."
        if results.by_thresholds
        else "A colour means proven: red slower, green faster; = is proven to be the same within the margin; "
        "grey is unclear."
    )
    steps = {step.name: step for step in workload.steps}
    return _table(
        results,
        workload.summary.relative,
        lambda _, variant, step: relative_cell(results, steps[step], variant),
        units=False,
        name="relative-rates",
        title=f"Relative rates: {workload.name} against {results.base}"
        f"{f', across {len(workload.machines)} machines' if len(workload.machines) > 1 else ''} — above 1 is "
        "better",
        keys=(("workload", workload.name),),
        how=_RELATIVE_HOW.format(base=results.base, colours=colours, margin=f"{100 * results.margin:.3g}")
        + (_ACROSS if len(workload.machines) > 1 else ""),
        legend=(
            ("bad", f"slower, ≤ {low:g}" if results.by_thresholds else "proven slower"),
            *(() if results.by_thresholds else (("same", "proven the same"),)),
            ("even", "between" if results.by_thresholds else "unclear"),
            ("good", f"faster, ≥ {high:g}" if results.by_thresholds else "proven faster"),
            ("missed", "SLA missed, not comparable"),
        ),
    )


def background_table(results: RunSet, workload: WorkloadResults) -> Table | None:
    """Returns a table of the background write rates of the steps that have a target; the target is the last
    row. None without any."""
    table = workload.summary.background
    if table is None:
        return None

    def cell(of: analysis.SummaryCell, variant: str, step: str) -> Cell:
        if of.value is None:
            return absent(results, variant, workload.name)
        note = "below 95 % of the target" if of.mark == "bad" else ""
        return Cell(of.value, numbers.rate(of.value), of.mark, note, small=_range(of, numbers.rate))

    return _table(
        results,
        table,
        cell,
        unit="rows/s",
        name="background-rates",
        title=f"Background writes: {workload.name} — the target must be reached",
        keys=(("workload", workload.name),),
        how=_BACKGROUND_HOW,
        legend=(("bad", "below 95 % of the target"),),
    )


def relative_cell(results: RunSet, step: StepResults, variant: str) -> Cell:
    """Returns the relative rate of a variant in a step, with the range of the ratios where there are
    repeats."""
    of = results.ratio(step, variant)
    if of.value is None:
        repeats = step.by_variant.get(variant)
        if repeats is None or repeats.rate is None:
            return absent(results, variant, step.workload)
        judged = results.verdict(step, variant)
        why = judged.verdict.reason if judged is not None else f"{results.base} has no rate here"
        return missing(f"nothing to compare: {why}")
    text = numbers.ratio(of.value)
    if variant == results.base:
        return Cell(
            of.value, text, "missed" if of.mark == "missed" else "", MISSED if of.mark == "missed" else ""
        )
    who = variant if of.sla_met is False else results.base
    note = f"SLA missed by {who}" if of.mark == "missed" else ""
    mark = of.mark
    verdict = results.verdict(step, variant)
    if mark != "missed" and verdict is not None and verdict.verdict.aside:
        mark = "even"  # whatever the thresholds say
    if mark != "missed" and not results.by_thresholds:
        mark = verdict_mark(results.word(step, variant))
    return Cell(
        of.value,
        text,
        mark,
        note or _why(results, step, variant),
        small=_judged(results, step, variant),
    )


def _judged(results: RunSet, step: StepResults, variant: str) -> str:
    """Returns the verdict and its interval, as short as possible."""
    verdict = results.verdict(step, variant)
    if verdict is None:
        return ""
    if verdict.queries:
        return word_counts(verdict)
    v = verdict.verdict
    if v.is_bounded:
        reach = f"{numbers.ratio(v.low)} – {numbers.ratio(v.high)}"
        if verdict.across is not None and v.decided:
            # On how many machines, each by itself.
            alone = sum(machine_verdict.word == v.word for machine_verdict in verdict.across.machines)
            return f"{alone} of {len(verdict.across.machines)}, {reach}"
        return f"{v.word} {reach}"
    return f"{v.word}: one run each" if v.single_run else v.word


def word_counts(step: StepVerdict) -> str:
    """Returns in words how many queries of a step have which verdict, where queries have verdicts of their
    own."""
    counts = Counter(query.verdict.word if query.is_compared else "not compared" for query in step.queries)
    order = ("slower", "faster", "same", "unclear", "not compared")
    return ", ".join(f"{counts[word]} {word}" for word in order if counts[word])


def _why(results: RunSet, step: StepResults, variant: str) -> str:
    """Returns the evidence and the reason of a verdict."""
    verdict = results.verdict(step, variant)
    if verdict is None:
        return ""
    if verdict.queries:
        return "the sum is of one pass over all queries on each side; each query has a verdict of its own"
    across = f"{verdict.across.summary(verdict.verdict)}; " if verdict.across is not None else ""
    return f"{across}{evidence(verdict)}: {verdict.verdict.reason}"


def _range(of: analysis.SummaryCell, write: Callable[[float | None], str]) -> str:
    """Returns smallest and largest over the repeats, if there are several."""
    return f"{write(of.low)} – {write(of.high)}" if of.low != of.high else ""


def absent(results: RunSet, variant: str, workload: str) -> Cell:
    """Returns the cell of a rate that is not there, which says why."""
    if why := results.cannot(variant, workload):
        return Cell(None, "not possible", "missing", why)
    if results.has_failed(variant):
        return Cell(None, "failed", "missing", "its run failed, see Failed runs")
    return missing()


def _table(
    results: RunSet,
    table: analysis.SummaryTable,
    cell: Callable[[analysis.SummaryCell, str, str], Cell],
    *,
    name: str,
    title: str,
    keys: Sequence[tuple[str, str]],
    how: str,
    legend: Sequence[tuple[Mark, str]],
    units: bool = True,
    unit: str = "",
) -> Table:
    """Returns a table with variants as rows while the steps fit into columns; else with steps as rows under
    their groups."""
    steps = table.columns
    worded = [
        [cell(of, row.variant, step.step) for of, step in zip(row.cells, steps, strict=True)]
        for row in table.rows
    ]
    unit_of = [(unit or step.unit) if units else "" for step in steps]
    targets = [Cell(value, numbers.rate(value)) for value in table.target]
    if len(steps) <= MOST_COLUMNS and sum(len(step.step) for step in steps) <= MOST_LETTERS:
        columns = [Column("variant", "Variant", align="left")]
        columns += [Column(step.step, step.step, u) for step, u in zip(steps, unit_of, strict=True)]
        rows = [
            Row([words(v), *cells], "base" if v == results.base else "", v)
            for v, cells in zip((row.variant for row in table.rows), worded, strict=True)
        ]
        if targets:
            rows.append(Row([words("target"), *targets], "target"))
        return Table(name, title, columns, rows, how, keys=keys, legend=legend)
    only_unit = unit_of[0] if len(set(unit_of)) == 1 else None
    columns = [Column("step", "Step", align="left")]
    if only_unit is None:
        columns.append(Column("unit", "Unit", align="left"))
    columns += [Column(row.variant, row.variant, only_unit or "") for row in table.rows]
    if targets:
        columns.append(Column("target", "Target", only_unit or "", rule=True))
    rows = []
    group = ""
    # a group may come again, as sysbench's writes after its reads: each stands in one place
    groups = list(dict.fromkeys(step.group for step in steps))
    for index in sorted(range(len(steps)), key=lambda p: groups.index(steps[p].group)):
        step = steps[index]
        if step.group and step.group != group:
            rows.append(Row([words(step.group)], "group"))
        group = step.group
        cells = [words(step.step), *([] if only_unit is not None else [words(unit_of[index])])]
        cells += [by_variant[index] for by_variant in worded]
        rows.append(Row(cells + ([targets[index]] if targets else [])))
    return Table(name, title, columns, rows, how, keys=keys, legend=legend)

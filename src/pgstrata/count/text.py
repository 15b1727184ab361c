"""Counted instructions as text: verdicts, the functions behind them, and who calls one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from xml.etree import ElementTree

from pgstrata import numbers
from pgstrata.count.doubts import spread, spread_note
from pgstrata.count.functions import costs_of, sentence
from pgstrata.count.verdicts import CountComparison, CountVerdict
from pgstrata.judge.functions import function_changes, line_of
from pgstrata.judge.phases import LEAST_SHARE, PartChange, file_changes, part_changes
from pgstrata.report.verdicts import command_text, markdown_text, property_text, xml_text
from pgstrata.stats.verdict import is_bounded
from pgstrata.store import Results
from pgstrata.store.choose import Side, campaign_runs
from pgstrata.store.counted import counted_runs, plain_workload

COLUMNS = ("workload", "step", "verdict", "instructions", "interval", "base", "other", "left out", "starts")
FUNCTIONS = 5
"""Functions named below a step whose instructions differ."""
PARTS = 4
"""Parts of the server, and source files, named there."""


def sides_of(results: Results, campaign: str, base: str) -> tuple[Side, list[Side]]:
    """Returns the counted runs of a campaign: those of the base, and those of every other variant in the
    campaign's order."""
    runs = counted_runs(campaign_runs(results, campaign))
    labels = sorted(
        {run.variant for run in runs},
        key=lambda v: min(r.record.variant_order for r in runs if r.variant == v),
    )
    sides = {v: Side(v, tuple(run for run in runs if run.variant == v)) for v in labels}
    first = sides.pop(base, Side(base, ()))
    return first, list(sides.values())


def ratio(value: float) -> str:
    """Returns a ratio of counts as text, with the digits that a count has."""
    return f"{value:.5f}" if value == value else numbers.UNKNOWN


def span(verdict: CountVerdict) -> str:
    """Returns the interval as text, or `none`."""
    if not is_bounded(verdict.low, verdict.high):
        return "none"
    return f"{verdict.low:.5f} … {verdict.high:.5f}"


def instructions(value: float | None) -> str:
    """Returns the instructions per operation."""
    return numbers.UNKNOWN if value is None else f"{value:,.0f}"


def beside(verdict: CountVerdict) -> str:
    """Returns the shares of an operation that are left out of the count: of the base, and of the other
    side."""
    shares = verdict.left_out
    return numbers.UNKNOWN if shares is None else f"{shares.base:.2%}, {shares.other:.2%}"


def rows(comparison: CountComparison) -> list[list[str]]:
    """Returns a row for each step and for each further role of it."""
    return [
        [
            s.workload,
            s.name,
            s.word,
            ratio(s.ratio),
            span(s),
            instructions(s.base),
            instructions(s.other),
            beside(s),
            f"{s.starts[0]}+{s.starts[1]}",
        ]
        for s in comparison.steps
    ]


def text(
    base: Side,
    others: Sequence[Side],
    comparisons: Sequence[CountComparison],
    table: Callable[[Sequence[str], Sequence[Sequence[str]]], list[str]],
    *,
    callers: str | None = None,
) -> list[str]:
    """Returns all comparisons as lines: tables (`table` aligns columns), functions that account for
    differences, notes. Raises StoreError."""
    if not others:
        return _alone(base, table)
    lines: list[str] = []
    for other, comparison in zip(others, comparisons, strict=True):
        lines += ["", f"{comparison.other} against {comparison.base}, instructions per operation"]
        lines += table(COLUMNS, rows(comparison))
        for s in comparison.steps:
            if s.word in ("more", "fewer"):
                lines += _functions(base, other, s)
            if callers:
                lines += _callers(base, other, s, callers)
        reasons: dict[str, list[str]] = {}
        for s in comparison.steps:
            if s.word == "unclear":
                reasons.setdefault(s.reason, []).append(s.name)
        lines += [f"unclear: {', '.join(steps)}: {reason}" for reason, steps in reasons.items()]
        lines += comparison.notes
    return lines[1:]


def _alone(side: Side, table: Callable[[Sequence[str], Sequence[Sequence[str]]], list[str]]) -> list[str]:
    cells, notes = [], []
    for run in counted_runs(side.runs):
        counted = run.record.counted
        assert counted is not None
        for step in counted.steps:
            for role, count in step.roles.items():
                name = step.name if role == step.role else f"{step.name}, {role}"
                mean = fmean(count.instructions)
                timed = fmean(count.timed) if count.timed else 0.0
                cells.append(
                    [
                        plain_workload(run),
                        name,
                        instructions(mean),
                        f"{timed / (mean + timed):.2%}" if count.timed else numbers.UNKNOWN,
                        f"{spread(count.instructions):.4%}",
                        str(len(count.instructions)),
                    ]
                )
                if note := spread_note(run.variant, count.instructions, counted.margin):
                    notes.append(f"{name}: {note}: they did not do the same work")
    return table(("workload", "step", "instructions", "left out", "spread", "starts"), cells) + notes


def _functions(base: Side, other: Side, verdict: CountVerdict) -> list[str]:
    costs = costs_of(base, other, verdict.workload, verdict.step, verdict.role)
    changes = function_changes(*costs)
    if not changes:
        return []
    lines = [f"{verdict.name}: {sentence(verdict, changes)}"]
    parts = sorted(part_changes(*costs), key=lambda change: -abs(change.share))
    lines += _parts("part of the server", parts) + _parts("source file", file_changes(*costs))
    for change in changes[:FUNCTIONS]:
        lines.append(
            f"  {change.difference:+12,.0f}  {change.share:+7.2%}  {change.title}"
            f"  ({instructions(change.before)} → {instructions(change.after)})"
        )
    rest = sum(c.difference for c in changes[FUNCTIONS:])
    if changes[FUNCTIONS:]:
        lines.append(f"  {rest:+12,.0f}  in {len(changes) - FUNCTIONS} others")
    return lines


def _parts(of: str, changes: Sequence[PartChange]) -> list[str]:
    large = [f"{part.part} {part.share:+.2%}" for part in changes[:PARTS] if abs(part.share) >= LEAST_SHARE]
    return [f"  by {of}: {', '.join(large)}"] if large else []


def _callers(base: Side, other: Side, verdict: CountVerdict, function: str) -> list[str]:
    sides = [callers_of(side, verdict, function) for side in (base, other)]
    names = sorted({*sides[0], *sides[1]}, key=lambda n: -max(s.get(n, (0, 0.0))[1] for s in sides))
    lines = [f"{verdict.name}: callers of {function}"] if names else []
    for name in names:
        before, after = (side.get(name, (0.0, 0.0)) for side in sides)
        lines.append(
            f"  {name}: {before[0]:,.2f} → {after[0]:,.2f} calls, "
            f"{before[1]:,.0f} → {after[1]:,.0f} instructions"
        )
    return lines


def callers_of(side: Side, verdict: CountVerdict, function: str) -> dict[str, tuple[float, float]]:
    """Returns, by caller, the calls per operation of a function and the instructions of those calls, callees
    included."""
    callers: dict[str, tuple[float, float]] = {}
    for run in counted_runs(side.runs):
        if plain_workload(run) != verdict.workload:
            continue
        for row in run.table("calls"):
            if (row["step"], row["role"]) != (verdict.step, verdict.role):
                continue
            if line_of(row["callee_object"], row["callee"]) == function:
                caller = line_of(row["caller_object"], row["caller"])
                calls, cost = callers.get(caller, (0.0, 0.0))
                callers[caller] = (calls + row["calls"], cost + row["instructions"])
    return callers


# --- for other programs -----------------------------------------------------------------------


def sentence_of(comparison: CountComparison, s: CountVerdict) -> str:
    """Returns the verdict on a step as a single sentence."""
    return (
        f"{s.workload}/{s.name}: {comparison.other} against {comparison.base}: {s.word}, instructions per "
        f"operation {ratio(s.ratio)}, interval {span(s)} ({s.reason})"
    )


def markdown(comparisons: Sequence[CountComparison]) -> str:
    """Returns a Markdown table for each comparison, to paste into a mail or a pull request."""
    parts = []
    for comparison in comparisons:
        head = f"**{markdown_text(comparison.other)}** against **{markdown_text(comparison.base)}**"
        lines = [
            f"{head}, instructions per operation",
            "",
            f"| {' | '.join(COLUMNS)} |",
            f"|{'---|' * len(COLUMNS)}",
        ]
        lines += [f"| {' | '.join(map(markdown_text, row))} |" for row in rows(comparison)]
        lines += ["", *(f"- {markdown_text(note)}" for note in comparison.notes)]
        parts.append("\n".join(lines).rstrip() + "\n")
    return "\n".join(parts)


def junit(comparisons: Sequence[CountComparison]) -> str:
    """Returns JUnit XML: a test per step; steps that need more instructions fail, unclear steps are
    skipped."""
    root = ElementTree.Element("testsuites", name="pgstrata")
    for comparison in comparisons:
        words = [s.word for s in comparison.steps]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=xml_text(f"{comparison.other} against {comparison.base}, instructions"),
            tests=str(len(words)),
            failures=str(words.count("more")),
            errors="0",
            skipped=str(words.count("unclear")),
        )
        for s in comparison.steps:
            group = f"{comparison.base}.{comparison.other}.{s.workload}.instructions"
            case = ElementTree.SubElement(suite, "testcase", classname=xml_text(group), name=xml_text(s.name))
            sentence = xml_text(sentence_of(comparison, s))
            match s.word:
                case "more":
                    ElementTree.SubElement(case, "failure", message=sentence, type="more instructions")
                case "unclear":
                    ElementTree.SubElement(case, "skipped", message=sentence)
                case _:
                    ElementTree.SubElement(case, "system-out").text = sentence
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def github(comparisons: Sequence[CountComparison]) -> str:
    """Returns workflow commands of GitHub: an error per step that needs more instructions, a warning per
    unclear step."""
    kinds = {"more": "error", "unclear": "warning"}
    return "".join(
        f"::{kinds.get(s.word, 'notice')} title={property_text(f'{s.name} {s.word} instructions')}"
        f"::{command_text(sentence_of(comparison, s))}\n"
        for comparison in comparisons
        for s in comparison.steps
    )

"""Verdicts for people and for programs: text, Markdown, JUnit XML, annotations of GitHub."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from pgstrata import numbers
from pgstrata.judge.compare import Comparison, StepVerdict
from pgstrata.report.disturbance import proves_nothing
from pgstrata.report.operation_times import difference_line
from pgstrata.report.profile_changes import profile_lines
from pgstrata.stats.verdict import is_bounded

Cells = list[str]

COLUMNS = ("workload", "step", "verdict", "relative", "95 %", "base", "other", "evidence")

PAIRS = {"slices": "of slices", "repeats": "of repeats", "queries": "of executions", "times": "of batches"}

SINGLE = (
    "one run on each side proves nothing: take turns (run --until verdict), repeat (run --repeats 5), or "
    "measure once how much runs differ on this machine (noise --runs 5)"
)


def interval(low: float, high: float) -> str:
    """Returns an interval as text, `0.962 … 0.981`; `none` if it is not finite."""
    return f"{low:.3f} … {high:.3f}" if is_bounded(low, high) else "none"


def evidence(s: StepVerdict) -> str:
    """Returns the evidence of a verdict: `40 pairs of slices`."""
    if s.across is not None:
        return f"{len(s.across.machines)} machines, {numbers.counted(s.verdict.n, 'pair')}"
    if s.evidence == "runs":
        return "one run each" if s.verdict.single_run else "runs that are no pairs"
    if s.evidence == "queries" and not s.verdict.is_bounded:
        return "cut at its limit" if s.verdict.decided else "too few pairs" if s.verdict.n else "no pair"
    return f"{numbers.counted(s.verdict.n, 'pair')} {PAIRS[s.evidence]}"


def rows(comparison: Comparison) -> tuple[Cells, list[Cells]]:
    """Returns columns and rows of the table of a comparison."""
    columns = [c if c != "95 %" else f"{_confidence(comparison)} interval" for c in COLUMNS]
    return columns, [
        [
            s.workload,
            s.step,
            s.verdict.word,
            f"{s.verdict.ratio:.3f}" if s.verdict.n else numbers.UNKNOWN,
            interval(s.verdict.low, s.verdict.high),
            s.ends[0] or _rate(s, s.base_rate),
            s.ends[1] or _rate(s, s.other_rate),
            evidence(s),
        ]
        for s in comparison.judged
    ]


def table(comparison: Comparison) -> tuple[str, Cells, list[Cells]]:
    """Returns title, columns and rows for a terminal or a mail, which may be narrow: what all rows share,
    workload and unit, stands in the title."""
    columns, cells = rows(comparison)
    columns[columns.index("relative")] = "ratio"
    title = f"{comparison.other} against {comparison.base}"
    units = {_unit(s) for s in comparison.judged}
    if len(units) == 1:
        (unit,) = units
        title += f", {unit}"
        sides = columns.index("base"), columns.index("other")
        for row in cells:
            for side in sides:
                row[side] = row[side].removesuffix(f" {unit}")
    workloads = {s.workload for s in comparison.judged}
    if len(workloads) == 1:
        title += f", {workloads.pop()}"
        columns, cells = columns[1:], [row[1:] for row in cells]
    return title, columns, cells


def notes(comparison: Comparison) -> list[str]:
    """Returns notes that a reader must know beside the table: doubts, steps of one side only, where the time
    went, why something is unclear."""
    lines = [f"warning: the sides differ: {difference}" for difference in comparison.doubts]
    for s in comparison.judged:
        if s.across is not None:
            alone = ", ".join(
                f"{machine.machine} {machine.ratio:.3f} ({interval(machine.low, machine.high)})"
                for machine in s.across.machines
            )
            lines.append(f"{s.step}: {s.across.summary(s.verdict)}; {s.across.differ()}: {alone}")
    for s in comparison.judged:
        if s.operation_parts is not None:
            where = f" on {s.machine}" if s.machine else ""
            lines.append(f"{s.step}{where}: where the time went: {difference_line(s.operation_parts)}")
    lines += [line for s in comparison.steps for line in profile_lines(s.step, s.profiles)]
    lines += [f"{curve.workload}/{curve.steps}: {curve.sentence}" for curve in comparison.curves]
    lines += [f"only {comparison.base} has {step}" for step in comparison.only_base]
    lines += [f"only {comparison.other} has {step}" for step in comparison.only_other]
    reasons: dict[str, list[str]] = {}
    for s in comparison.judged:
        if s.verdict.word == "unclear":
            reasons.setdefault(s.verdict.reason, []).append(s.step)
    lines += [f"unclear: {', '.join(steps)}: {reason}" for reason, steps in reasons.items()]
    if any(map(proves_nothing, comparison.judged)):
        lines.append(SINGLE)
    return lines


def markdown(comparisons: Sequence[Comparison]) -> str:
    """Returns a Markdown table for each comparison, to paste into a mail or a pull request."""
    parts = []
    for comparison in comparisons:
        columns, cells = rows(comparison)
        lines = [f"**{markdown_text(comparison.other)}** against **{markdown_text(comparison.base)}**", ""]
        lines += [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        lines += [f"| {' | '.join(map(markdown_text, row))} |" for row in cells]
        lines += ["", *(f"- {markdown_text(note)}" for note in notes(comparison))]
        parts.append("\n".join(lines).rstrip() + "\n")
    return "\n".join(parts)


def junit(comparisons: Sequence[Comparison], failing: Sequence[StepVerdict]) -> str:
    """Returns JUnit XML: a test per step; slower ones (`failing`) fail, unclear ones and those that only the
    base has are skipped."""
    root = ElementTree.Element("testsuites", name="pgstrata")
    for comparison in comparisons:
        skipped = [s for s in comparison.judged if s not in failing and s.verdict.word == "unclear"]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=xml_text(comparison.title),
            tests=str(len(comparison.judged) + len(comparison.only_base)),
            failures=str(sum(s in failing for s in comparison.judged)),
            errors="0",
            skipped=str(len(skipped) + len(comparison.only_base)),
        )
        for s in comparison.judged:
            name = f"{comparison.base}.{comparison.other}.{s.workload}"
            case = ElementTree.SubElement(suite, "testcase", classname=xml_text(name), name=xml_text(s.step))
            if s in failing:
                ElementTree.SubElement(
                    case, "failure", message=xml_text(sentence(comparison, s)), type="slower"
                )
            elif s in skipped:
                ElementTree.SubElement(case, "skipped", message=xml_text(sentence(comparison, s)))
            else:
                ElementTree.SubElement(case, "system-out").text = xml_text(sentence(comparison, s))
        for key in comparison.only_base:
            workload, _, step = key.partition("/")
            name = f"{comparison.base}.{comparison.other}.{workload}"
            case = ElementTree.SubElement(suite, "testcase", classname=xml_text(name), name=xml_text(step))
            ElementTree.SubElement(case, "skipped", message=xml_text(f"only {comparison.base} has {key}"))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def github(comparisons: Sequence[Comparison], failing: Sequence[StepVerdict]) -> str:
    """Returns workflow commands of GitHub: an error per slower step, a warning per unclear one, per step of
    the base alone, and per doubt."""
    lines = []
    for comparison in comparisons:
        for s in comparison.judged:
            word = "error" if s in failing else "warning" if s.verdict.word == "unclear" else "notice"
            title = f"{s.step} {'slower' if s in failing else s.verdict.word}"
            lines.append(f"::{word} title={property_text(title)}::{command_text(sentence(comparison, s))}")
        lines += [
            f"::warning title=not measured::{command_text(f'only {comparison.base} has {key}')}"
            for key in comparison.only_base
        ]
        lines += [f"::warning title=comparability::{command_text(str(d))}" for d in comparison.doubts]
    return "\n".join(lines) + "\n" if lines else ""


def sentence(comparison: Comparison, s: StepVerdict) -> str:
    """Returns the verdict on a step as a single sentence."""
    v = s.verdict
    if s.across is not None:
        return (
            f"{s.workload}/{s.step}: {comparison.title}: {s.across.summary(v)}; "
            f"relative rate {v.ratio:.3f}, {_confidence(comparison)} interval {interval(v.low, v.high)} "
            f"({v.reason})"
        )
    if s.ratio is None:
        return (
            f"{s.workload}/{s.step}: {comparison.other} is {v.word} against {comparison.base}: "
            f"{evidence(s)} ({v.reason})"
        )
    return (
        f"{s.workload}/{s.step}: {comparison.other} is {v.word} against {comparison.base}: relative rate "
        f"{v.ratio:.3f}, {_confidence(comparison)} interval {interval(v.low, v.high)}, "
        f"{evidence(s)} ({v.reason})"
    )


def _confidence(comparison: Comparison) -> str:
    return f"{comparison.judged[0].verdict.confidence:.0%}" if comparison.judged else "95%"


def _rate(s: StepVerdict, rate: float | None) -> str:
    if rate is None:
        return numbers.UNKNOWN
    shown = numbers.significant(1000 / rate) if _is_time(s) else numbers.rate(rate)
    return f"{shown} {_unit(s)}"


def _is_time(s: StepVerdict) -> bool:
    """Returns whether the time of an operation is shown, not the rate."""
    return s.evidence in ("queries", "times")


def _unit(s: StepVerdict) -> str:
    return "ms" if _is_time(s) else s.unit


def markdown_text(text: str) -> str:
    """Returns text for a Markdown table: letters that would end a cell or begin markup are escaped."""
    flat = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\|*_`<>[]" else c for c in flat)


def xml_text(text: str) -> str:
    """Returns the text with `?` for the characters that XML 1.0 cannot hold in any form."""
    return "".join(c if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff") else "?" for c in text)


def command_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def property_text(text: str) -> str:
    return command_text(text).replace(":", "%3A").replace(",", "%2C")

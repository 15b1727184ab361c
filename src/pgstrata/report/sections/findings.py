"""The answer in the first screenful: who is proven slower or faster, at which steps, by how much.

Where nothing is proven, it says so, and what would settle it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from pgstrata import numbers
from pgstrata.judge.answers import answers_of, compare
from pgstrata.judge.builds import unlike
from pgstrata.judge.compare import StepVerdict
from pgstrata.judge.marks import Mark
from pgstrata.judge.queries import changed_answers
from pgstrata.page.blocks import Block, Cell, Finding, Findings, Prose
from pgstrata.page.queries import read
from pgstrata.page.results import RunSet, StepResults, WorkloadResults
from pgstrata.report.disturbance import disturbed_steps, load_beside
from pgstrata.report.parts import report_parts
from pgstrata.report.sections.query_verdicts import verdict_cell
from pgstrata.report.sections.settle import settle
from pgstrata.report.sections.step_verdicts import change, is_pair
from pgstrata.report.sections.summary import relative_cell
from pgstrata.stats.rates import geometric_mean

MOST_NAMED = 10
MOST_REASONS, MOST_LETTERS = 3, 300
"""Why runs failed: so many reasons, each of so many letters; the section about failed runs has all."""
# More variants than this get a line each instead of a paragraph, so that the answer stays in view.
MOST_PARAGRAPHS = 6

Item = tuple[Mark, str, list[tuple[str, str, str]]]


def findings(results: RunSet) -> list[Block]:
    """Returns a paragraph per workload and variant."""
    blocks: list[Block] = []
    if results.failed:
        blocks.append(Prose(_failures(results), "bad", "failures"))
    cannot = dict.fromkeys((run.variant, run.workload) for run in results.unable)
    blocks += [
        Prose(f"{variant} cannot run {name}: {results.cannot(variant, name)}.", "missing")
        for variant, name in cannot
    ]
    if not results.workloads and results.counted:
        text = "Nothing was timed: instructions per operation were counted, and there is no rate."
        answers = [Prose(text) for part in report_parts() for text in part.answers(results)]
        return [*blocks, *answers, Prose(text, "even", "instructions")]
    if not results.workloads and results.imported:
        text = "Nothing was measured here: other programs' results were imported, and nothing is judged."
        return [*blocks, Prose(text, "even", "imported")]
    if not results.workloads:
        text = (
            "No run of this campaign has finished, so there is nothing to compare yet: the same command does "
        )
        return [*blocks, Prose(f"{text}what is missing.")]
    if not results.others:
        return [
            *blocks,
            Prose(f"{results.base} is the only variant: there is nothing to compare it with.", "even"),
        ]
    blocks += [Prose(text, "bad") for text in _changed_answers(results)]
    if text := disturbed_steps(results.comparisons):
        blocks.append(Prose(text, "bad"))
    elif text := load_beside(results.runs):
        blocks.append(Prose(text, "even"))
    for workload in results.workloads:
        title = f"{workload.name}, against {results.base}:" if len(results.workloads) > 1 else ""
        paragraphs = [_finding(results, workload, variant) for variant in results.others]
        if len(paragraphs) <= MOST_PARAGRAPHS:
            blocks.append(Findings(title, paragraphs))
            blocks += _settled(results, workload)
            continue
        changed = [_shortened(finding) for finding in paragraphs if _tells(finding)]
        if changed:
            blocks.append(Findings(title, changed))
        if alike := [finding.variant for finding in paragraphs if not _tells(finding)]:
            blocks.append(Prose(f"Neither slower nor faster at any step: {', '.join(alike)}."))
        blocks += _settled(results, workload)
    return [
        *blocks,
        *(Prose(sentence, "even", "builds") for sentence in unlike(_builds(results), results.base)),
    ]


def _failures(results: RunSet) -> str:
    """Returns how many runs failed, and why: each reason once."""
    runs_of: dict[str, list[str]] = {}
    for run in results.failed:
        reason = " ".join(run.record.error.message.split()) if run.record.error else "no reason is known"
        runs_of.setdefault(reason, []).append(f"{run.variant}, {run.workload}")
    sentences = [
        f"{' and '.join(dict.fromkeys(runs))}: {textwrap.shorten(reason, MOST_LETTERS, placeholder=' …')}."
        for reason, runs in list(runs_of.items())[:MOST_REASONS]
    ]
    if len(runs_of) > MOST_REASONS:
        sentences.append(f"And {len(runs_of) - MOST_REASONS} more.")
    return " ".join([f"{numbers.counted(len(results.failed), 'run')} failed.", *sentences])


def _changed_answers(results: RunSet) -> list[str]:
    """Returns sentences to print before all others: a query that answers differently is not slower or
    faster."""
    sentences = []
    for workload in results.workloads:
        changed: dict[str, dict[str, None]] = {}
        for by_variant in read(results, workload).by_step.values():
            for variant, queries in changed_answers(by_variant, results.base).items():
                changed.setdefault(variant, {}).update(dict.fromkeys(queries))
        for step in workload.compared:
            answers = {variant: answers_of(repeats.repeats) for variant, repeats in step.by_variant.items()}
            for variant, side_answers in answers.items():
                if statements := compare(answers.get(results.base, ()), side_answers).changed:
                    changed.setdefault(variant, {}).update(
                        dict.fromkeys(statement.text for statement in statements)
                    )
        for variant, names in changed.items():
            rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            named = ", ".join(list(names)[:MOST_NAMED])
            sentences.append(f"{variant} answers {named}{rest} differently from {results.base}.")
    return sentences


def _builds(results: RunSet) -> dict[str, str]:
    return {
        variant: run.record.server.build
        for variant in results.variants
        for run in results.runs_of(variant)[:1]
    }


def _finding(results: RunSet, workload: WorkloadResults, variant: str) -> Finding:
    cells = [each for step in workload.compared for each in _cells(results, step, variant)]
    by_mark: dict[str, list[tuple[StepResults, Cell]]] = {}
    for step, cell in cells:
        by_mark.setdefault(cell.mark, []).append((step, cell))
    slower = sorted(by_mark.get("bad", []), key=lambda pair: _ratio(pair[1]))
    faster = sorted(by_mark.get("good", []), key=lambda pair: -_ratio(pair[1]))
    fair = [_ratio(cell) for _, cell in cells if cell.mark in ("good", "bad", "same", "even")]
    items: list[Item] = []
    if slower:
        items.append(("bad", "slower", _named(slower)))
    if faster:
        items.append(("good", "faster", _named(faster)))
    if same := by_mark.get("same"):
        items.append(("same", "the same", _named(same)))
    if even := by_mark.get("even"):
        items.append(("even", "between" if results.by_thresholds else "unclear", _named(even)))
    if not fair and results.cannot(variant, workload.name):
        return Finding(variant, results.color(variant), "this version cannot run it", [])
    if not fair and results.has_failed(variant):
        return Finding(variant, results.color(variant), "failed; nothing to compare", [])
    if missed := by_mark.get("missed"):
        items.append(("missed", "SLA missed", _named(missed, ratios=False)))
    if absent := by_mark.get("missing"):
        items.append(("missing", "no data", _named(absent, ratios=False)))
    if not results.by_thresholds:
        unclear = len(fair) - len(slower) - len(faster) - len(same or [])
        alone = bool(workload.compared) and all(
            (judged := results.verdict(step, variant)) is not None and judged.queries
            for step in workload.compared
        )
        timed = any(
            (judged := results.verdict(step, variant)) is not None and judged.times
            for step in workload.compared
        )
        noun = ("query", "queries") if alone else ("verdict", "verdicts") if timed else ("step", "steps")
        headline = _proven_headline(results, noun, len(slower), len(faster), len(same or []), unclear)
        return Finding(variant, results.color(variant), headline, items)
    words = [
        f"{word} at {len(steps)}{_proven(results, variant, word, steps)}"
        for word, steps in (("slower", slower), ("faster", faster))
        if steps
    ]
    return Finding(variant, results.color(variant), _headline(results, words, fair), items)


def _cells(results: RunSet, step: StepResults, variant: str) -> list[tuple[StepResults, Cell]]:
    """Returns a step and its relative rate, and its response times where these are judged; each query in its
    place where queries have verdicts of their own."""
    judged = results.verdict(step, variant)
    if judged is None or not judged.queries:
        times = [] if judged is None else _relative(step, judged.times)
        cell = relative_cell(results, step, variant)
        if is_pair(results) and isinstance(cell.value, int | float):
            cell = replace(cell, text=change(cell.value))
        return [(step, cell), *times]
    return _relative(step, judged.queries)


def _relative(step: StepResults, verdicts: Sequence[StepVerdict]) -> list[tuple[StepResults, Cell]]:
    return [
        (
            replace(step, name=each.step),
            Cell(
                each.ratio,
                numbers.UNKNOWN if each.ratio is None else numbers.ratio(each.ratio),
                verdict_cell(each).mark,
            ),
        )
        for each in verdicts
    ]


def _proven_headline(
    results: RunSet, noun: tuple[str, str], slower: int, faster: int, same: int, unclear: int
) -> str:
    """Returns the headline: proven differences first, unclear ones after them. noun: what is counted, and its
    plural."""
    of = numbers.counted(slower + faster + same + unclear, *noun)
    if not slower + faster + same + unclear:
        return f"cannot be compared with {results.base}"
    words = [
        f"{word} at {count}"
        for word, count in (("slower", slower), ("faster", faster), ("the same", same))
        if count
    ]
    if not words:
        every = "all of " if unclear > 1 else ""
        return f"nothing proven: unclear at {every}{of} against {results.base}"
    rest = f"; unclear at {unclear}" if unclear else ""
    return f"proven {', '.join(words)} of {of} against {results.base}{rest}"


def _settled(results: RunSet, workload: WorkloadResults) -> list[Block]:
    """Returns sentences about how to reach a verdict, if nothing is proven of a workload."""
    words = [
        judged.verdict.word
        for step in workload.compared
        for variant in results.others
        if (verdict := results.verdict(step, variant)) is not None
        for judged in (verdict.queries or (verdict, *verdict.times))
    ]
    if results.by_thresholds or any(word in ("slower", "faster", "same") for word in words):
        return []
    return [Prose(sentence, "even") for sentence in settle(results, workload)]


def _proven(results: RunSet, variant: str, word: str, steps: list[tuple[StepResults, Cell]]) -> str:
    """Returns how many of these steps have that verdict, as text; empty if all have it."""
    verdicts = [results.verdict(step, variant) for step, _ in steps]
    proven = sum(f is not None and f.verdict.word == word for f in verdicts)
    return "" if proven == len(steps) else f" ({proven or 'none'} proven)"


def _tells(finding: Finding) -> bool:
    """Returns whether a finding tells more than that nothing changed."""
    return any(mark != "even" for mark, _, _ in finding.items) or not finding.items


def _shortened(finding: Finding) -> Finding:
    """Returns the finding in one line: how many steps changed, and where most."""
    headline = finding.headline.partition(";")[0]
    for mark, word, steps in finding.items:
        if mark in ("bad", "good") and steps:
            headline += f"; most {word} at {steps[0][0]}, {steps[0][1]}"
    return Finding(finding.variant, finding.color, headline, [])


def _headline(results: RunSet, words: list[str], ratios: list[float]) -> str:
    if not ratios:
        return f"cannot be compared with {results.base}"
    steps = _steps(len(ratios))
    headline = f"{', '.join(words)} of {steps}" if words else f"neither slower nor faster at any of {steps}"
    mean = geometric_mean(ratios)
    overall = f"; geometric mean {numbers.ratio(mean)}" if mean is not None and len(ratios) > 1 else ""
    return f"{headline} than {results.base}{overall}" if words else f"{headline}{overall}"


def _steps(count: int) -> str:
    return numbers.counted(count, "step")


def _ratio(cell: Cell) -> float:
    return float(cell.value) if isinstance(cell.value, int | float) else 1.0


def _named(pairs: list[tuple[StepResults, Cell]], ratios: bool = True) -> list[tuple[str, str, str]]:
    named = [(step.name, cell.text if ratios else "", step.anchor) for step, cell in pairs[:MOST_NAMED]]
    if len(pairs) > MOST_NAMED:
        named.append((f"and {len(pairs) - MOST_NAMED} more", "", "summary"))
    return named

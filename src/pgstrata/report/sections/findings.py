"""The answer in the first screenful: who is slower or faster, at which steps, by how much."""

from __future__ import annotations

from pgstrata.judge.builds import unlike
from pgstrata.judge.colours import Tone
from pgstrata.report import numbers
from pgstrata.report.blocks import Block, Cell, Finding, Findings, Prose
from pgstrata.report.sections.summary import relative_cell
from pgstrata.report.study import StepOf, Study, WorkloadOf
from pgstrata.stats.rates import geometric_mean

MOST_NAMED = 10
# More variants than this get a line each instead of a paragraph, so that the answer stays in view.
MOST_PARAGRAPHS = 6

Item = tuple[Tone, str, list[tuple[str, str, str]]]


def findings(study: Study) -> list[Block]:
    """One paragraph per workload and variant."""
    blocks: list[Block] = []
    if count := len(study.failed):
        text = f"{count} run{'s' * (count != 1)} failed; the last words of the server are at the end."
        blocks.append(Prose(text, "bad", "failures"))
    cannot = dict.fromkeys((run.variant, run.workload) for run in study.unable)
    blocks += [
        Prose(f"{variant} cannot run {name}: {study.cannot(variant, name)}.", "missing")
        for variant, name in cannot
    ]
    if not study.workloads:
        return [*blocks, Prose("No run of this campaign has finished, so there is nothing to compare yet.")]
    if not study.others:
        return [
            *blocks,
            Prose(f"{study.base} is the only variant: there is nothing to compare it with.", "even"),
        ]
    for workload in study.workloads:
        title = f"{workload.name}, against {study.base}:" if len(study.workloads) > 1 else ""
        found = [_finding(study, workload, variant) for variant in study.others]
        if len(found) <= MOST_PARAGRAPHS:
            blocks.append(Findings(title, found))
            continue
        changed = [_shortened(finding) for finding in found if _tells(finding)]
        if changed:
            blocks.append(Findings(title, changed))
        if alike := [finding.variant for finding in found if not _tells(finding)]:
            blocks.append(Prose(f"Neither slower nor faster at any step: {', '.join(alike)}."))
    return [*blocks, *(Prose(sentence, "even", "builds") for sentence in unlike(_builds(study), study.base))]


def _builds(study: Study) -> dict[str, str]:
    return {
        variant: run.record.server.build for variant in study.variants for run in study.runs_of(variant)[:1]
    }


def _finding(study: Study, workload: WorkloadOf, variant: str) -> Finding:
    cells = [(step, relative_cell(study, step, variant)) for step in workload.compared]
    by_tone: dict[str, list[tuple[StepOf, Cell]]] = {}
    for step, cell in cells:
        by_tone.setdefault(cell.tone, []).append((step, cell))
    slower = sorted(by_tone.get("bad", []), key=lambda pair: _ratio(pair[1]))
    faster = sorted(by_tone.get("good", []), key=lambda pair: -_ratio(pair[1]))
    fair = [_ratio(cell) for _, cell in cells if cell.tone in ("good", "bad", "even")]
    items: list[Item] = []
    if slower:
        items.append(("bad", "slower", _named(slower)))
    if faster:
        items.append(("good", "faster", _named(faster)))
    if even := by_tone.get("even"):
        items.append(("even", "between", _named(even)))
    if not fair and study.cannot(variant, workload.name):
        return Finding(variant, study.color(variant), "this version cannot run it", [])
    if not fair and study.has_failed(variant):
        return Finding(variant, study.color(variant), "failed; nothing to compare", [])
    if missed := by_tone.get("missed"):
        items.append(("missed", "SLA missed", _named(missed, ratios=False)))
    if absent := by_tone.get("missing"):
        items.append(("missing", "no data", _named(absent, ratios=False)))
    words = [
        f"{word} at {len(steps)}{_proven(study, variant, word, steps)}"
        for word, steps in (("slower", slower), ("faster", faster))
        if steps
    ]
    return Finding(variant, study.color(variant), _headline(study, words, fair), items)


def _proven(study: Study, variant: str, word: str, steps: list[tuple[StepOf, Cell]]) -> str:
    """How many of these steps have that verdict, where it is not all of them."""
    found = [study.verdict(step, variant) for step, _ in steps]
    proven = sum(f is not None and f.verdict.word == word for f in found)
    return "" if proven == len(steps) else f" ({proven or 'none'} proven)"


def _tells(finding: Finding) -> bool:
    """Whether there is more to say than that nothing changed."""
    return any(tone != "even" for tone, _, _ in finding.items) or not finding.items


def _shortened(finding: Finding) -> Finding:
    """One line: how many steps changed, and where most."""
    said = finding.headline.partition(";")[0]
    for tone, word, steps in finding.items:
        if tone in ("bad", "good") and steps:
            said += f"; most {word} at {steps[0][0]}, {steps[0][1]}"
    return Finding(finding.variant, finding.color, said, [])


def _headline(study: Study, words: list[str], ratios: list[float]) -> str:
    if not ratios:
        return f"cannot be compared with {study.base}"
    steps = _steps(len(ratios))
    said = f"{', '.join(words)} of {steps}" if words else f"neither slower nor faster at any of {steps}"
    mean = geometric_mean(ratios)
    overall = f"; geometric mean {numbers.ratio(mean)}" if mean is not None and len(ratios) > 1 else ""
    return f"{said} than {study.base}{overall}" if words else f"{said}{overall}"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _ratio(cell: Cell) -> float:
    return float(cell.value) if isinstance(cell.value, int | float) else 1.0


def _named(pairs: list[tuple[StepOf, Cell]], ratios: bool = True) -> list[tuple[str, str, str]]:
    named = [(step.name, cell.text if ratios else "", step.anchor) for step, cell in pairs[:MOST_NAMED]]
    if len(pairs) > MOST_NAMED:
        named.append((f"and {len(pairs) - MOST_NAMED} more", "", "summary"))
    return named

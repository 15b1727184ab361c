"""Published ratios beside the ones measured here, and which of them agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pgstrata import numbers
from pgstrata.judge.compare import StepVerdict
from pgstrata.judge.marks import Mark
from pgstrata.judge.published import ONE, Agreement, Published, Rounded, agreement, same_version
from pgstrata.page.blocks import Block, Cell, Chart, Column, Prose, Row, Section, Table, missing, words
from pgstrata.page.charts import PALETTE, axis, label, legend_above, rounded
from pgstrata.page.results import RunSet, anchor

MOST_CHARTS = 12
_DASH = "\N{NO-BREAK SPACE}–\N{NO-BREAK SPACE}"

WORDS: Mapping[Agreement, tuple[str, Mark]] = {
    "inside": ("inside the interval", ""),
    "same direction": ("same direction", "even"),
    "not": ("not in agreement", "missed"),
    "open": ("not known here", "missing"),
}
"""What each agreement is called, and its mark."""

_HOW = (
    "Published: the rate of the version divided by that of the base, as the source has it; where the base "
    "here is another one, ratios of the study are divided by each other, and the bounds of their last digits "
    "kept. Measured here: the ratio of the verdict with its interval. Inside the interval: the published "
    "ratio lies in it. Same direction: it does not, but both are slower, both faster, or both the same by "
    "the margin. A published ratio comes from another machine, other sizes and often another minor version, "
    "as a rule from one run on each side."
)


@dataclass(frozen=True)
class Held:
    """A published ratio against the verdict measured here. `ratio`: published, against the base here."""

    published: Published
    variant: str
    own_version: str
    ratio: Rounded
    verdict: StepVerdict
    agreement: Agreement


def held(results: RunSet) -> list[Held]:
    """Returns every published ratio that can be held against a verdict, in the order of the file."""
    versions = {v: runs[0].record.server.version for v in results.variants if (runs := results.runs_of(v))}
    if results.base not in versions:
        return []
    measured = list(versions.values())
    study = {entry.version for entry in results.published} | {entry.base for entry in results.published}
    stands = {version: same_version(version, study, measured) for version in study}
    steps = _steps(results)
    bases = _of_base(results, versions[results.base], stands)
    comparisons = []
    for entry in _every(results.published):
        base = bases.get((entry.step, entry.base))
        if base is None:
            continue
        for variant in results.others:
            verdict = steps.get((entry.step, variant))
            if verdict is None or versions.get(variant) not in stands[entry.version]:
                continue
            ratio = entry.ratio.over(base)
            comparisons.append(
                Held(entry, variant, versions[variant], ratio, verdict, agreement(ratio, verdict.verdict))
            )
    return comparisons


def _every(published: tuple[Published, ...]) -> Iterator[Published]:
    """Yields all ratios, also the base of each step against itself."""
    bases: set[tuple[str, str]] = set()
    for entry in published:
        if (entry.step, entry.base) not in bases:
            bases.add((entry.step, entry.base))
            yield Published(
                entry.study, entry.source, entry.date, entry.step, entry.clients, entry.base, entry.base, ONE
            )
        yield entry


def _of_base(
    results: RunSet, version: str, stands: Mapping[str, list[str]]
) -> dict[tuple[str, str], Rounded]:
    """Returns the published ratio of the version that is the base here, by step and published base."""
    return {
        (entry.step, entry.base): entry.ratio
        for entry in _every(results.published)
        if version in stands[entry.version]
    }


def _steps(results: RunSet) -> dict[tuple[str, str], StepVerdict]:
    """Returns verdicts by the name of their step and their variant."""
    return {
        (step.name, variant): verdict
        for workload in results.workloads
        for step in workload.compared
        for variant in results.others
        if (verdict := results.verdict(step, variant)) is not None
    }


def agreement_sentence(results: RunSet) -> str:
    """Returns how many published ratios agree; empty where none were asked for."""
    if not results.published:
        return ""
    comparisons = results.derived(held)
    if not comparisons:
        return "None of the published ratios has a step, a version and a base that were measured here."
    counts = Counter(comparison.agreement for comparison in comparisons)
    parts = [f"{counts[kind]} {WORDS[kind][0]}" for kind in WORDS if counts[kind]]
    return f"Of {numbers.counted(len(comparisons), 'published ratio')}: {', '.join(parts)}."


def published(results: RunSet) -> Section | None:
    """Returns the section; None where nothing published was named."""
    if not results.published:
        return None
    comparisons = results.derived(held)
    blocks: list[Block] = [Prose(agreement_sentence(results))]
    by_variant: dict[str, list[Held]] = {}
    for comparison in comparisons:
        by_variant.setdefault(comparison.variant, []).append(comparison)
    blocks += [
        _chart(results, variant, variant_comparisons)
        for variant, variant_comparisons in list(by_variant.items())[:MOST_CHARTS]
    ]
    if comparisons:
        blocks.append(_table(results, comparisons))
    return Section("published", "Published and here", blocks)


def _chart(results: RunSet, variant: str, comparisons: list[Held]) -> Chart:
    names = [label(comparison.published.step) for comparison in comparisons]
    ratios = [comparison.verdict.ratio for comparison in comparisons]
    bounded = [
        comparison.verdict.verdict.is_bounded and comparison.verdict.ratio is not None
        for comparison in comparisons
    ]
    ends = [(comparison.verdict.verdict.low, comparison.verdict.verdict.high) for comparison in comparisons]
    here = {
        **_points("here", 0, names, rounded(ratios)),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": rounded(
                h - (r or h) if b else 0 for b, r, (_, h) in zip(bounded, ratios, ends, strict=True)
            ),
            "arrayminus": rounded(
                (r or low) - low if b else 0 for b, r, (low, _) in zip(bounded, ratios, ends, strict=True)
            ),
            "color": PALETTE[0],
        },
    }
    there = _points("published", 1, names, rounded(comparison.ratio.value for comparison in comparisons))
    there["marker"] = {"color": PALETTE[1], "symbol": "diamond-open", "size": 9}
    layout: dict[str, Any] = {
        "margin": {"l": 20, "r": 12, "t": 40, "b": 40},
        "showlegend": True,
        "legend": legend_above(1.02),
        "xaxis": axis(f"rate relative to {results.base}", type="log"),
        "yaxis": axis(autorange="reversed", type="category"),
        "shapes": [
            {"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 1}}
        ],
    }
    return Chart(
        id=anchor("published", variant),
        title=f"{variant} against {results.base}, published and here — to the right is faster",
        data=[here, there],
        layout=layout,
        height=120 + 22 * len(comparisons),
    )


def _points(name: str, place: int, y: list[str], x: list[float | None]) -> dict[str, Any]:
    marker = {"color": PALETTE[place], "size": 7}
    return {"type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "marker": marker}


def _table(results: RunSet, comparisons: list[Held]) -> Table:
    rows = []
    sources = dict.fromkeys(
        f"{comparison.published.source} ({comparison.published.date})" for comparison in comparisons
    )
    for comparison in comparisons:
        verdict, word = comparison.verdict.verdict, WORDS[comparison.agreement]
        interval = f"{numbers.ratio(verdict.low)}{_DASH}{numbers.ratio(verdict.high)}"
        rows.append(
            Row(
                [
                    words(comparison.published.step),
                    words(comparison.variant),
                    words(comparison.published.version),
                    Cell(comparison.ratio.value, numbers.ratio(comparison.ratio.value)),
                    missing()
                    if comparison.verdict.ratio is None
                    else Cell(comparison.verdict.ratio, numbers.ratio(comparison.verdict.ratio)),
                    words(interval) if verdict.is_bounded else missing("no interval"),
                    Cell(
                        comparison.agreement,
                        *word,
                        verdict.reason if comparison.agreement == "open" else word[0],
                    ),
                    Cell(
                        comparison.published.clients,
                        "" if comparison.published.clients is None else str(comparison.published.clients),
                    ),
                ]
            )
        )
    return Table(
        name="published",
        title=f"Published ratios and those measured here, against {results.base}",
        columns=[
            Column("step", "Step", align="left"),
            Column("variant", "Here", align="left"),
            Column("version", "Published of", align="left"),
            Column("published", "Published"),
            Column("ratio", "Measured here"),
            Column("interval", "Interval", align="left"),
            Column("agreement", "Agreement", align="left"),
            Column("clients", "Clients there"),
        ],
        rows=rows,
        how=_HOW,
        lead=2,
        notes=[f"Published: {', '.join(sources)}."],
        legend=(("missed", "not in agreement"),),
        stacked=True,
    )


__all__ = ["agreement_sentence", "held", "published"]

"""`--by instructions` of the core's commands (`pgstrata.cli.kinds.Kind`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgstrata import numbers
from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.study import CountSpec, Study, Variant, Workload
from pgstrata.cli.output import Format, TextOrJson, VerdictFormat, aligned, left_out, print_json
from pgstrata.cli.quiet import progress_console
from pgstrata.count import text as counts
from pgstrata.count.results import counts_of
from pgstrata.count.text import sides_of, span, text
from pgstrata.count.verdicts import (
    CountComparison,
    CountComparisonRecord,
    CountVerdictRecord,
    compare_counts,
    margin_of_counts,
)
from pgstrata.errors import UsageError
from pgstrata.judge.spread import NOISE
from pgstrata.page.results import RunSet
from pgstrata.stats.criterion import Criterion
from pgstrata.store import Results
from pgstrata.store.choose import Side, campaign_runs
from pgstrata.store.counted import counted_runs
from pgstrata.suggest import meant

if TYPE_CHECKING:
    from rich.console import Console

    from pgstrata.campaign.checked import Campaign


class CountNoiseRecord(CountVerdictRecord):
    """How much counts of a server differ from start to start. `start_spread`: the largest ÷ the smallest,
    less 1."""

    start_spread: float


MARGIN = "0.2%"
"""Smallest difference that counts, where the command line names none."""


def measure_beside(campaign: Campaign, console: Console, fresh: bool) -> list[tuple[str, str, str]]:
    """Counts instructions beside the timed runs where a campaign asks for it. Returns variant, workload and
    reason of each failure."""
    if campaign.spec.count is None:
        return []
    from pgstrata.count.measure.count import count_campaign

    return count_campaign(campaign, Results(campaign.spec.results), console, fresh=fresh).failed


def records(results: RunSet) -> list[CountComparisonRecord]:
    """Returns the verdicts on counts of a campaign as JSON can hold them."""
    return [comparison.record() for comparison in counts_of(results).comparisons]


def compare(base: Side, others: list[Side], steps: list[str], criterion: Criterion) -> list[CountComparison]:
    for side in (base, *others):
        if not counted_runs(side.runs):
            raise UsageError(f"nothing was counted of {side.name}", "pgstrata count does")
    comparisons = compare_counts(base, others, criterion=criterion, steps=steps)
    for comparison in comparisons:
        wanted = [step for step in steps if step not in {verdict.step for verdict in comparison.steps}]
        if wanted or not comparison.steps:
            counted = dict.fromkeys(
                step.name
                for run in counted_runs(base.runs)
                if run.record.counted is not None
                for step in run.record.counted.steps
            )
            raise UsageError(
                f"{base.name} has no counted step {', '.join(wanted) or 'at all'}",
                meant(wanted[0], counted, "counted were") if wanted else "pgstrata show lists those of a run",
            )
    return comparisons


def print_comparisons(
    base: Side,
    others: list[Side],
    comparisons: list[CountComparison],
    form: VerdictFormat,
    callers: str | None,
) -> None:
    match form:
        case VerdictFormat.json:
            print_json([c.record() for c in comparisons])
        case VerdictFormat.markdown:
            print(counts.markdown(comparisons), end="")
        case VerdictFormat.junit:
            print(counts.junit(comparisons), end="")
        case VerdictFormat.github:
            print(counts.github(comparisons), end="")
        case VerdictFormat.table:
            for line in counts.text(base, others, comparisons, aligned, callers=callers):
                print(line)


def check(comparisons: list[CountComparison], margin: float) -> int:
    """Returns the exit code of a check and prints its sentence on standard error."""
    steps = [s for c in comparisons for s in c.steps]
    more = [s for s in steps if s.word == "more"]
    open_ = [s for s in steps if s.word == "unclear" and (s.aside or not s.high < 1 / (1 - margin))]
    least = numbers.in_percent(margin)
    if more:
        text = f"more instructions by more than {least}: {', '.join(s.name for s in more)}"
    elif open_:
        text = f"unclear: {', '.join(s.name for s in open_)}; none proven to need more by more than {least}"
    else:
        text = f"none needs more instructions by more than {least}"
    print(f"check: {text}", file=sys.stderr)
    return 1 if more else 3 if open_ else 0


def show_study(results: Path, campaign: str | None, step: str | None, form: Format) -> None:
    """Prints the base config against each overlay, by counted instructions."""

    store = Results(results)
    runs = [run for run in campaign_runs(store, campaign) if run.record.counted is not None]
    left_out(store.broken)
    if not runs:
        raise UsageError("nothing was counted of this study", "pgstrata count CAMPAIGN.toml does")
    base = min(runs, key=lambda run: (len(run.record.config.fragments), run.record.variant_order))
    first, others = sides_of(store, base.campaign, base.variant)
    criterion = Criterion(margin_of_counts(runs))
    comparisons = compare_counts(first, others, criterion=criterion, steps=[step] if step else [])
    if step and not any(comparison.steps for comparison in comparisons):
        raise UsageError(
            f"no step {step} was counted of {base.variant}", "pgstrata show lists those of a run"
        )
    if form is Format.json:
        print_json([comparison.record() for comparison in comparisons])
        return
    if form is Format.csv:
        raise UsageError("counts have no CSV form", "--format json has every number")
    for line in text(first, others, comparisons, aligned):
        print(line)


def show_noise(
    variant: Variant, options: dict[str, Any], step: str, keys: dict[str, Any], form: TextOrJson
) -> None:
    """Counts two clusters of one server, and prints by how much their counts differ. keys: of the study."""

    from pgstrata.count.measure.count import count_campaign

    study = Study(
        name=f"{NOISE}{step} instructions",
        count=CountSpec(steps=[step]),
        variants=[variant.replaced(label=label) for label in ("base", "again")],
        workloads=[Workload(name="sysbench", options=options)],
        **keys,
    )
    campaign = check_study(study)
    results = Results(campaign.spec.results)
    outcome = count_campaign(campaign, results, progress_console(), fresh=True)
    for label, _, error in outcome.failed:
        raise UsageError(f"{label} failed: {error}")
    base, others = sides_of(Results(campaign.spec.results), campaign.name, "base")
    comparison = compare_counts(base, others)[0].steps[0]
    starts = [
        count
        for side in (base, *others)
        for run in side.runs
        if run.record.counted is not None
        for count in run.record.counted.steps[0].headline.instructions
    ]
    spread = max(starts) / min(starts) - 1
    if form is TextOrJson.json:
        record: CountNoiseRecord = {**comparison.record(), "start_spread": spread}
        print_json(record)
        return
    print(f"{step}, {len(starts)} fresh starts, the same server twice")
    print(f"  instructions per operation: {numbers.count(comparison.base)}")
    print(f"  largest and smallest start differ by {spread:.4%}")
    print(
        f"  the second cluster needs {comparison.ratio:.5f} times as many, interval {span(comparison)}: "
        f"{comparison.word}"
    )
    print(f"smallest difference that is called one: {comparison.margin:.1%}, the margin")

"""Two variants counted instead of timed: how many more instructions the second needs at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from rich.console import Console

from pgstrata.campaign.study import CountSpec
from pgstrata.count.doubts import left_out
from pgstrata.count.measure.count import count_campaign
from pgstrata.count.measure.template import Templates
from pgstrata.count.verdicts import CountComparison, compare_counts, estimate_counts
from pgstrata.errors import UsageError
from pgstrata.judge.plan_shape import plan_changes
from pgstrata.measure.two_servers import MeasuredRatio, TwoServers, normal_error
from pgstrata.stats.criterion import Criterion
from pgstrata.store import Results, Run
from pgstrata.store.choose import Side, campaign_runs
from pgstrata.store.counted import counted_runs
from pgstrata.store.record import CountedRole

UNIT = "instructions/o"


@dataclass(frozen=True)
class Starts:
    """How many starts of the first are counted, fewest and most. fewer: starts by which the second has fewer:
    where those of the first stay, they tell how much starts differ for both."""

    fewest: int = CountSpec().starts
    most: int = CountSpec().most_starts
    fewer: int = 0


USUAL_STARTS = Starts()

LEAST_MARGIN = 0.0002
"""Relative difference below which no count is asked to tell."""


def count_two(
    two: TwoServers, smallest: float, console: Console, lasting: Path | None = None
) -> MeasuredRatio:
    """Counts the only step of both servers, as `count_each` does. Raises the same errors, and UsageError for
    a step that cannot be counted."""
    result = count_each(two, smallest, console, lasting)[two.work.step]
    if isinstance(result, str):
        raise UsageError(f"{two.work.step} cannot be counted: {result}", "search by the rate")
    return result


def count_each(
    two: TwoServers,
    smallest: float,
    console: Console,
    lasting: Path | None = None,
    *,
    with_functions: bool = True,
    templates: Templates | None = None,
    starts: Starts = USUAL_STARTS,
) -> dict[str, MeasuredRatio | str]:
    """Counts the steps of both, unless that was done already. Returns a ratio for each step, or the reason
    why the step cannot be counted. The log ratio is turned over, so that it falls below 0 where the second
    needs more. The rates are instructions per operation.

    smallest: relative difference that is to be told; starts are added until the interval is small against it.
    lasting: folder in which the starts of the first stay, so that it is not counted again beside others.
    with_functions, templates: as `count_campaign` takes them.

    Raises ServerError where the first variant fails, OtherFailedError where only the second does, UsageError,
    BuildError, StoreError, Interrupted.
    """
    margin = max(smallest, LEAST_MARGIN)
    runs = two.both(_count(two, margin, console, lasting, with_functions, templates, starts))
    return {name: _ratio(two, name, runs, margin) for name in two.work.steps}


def compare_two(two: TwoServers, margin: float, console: Console) -> CountComparison:
    """Counts the steps of the work on both servers, or all steps that can be counted if none are named,
    unless that was done already. Returns the verdicts on them. Raises as `count_each`."""
    base, other = two.both(_count(two, max(margin, LEAST_MARGIN), console))
    sides = Side(two.labels[0], (base,)), Side(two.labels[1], (other,))
    (comparison,) = compare_counts(sides[0], sides[1:], criterion=Criterion(margin), steps=two.work.steps)
    return comparison


def _count(
    two: TwoServers,
    margin: float,
    console: Console,
    lasting: Path | None = None,
    with_functions: bool = True,
    templates: Templates | None = None,
    starts: Starts = USUAL_STARTS,
) -> list[Run]:
    """Returns the counted runs of both."""
    campaign = two.campaign()
    wanted = CountSpec(
        steps=list(two.work.steps), margin=margin, starts=starts.fewest, most_starts=starts.most
    )
    campaign = campaign.model_copy(update={"spec": campaign.spec.model_copy(update={"count": wanted})})
    results = Results(two.results)
    outcome = count_campaign(
        campaign,
        results,
        console,
        lasting=lasting,
        with_functions=with_functions,
        templates=templates,
        fewer=starts.fewer,
        find=two.find,
    )
    two.check(outcome.plan, {variant: error for variant, _, error in outcome.failed})
    return counted_runs(campaign_runs(results, two.name))


def _ratio(two: TwoServers, name: str, runs: tuple[Run, Run], margin: float) -> MeasuredRatio | str:
    """Returns the ratio of a step, or why the step is not counted."""
    sides, plans = [], []
    for run in runs:
        record = run.record.counted
        assert record is not None
        step = next((counted_step for counted_step in record.steps if counted_step.name == name), None)
        if step is None:
            return record.left_out.get(name, "nothing of it was counted")
        sides.append(step.headline)
        plans.append(step.plans)
    counts = _counts(sides[0], sides[1], margin)
    estimate = estimate_counts(*counts)
    return MeasuredRatio(
        estimate.log,
        normal_error(estimate),
        estimate.n,
        mean(counts[0]),
        mean(counts[1]),
        UNIT,
        two.name,
        runs=runs,
        plans=plan_changes(*plans),
    )


def _counts(base: CountedRole, other: CountedRole, margin: float) -> tuple[Sequence[float], Sequence[float]]:
    """Returns the counts of both sides by which they are compared: the judged counts, or all if the part left
    out provenly differs beyond the margin and would be passed over."""
    beside = left_out(base, other)
    if beside is None or not beside.is_proven or abs(beside.difference) <= margin:
        return base.instructions, other.instructions
    every = [[a + b for a, b in zip(r.instructions, r.timed, strict=True)] for r in (base, other)]
    return every[0], every[1]


__all__ = ["UNIT", "Starts", "compare_two", "count_each", "count_two"]

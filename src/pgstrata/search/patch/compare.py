"""Measures a series: each member against the one before it, and the last against the base."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from pgstrata.files import digests
from pgstrata.judge.compare import Comparison, compare_all
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.measure.two_servers import MeasuredWork, TwoServers
from pgstrata.observe.profile import unavailable
from pgstrata.search.bisect.hunt import build_server
from pgstrata.search.patch.series import Member, Series
from pgstrata.source.patch import read_patch
from pgstrata.stats.criterion import Criterion
from pgstrata.store import Results, Run
from pgstrata.store.choose import Side, campaign_runs
from pgstrata.store.lock import ResultsLock

RUNS = "runs"


@dataclass(frozen=True)
class Compared:
    """One comparison of the series. campaign: that holds its runs; whole: the last against the base of
    several."""

    comparison: Comparison
    campaign: str
    runs: tuple[Run, ...] = field(repr=False)
    whole: bool = False


@dataclass(frozen=True)
class MeasuredSeries:
    """A series that was measured. folder: with its runs below `runs`."""

    series: Series
    work: MeasuredWork
    folder: Path
    compared: tuple[Compared, ...]


def pairs_of(series: Series) -> list[tuple[Member, Member]]:
    """What is compared: neighbours, then, of several, the last with the base."""
    members = list(series.members)
    found = list(pairwise(members))
    return [*found, (members[0], members[-1])] if len(found) > 1 else found


def compare_series(
    series: Series, work: MeasuredWork, folder: Path, console: Console, *, profile: bool = True
) -> MeasuredSeries:
    """Builds and measures what is missing; finished comparisons are found again.

    Raises UsageError for a step that is not there, BuildError where a member does not build, ServerError
    where its server does not run, StoreError where nothing can be stored or another pgstrata is at it,
    Interrupted.
    """
    say = plain_lines(console)
    profile = profile and not unavailable()
    asked = [
        TwoServers(
            work,
            base.variant,
            other.variant,
            f"{other.name}-on-{base.name}-{_digest(work, base, other)}",
            folder / RUNS,
            profile,
            (base.name, other.name),
        )
        for base, other in pairs_of(series)
    ]
    for two in asked:
        two.campaign()
    with ResultsLock(folder), Interrupts(say) as interrupts:
        for member in series.members:
            build_server(work, member.variant, say, interrupts.check)
        found = []
        for number, two in enumerate(asked):
            interrupts.check()
            two.run(console)
            found.append(_judged(two, whole=len(asked) > 1 and number == len(asked) - 1))
    return MeasuredSeries(series, work, folder, tuple(found))


def _digest(work: MeasuredWork, base: Member, other: Member) -> str:
    """Of everything that decides what is measured: an edited patch is another comparison."""
    patches = [
        digests.of(read_patch(Path(patch)))
        for member in (base, other)
        for patch in member.variant.patches or []
    ]
    limits = [work.margin, work.verdict_seconds]
    variants = [side.variant.model_dump(mode="json", exclude_unset=True) for side in (base, other)]
    asked = [work.question(), limits, *variants, patches]
    return digests.of(json.dumps(asked, sort_keys=True))[:8]


def _judged(two: TwoServers, whole: bool) -> Compared:
    runs = campaign_runs(Results(two.results), two.name)
    sides = [Side(label, tuple(run for run in runs if run.variant == label)) for label in two.labels]
    criterion = Criterion(two.work.margin)
    (comparison,) = compare_all(sides[0], sides[1:], criterion=criterion, steps=two.work.steps)
    return Compared(comparison, two.name, tuple(runs), whole)


__all__ = ["RUNS", "Compared", "MeasuredSeries", "compare_series", "pairs_of"]

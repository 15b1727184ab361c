"""Measures a series: each member against the one before it, and the last against the base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from pgstrata.count.measure.countable import check_counted
from pgstrata.count.measure.counted_pair import compare_two
from pgstrata.count.verdicts import MARGIN, CountComparison
from pgstrata.files import digests
from pgstrata.judge.compare import Comparison, compare_all
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.measure.two_servers import MeasuredWork, TwoServers
from pgstrata.observe.profile import unavailable
from pgstrata.search.bisect.hunt import build_server
from pgstrata.search.bisect.procedure import Asked, By
from pgstrata.search.patch.contradiction import Ratio, contradicts, disagreement, sentence
from pgstrata.search.patch.series import Member, Series
from pgstrata.source.code_digest import code_digest
from pgstrata.source.patch import read_patch
from pgstrata.stats.criterion import Criterion
from pgstrata.store import Results, Run
from pgstrata.store.choose import Side, campaign_runs
from pgstrata.store.lock import ResultsLock

RUNS = "runs"

MARGINS: Mapping[By, float | None] = {"rate": None, "instructions": MARGIN}
"""Smallest differences that count; None: that of the work."""


@dataclass(frozen=True)
class Compared:
    """One comparison of the series. campaign: that holds its runs; whole: the last against the base of
    several; comparison: by the rate, counts: by instructions, None where it was not asked for."""

    base: str
    other: str
    campaign: str
    runs: tuple[Run, ...] = field(repr=False)
    whole: bool = False
    comparison: Comparison | None = None
    counts: CountComparison | None = None

    @property
    def title(self) -> str:
        """What is compared."""
        return f"{self.other} against {self.base}"

    def ratios(self, by: By) -> dict[str, Ratio]:
        """Returns the ratio of each step that was measured by this."""
        if by == "rate":
            steps = self.comparison.steps if self.comparison is not None else ()
            verdicts = {s.step: s.verdict for s in steps if s.verdict.n}
            return {name: Ratio(v.ratio, v.low, v.high, v.word) for name, v in verdicts.items()}
        counted = self.counts.steps if self.counts is not None else ()
        return {s.name: Ratio(s.ratio, s.low, s.high, s.word) for s in counted if s.other is not None}

    @property
    def disagreements(self) -> list[str]:
        """A sentence for each step whose time moved the other way than its instructions."""
        counted = self.ratios("instructions")
        cases = [
            disagreement(self.title, step, rate, counted[step])
            for step, rate in self.ratios("rate").items()
            if step in counted
        ]
        return [sentence_ for sentence_ in cases if sentence_ is not None]


@dataclass(frozen=True)
class MeasuredSeries:
    """A series that was measured. folder: with its runs below `runs`."""

    series: Series
    work: MeasuredWork
    folder: Path
    compared: tuple[Compared, ...]
    by: Asked = "rate"
    not_compared: tuple[str, ...] = ()
    """A sentence for each that changes nothing that is executed."""

    @property
    def disagreements(self) -> list[str]:
        """A sentence for each step of a comparison whose time moved the other way than its instructions."""
        return [sentence_ for comparison in self.compared for sentence_ in comparison.disagreements]

    @property
    def contradictions(self) -> list[str]:
        """A sentence for each step whose parts multiply to something else than its whole."""
        if not self.compared:
            return []
        *parts, whole = self.compared
        sentences = []
        for by, margin in MARGINS.items():
            margin = margin or self.work.margin
            for step, all_together in whole.ratios(by).items() if whole.whole else ():
                ratios = [part.ratios(by).get(step) for part in parts]
                known = [ratio for ratio in ratios if ratio is not None]
                if len(known) == len(parts) and contradicts(known, all_together, margin, by):
                    sentences.append(sentence(step, known, all_together, by))
        return sentences


def pairs_of(series: Series) -> list[tuple[Member, Member]]:
    """Returns the pairs that are compared: neighbours, then, if there are several, the base with the last
    member."""
    members = list(series.members)
    pairs = list(pairwise(members))
    return [*pairs, (members[0], members[-1])] if len(pairs) > 1 else pairs


def compare_series(
    series: Series,
    work: MeasuredWork,
    folder: Path,
    console: Console,
    *,
    profile: bool = True,
    by: Asked = "rate",
    counted_margin: float = MARGIN,
) -> MeasuredSeries:
    """Builds and measures what is missing; finished comparisons are found again, and servers that execute the
    same code are not compared. counted_margin: smallest difference of instructions that counts.

    Raises UsageError for a step that is not there, BuildError where a member does not build, ServerError
    where its server does not run, StoreError where nothing can be stored or another pgstrata is at it,
    Interrupted.
    """
    say = plain_lines(console)
    profile = profile and not unavailable()
    asked = comparisons_of(series, work, folder, profile=profile, by=by)
    not_compared = [*series.not_built]
    if not asked:
        return MeasuredSeries(series, work, folder, (), by, tuple(not_compared))
    with ResultsLock(folder), Interrupts(say) as interrupts:
        codes = {}
        for member in series.members:
            server = build_server(work, member.variant, say, interrupts.check)
            codes[member.name] = code_digest(server.bin_dir) if server.bin_dir is not None else ""
        compared = []
        for number, two in enumerate(asked):
            base, other = two.labels
            if codes[base] and codes[base] == codes[other]:
                not_compared.append(f"{other} executes the same code as {base}: it is not compared")
                say(not_compared[-1])
                continue
            counts = None
            interrupts.check()
            if by != "instructions":
                two.run(console)
            if by != "rate":
                interrupts.check()
                counts = compare_two(two, counted_margin, console)
            compared.append(_judged(two, counts, by, whole=len(asked) > 1 and number == len(asked) - 1))
    return MeasuredSeries(series, work, folder, tuple(compared), by, tuple(not_compared))


def comparisons_of(
    series: Series, work: MeasuredWork, folder: Path, *, profile: bool = False, by: Asked = "rate"
) -> list[TwoServers]:
    """Returns the comparisons to measure, checked before anything is built. Raises UsageError for a workload,
    step, option or config that does not exist, and for a step that cannot be counted where counts are asked
    for."""
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
        campaign = two.campaign()
        if by != "rate":
            check_counted(campaign, work.steps)
    return asked


def _digest(work: MeasuredWork, base: Member, other: Member) -> str:
    """Returns a short digest of everything that decides the measurement: an edited patch makes another
    comparison."""
    patches = [
        digests.of(read_patch(Path(patch)))
        for member in (base, other)
        for patch in member.variant.patches or []
    ]
    limits = [work.margin, work.verdict_seconds]
    variants = [side.variant.model_dump(mode="json", exclude_unset=True) for side in (base, other)]
    asked = [work.question(), limits, *variants, patches]
    return digests.of(json.dumps(asked, sort_keys=True))[:8]


def _judged(two: TwoServers, counts: CountComparison | None, by: Asked, whole: bool) -> Compared:
    runs = campaign_runs(Results(two.results), two.name)
    comparison = None
    if by != "instructions":
        timed = [run for run in runs if run.record.counted is None]
        sides = [Side(label, tuple(run for run in timed if run.variant == label)) for label in two.labels]
        criterion = Criterion(two.work.margin)
        (comparison,) = compare_all(sides[0], sides[1:], criterion=criterion, steps=two.work.steps)
    return Compared(*two.labels, two.name, tuple(runs), whole, comparison, counts)


__all__ = ["RUNS", "Compared", "MeasuredSeries", "compare_series", "comparisons_of", "pairs_of"]

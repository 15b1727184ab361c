"""What the runs of one campaign say, arranged for a report: variants × workloads × steps."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from pgstrata.errors import NoRunsError, UsageError
from pgstrata.judge.common_queries import over_common
from pgstrata.judge.compare import Comparison, StepVerdict, compare_all, margin_of
from pgstrata.judge.latency import over_repeats
from pgstrata.judge.machines import shown_machine
from pgstrata.judge.marks import THRESHOLDS, check_thresholds, relative_mark
from pgstrata.judge.published import Published
from pgstrata.judge.spread import repeats_of
from pgstrata.judge.summary import Summary, SummaryCell, summarise
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.rates import middle
from pgstrata.stats.verdict import Word
from pgstrata.store import BrokenRun, Results, Run
from pgstrata.store.choose import Side, unknown_campaign
from pgstrata.store.comparisons import KnownRun, counted
from pgstrata.store.counted import counted_runs, plain_workload
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import LatencyRecord
from pgstrata.suggest import meant

Json = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Repeats:
    """A variant's repeats of one step."""

    repeats: tuple[MeasuredStep, ...]

    @cached_property
    def rates(self) -> list[float]:
        return [m.rate for m in self.repeats if m.rate is not None]

    @cached_property
    def rate(self) -> float | None:
        """The rate over the repeats, their geometric mean, in the step's unit.

        What a reader sees beside the base is `RunSet.rate`, which belongs to the verdict.
        """
        return middle(self.rates) if self.rates else None

    @property
    def sla_met(self) -> bool:
        return all(m.sla_met for m in self.repeats)

    @cached_property
    def typical(self) -> MeasuredStep:
        """Returns the repeat whose rate is nearest to that of all: its seconds are drawn."""
        rate = self.rate or 0.0
        return min(self.repeats, key=lambda m: abs((m.rate or 0.0) - rate))

    @cached_property
    def latencies(self) -> Mapping[str, LatencyRecord]:
        """Response times by role, all repeats added up."""
        repeats = [(m.run, m.record) for m in self.repeats]
        roles = dict.fromkeys(role for _, record in repeats for role in record.roles)
        by_role = {role: over_repeats(repeats, role) for role in roles}
        return {role: latency for role, latency in by_role.items() if latency is not None}

    def median(self, of: Callable[[MeasuredStep], float | None]) -> float | None:
        """Returns the median over the repeats of any figure of the step; None if no repeat has it."""
        values = [v for v in map(of, self.repeats) if v is not None]
        return statistics.median(values) if values else None


@dataclass(frozen=True)
class StepResults:
    """A step of a workload over all variants that measured it."""

    workload: str
    name: str
    group: str
    summary: str
    unit: str
    measured: bool
    anchor: str
    by_variant: Mapping[str, Repeats]

    @cached_property
    def role_names(self) -> list[str]:
        """Every role any variant had in this step, the headline's first."""
        names: dict[str, None] = {}
        for repeats in self.by_variant.values():
            for measured in repeats.repeats:
                names.setdefault(measured.record.role)
                for name in measured.record.roles:
                    names.setdefault(name)
        return list(names)


@dataclass(frozen=True)
class WorkloadResults:
    """A workload of the campaign, its steps in order, loads included, and its summary tables.

    machines: those it was measured on. Rates, seconds and costs of different machines are not put together:
    where there are several, `steps` and `runs` are those of the first, and only verdicts and relative rates
    are of all.
    """

    name: str
    steps: tuple[StepResults, ...]
    runs: tuple[Run, ...]
    summary: Summary
    machines: tuple[str, ...] = ()

    @property
    def compared(self) -> tuple[StepResults, ...]:
        """The steps that take part in comparisons."""
        return tuple(step for step in self.steps if step.measured)

    def has_any(self, variants: Iterable[str]) -> bool:
        """Returns whether one of these variants has measured a step that takes part in comparisons."""
        return any(variant in step.by_variant for variant in variants for step in self.compared)


@dataclass(frozen=True)
class RunSet:
    """One campaign. `runs` are the finished ones that count, `failed` those that ended badly, `unable` those
    that were not made because the version cannot. `by_thresholds`: whether rates are coloured by the
    thresholds and the rules of the field's reports, not by their verdicts. `known`: gives those of all
    campaigns that may say how much runs differ from one to the next. `counted`: runs that counted
    instructions, which have no rates and take no part in anything else; `imported`: what other programs
    measured, which is shown and never judged. `published`: ratios of a study of the campaign's name."""

    campaign: str
    variants: tuple[str, ...]
    base: str
    workloads: tuple[WorkloadResults, ...]
    runs: tuple[Run, ...]
    failed: tuple[Run, ...] = ()
    unable: tuple[Run, ...] = ()
    broken: tuple[BrokenRun, ...] = ()
    counted: tuple[Run, ...] = ()
    imported: tuple[Run, ...] = ()
    published: tuple[Published, ...] = ()
    thresholds: tuple[float, float] = THRESHOLDS
    by_thresholds: bool = False
    known: Callable[[], Iterable[Run]] = tuple
    _index: Mapping[str, int] = field(default_factory=dict)
    _ratios: Mapping[tuple[str, str, str], SummaryCell] = field(default_factory=dict)
    _derived: dict[Callable[[RunSet], Any], Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def counted_workloads(self) -> list[str]:
        """Workloads of which something was counted, as the campaign calls them."""
        return list(dict.fromkeys(map(plain_workload, self.counted)))

    def derived(self, make: Callable[[RunSet], T]) -> T:
        """Returns what `make` makes of these results; it is called once."""
        if make not in self._derived:
            self._derived[make] = make(self)
        value: T = self._derived[make]
        return value

    def color(self, variant: str) -> int:
        """Returns the variant's place in the order of colours."""
        return self._index.get(variant, 0)

    def ratio(self, step: StepResults, variant: str) -> SummaryCell:
        """Returns the relative rate of a variant in a step, that of its verdict, with its mark by the
        thresholds; without a value where nothing was held against each other."""
        cell = self._ratios.get((step.workload, variant, step.name), SummaryCell(None, "missing"))
        verdict = self.verdict(step, variant)
        if cell.value is None or verdict is None:
            return cell
        if verdict.ratio is None:
            return SummaryCell(None, "missing")
        mark = relative_mark(verdict.ratio, self.thresholds, comparable=cell.mark != "missed")
        return replace(cell, value=verdict.ratio, mark=mark)

    def rate(self, step: StepResults, variant: str) -> float | None:
        """Returns the rate of a variant in a step, in the step's unit, as every table and chart shows it.

        That of the base is the one over its repeats; those of the others are the base's × the ratio of their
        verdict (of the machine that is shown), so that a rate, a ratio and a word never say different things.
        """
        repeats, base = step.by_variant.get(variant), step.by_variant.get(self.base)
        if repeats is None:
            return None
        ratio = self.shown_ratio(step, variant)
        if ratio is None or base is None or base.rate is None or repeats.rate is None:
            return repeats.rate
        return base.rate * ratio

    def shown_ratio(self, step: StepResults, variant: str) -> float | None:
        """Returns the ratio of the verdict on the machine whose rates are shown; None if there is none."""
        verdict, base = self.verdict(step, variant), step.by_variant.get(self.base)
        return None if verdict is None or base is None else verdict.ratio_on(base.typical.run.machine)

    @cached_property
    def margin(self) -> float:
        """Smaller differences are none: that of the campaign."""
        return margin_of(self.runs)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Verdicts on every variant but the base; adjusted for the number of all of them together."""
        sides = {v: Side(v, tuple(r for r in self.runs if r.variant == v)) for v in self.variants}
        others = [sides[v] for v in self.others if sides[v].runs]
        if not others or not sides[self.base].runs:
            return []
        return compare_all(sides[self.base], others, criterion=Criterion(self.margin), known=self.known)

    @cached_property
    def verdicts(self) -> Mapping[tuple[str, str, str], StepVerdict]:
        """The same by (workload, variant, step), and by `STEP.QUERY` those of queries."""
        return {
            (s.workload, comparison.other, s.step): s
            for comparison in self.comparisons
            for s in (*comparison.steps, *comparison.judged)
        }

    def verdict(self, step: StepResults, variant: str) -> StepVerdict | None:
        """Returns the verdict on a variant in a step; None for the base, and if either of the two was not
        measured."""
        return self.verdicts.get((step.workload, variant, step.name))

    def word(self, step: StepResults, variant: str) -> Word | None:
        """Returns the word of the verdict; None if there is none."""
        verdict = self.verdict(step, variant)
        return None if verdict is None else verdict.verdict.word

    def has_failed(self, variant: str) -> bool:
        return any(run.variant == variant for run in self.failed)

    @property
    def every(self) -> tuple[Run, ...]:
        """All runs, also those that say nothing."""
        return (*self.runs, *self.failed, *self.unable, *self.counted)

    def cannot(self, variant: str, workload: str) -> str:
        """Returns why a variant's version cannot run a workload; empty if it can."""
        for run in self.unable:
            if (run.variant, run.workload) == (variant, workload):
                return run.record.error.message if run.record.error else "this version cannot run it"
        return ""

    def runs_of(self, variant: str) -> list[Run]:
        return [run for run in self.runs if run.variant == variant]

    @property
    def others(self) -> list[str]:
        """Every variant but the base."""
        return [v for v in self.variants if v != self.base]

    @cached_property
    def most_repeats(self) -> int:
        return max(
            (len(p.repeats) for w in self.workloads for s in w.steps for p in s.by_variant.values()),
            default=0,
        )


def natural(text: str) -> list[tuple[int, int, str]]:
    """Returns a sort key under which pg9.6 comes before pg12 and a2 before a10."""
    return [
        (0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part)
        for part in re.findall(r"\d+|\D+", text)
    ]


def anchor(*names: str) -> str:
    """Returns an identifier for links: letters, digits, dots and dashes only."""
    return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") or "x" for name in names)


def campaigns(runs: Iterable[KnownRun]) -> list[str]:
    """Returns the names of the campaigns of these runs, the last started first."""
    last: dict[str, str] = {}
    for run in runs:
        last[run.campaign] = max(last.get(run.campaign, ""), run.started)
    return sorted(last, key=lambda name: last[name], reverse=True)


def read_results(
    results: Path | Results,
    campaign: str | None = None,
    base: str | None = None,
    thresholds: tuple[float, float] | None = None,
) -> RunSet:
    """Reads a campaign. Without a name there must be only one.

    thresholds: relative rates that are coloured whatever is proven; None: verdicts are coloured.
    base: label of the variant the others are compared with; the campaign's if None, else its first.
    Raises NoRunsError when there are no runs, UsageError for a campaign or base that is not there and
    for thresholds that make no sense.
    """
    by_thresholds = thresholds is not None
    thresholds = thresholds or THRESHOLDS
    check_thresholds(thresholds)
    store = results if isinstance(results, Results) else Results(results)
    runs = store.entries()
    names = sorted({run.campaign for run in runs}, key=natural)
    if not names:
        raise NoRunsError(
            f"no runs in {store.root}", "run a campaign first, or name another folder with --results"
        )
    if campaign is None and len(names) > 1:
        raise UsageError(f"{store.root} holds several campaigns: {', '.join(names)}", "choose one of them")
    if campaign is not None and campaign not in names:
        raise unknown_campaign(campaign, names, store.root)
    chosen = campaign or names[0]
    there = store.read(counted([run for run in runs if run.campaign == chosen]))
    imported = [run for run in there if run.imported]
    there = [run for run in there if not run.imported]
    variants = _ordered_variants(there or imported)
    timed_runs = [run for run in there if run.record.counted is None]
    if base is not None and base not in variants:
        raise UsageError(f"no variant {base!r} in campaign {chosen!r}", meant(base, variants, "there is"))
    finished = _newest(run for run in timed_runs if run.done)
    done = [*finished, *_whole_parts(timed_runs, finished)]
    by_variant = [[run for run in done if run.variant == variant] for variant in variants]
    common, _ = over_common([runs for runs in by_variant if runs])
    done = sorted((run for runs in common for run in runs), key=lambda r: (r.key, r.run_id))
    if base is None:
        base = _named_base([run for run in there if run.done], variants)
    if base is None:
        base = next((v for v in variants if any(run.variant == v for run in done)), variants[0])
    summaries = summarise(done, variants=variants, base=base, thresholds=thresholds)
    return RunSet(
        campaign=chosen,
        variants=tuple(variants),
        base=base,
        workloads=tuple(_workload(done, variants, summary) for summary in summaries),
        runs=tuple(done),
        failed=tuple(_begun(run for run in timed_runs if run.record.status == "failed")),
        unable=tuple(_begun(run for run in timed_runs if run.record.status == "unable")),
        broken=tuple(store.broken),
        counted=tuple(counted_runs(there)),
        imported=tuple(imported),
        thresholds=thresholds,
        by_thresholds=by_thresholds,
        known=lambda: repeats_of(store, {summary.workload for summary in summaries}),
        _index={variant: i for i, variant in enumerate(variants)},
        _ratios={
            (summary.workload, row.variant, column.step): cell
            for summary in summaries
            for row in summary.relative.rows
            for column, cell in zip(summary.relative.columns, row.cells, strict=True)
        },
    )


def _whole_parts(runs: Sequence[Run], finished: Sequence[Run]) -> list[Run]:
    """Returns, of runs that failed in a step that they name and that no finished run replaces, the steps that
    ended before: they are as whole as any."""
    there = {(run.key, run.machine) for run in finished}
    whole_runs = []
    for run in _newest(run for run in runs if run.record.status == "failed"):
        whole = tuple(step for step in run.steps if step.error is None)
        if (run.key, run.machine) in there or len(whole) == len(run.steps):
            continue
        if any(step.measured for step in whole):
            whole_runs.append(Run(run.folder, structs.replace(run.record, status="done", steps=whole)))
    return whole_runs


def _begun(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.record.started)


def _ordered_variants(runs: Sequence[Run]) -> list[str]:
    """Returns the variants in the campaign's order; those of several campaigns of one name, as they were
    first measured."""
    first: dict[str, tuple[int, str]] = {}
    for run in runs:
        key = (run.record.variant_order, run.record.started)
        first[run.variant] = min(first.get(run.variant, key), key)
    return sorted(first, key=lambda v: (first[v], natural(v)))


def _named_base(done: Sequence[Run], variants: Sequence[str]) -> str | None:
    """Returns the base that the campaign named when it was last run: a label, or the beginning of one; None
    if that is not a single variant."""
    last = max(done, key=lambda r: r.record.started, default=None)
    base = last.record.base if last else None
    matches = [v for v in variants if v == base] or [v for v in variants if base and v.startswith(base)]
    return matches[0] if len(matches) == 1 else None


def _newest(runs: Iterable[Run]) -> list[Run]:
    """Returns only the last of several runs of one key on one machine: it was measured to replace the earlier
    runs."""
    kept: dict[tuple[object, ...], Run] = {}
    for run in sorted(runs, key=lambda r: (r.record.started, r.run_id)):
        kept[(run.key, run.machine)] = run
    return sorted(kept.values(), key=lambda r: (r.key, r.run_id))


def _workload(runs: Sequence[Run], variants: Sequence[str], summary: Summary) -> WorkloadResults:
    own_runs = [run for run in runs if run.workload == summary.workload]
    first = shown_machine(own_runs, summary.base)
    machines = () if first is None else (first, *sorted({run.machine for run in own_runs} - {first}))
    shown = tuple(run for run in own_runs if first in (None, run.machine))
    steps = tuple(_steps(summary.workload, shown, variants))
    return WorkloadResults(summary.workload, steps, shown, summary, machines)


def _steps(workload: str, runs: Sequence[Run], variants: Sequence[str]) -> list[StepResults]:
    measured_steps: dict[str, list[MeasuredStep]] = {}
    order: dict[str, int] = {}
    for run in runs:
        for place, record in enumerate(run.steps):
            measured_steps.setdefault(record.name, []).append(MeasuredStep(run, record))
            order.setdefault(record.name, place)
    results: list[StepResults] = []
    taken: set[str] = set()
    for name in sorted(measured_steps, key=lambda n: order[n]):
        record = measured_steps[name][0].record
        link = anchor("step", workload, name)
        while link in taken:
            link += "-"
        taken.add(link)
        results.append(
            StepResults(
                workload=workload,
                name=name,
                group=record.group,
                summary=record.summary,
                unit=record.rate_unit,
                measured=record.measured,
                anchor=link,
                by_variant={
                    v: Repeats(tuple(repeats))
                    for v in variants
                    if (repeats := [m for m in measured_steps[name] if m.run.variant == v])
                },
            )
        )
    return results

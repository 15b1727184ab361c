"""Does a campaign: every run that is missing, one after the other, whatever happens to the others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from pgstrata import numbers
from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.plan.enough import too_short_lines
from pgstrata.campaign.plan.kept_lines import kept_lines
from pgstrata.campaign.plan.left_out import left_out_lines
from pgstrata.campaign.plan.model import PlannedRun, measured_again
from pgstrata.campaign.plan.order import takes_turns
from pgstrata.campaign.plan.resume import phases_of
from pgstrata.campaign.plan.runs import Plan, make_plan
from pgstrata.campaign.plan.stages import further_line, units_of
from pgstrata.driver.client import find_driver
from pgstrata.errors import ServerError
from pgstrata.files.disk import storing
from pgstrata.measure.interrupt import Interrupted, Interrupts
from pgstrata.measure.progress import Progress, plain_lines, progress_on
from pgstrata.measure.quiet import QuietWait
from pgstrata.measure.run.active import ActiveRun
from pgstrata.measure.session import Session
from pgstrata.measure.turns.runs_in_turn import RunsInTurn
from pgstrata.observe.doctor import examine
from pgstrata.server.cluster.storage import cluster_root, find_storage
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.cache import clear_unfinished
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.server.find.sources import sources
from pgstrata.server.system.guard import clear_leftovers
from pgstrata.store import Results, comparisons, kept
from pgstrata.workload.core.language import Step


@dataclass
class CampaignOutcome:
    """What became of a campaign: folders of the runs made now, and what failed why."""

    plan: Plan
    folders: list[Path] = field(default_factory=list)
    failed: list[tuple[PlannedRun, str]] = field(default_factory=list)


def data_root(campaign: Campaign) -> Path:
    """Returns the folder the clusters live in, made if need be.

    Raises OwnershipError where another user could prepare or change what is in it, UsageError if it cannot
    be written to.
    """
    return cluster_root(campaign.spec.data_dir)


def clear_places(campaign: Campaign, root: Path) -> list[str]:
    """Ends and removes what killed ones have left in every folder in which clusters or their write-ahead logs
    are made, each once, data first; what was done.

    Raises as `find_storage` does: what is cleared lies where nobody else can have prepared it.
    """
    kinds = [(v.data_dir, v.wal_dir) for v in campaign.variants]
    storages = [find_storage(data, wal, None) for data, wal in dict.fromkeys(kinds)]
    places = [root, *(storage.data for storage in storages), *(storage.wal for storage in storages)]
    wanted = dict.fromkeys(place for place in places if place is not None)
    return [text for place in wanted for text in clear_leftovers(place)]


@dataclass(frozen=True)
class Conditions:
    """What is otherwise than in a campaign that a person starts.

    only: which of the planned runs are made. find: gives the server of a spec and build; by default it is
    fetched or built. progress: makes what the runs report to, from their plan. quiet_seconds: how long it may
    be waited, in all, until other programs leave the CPUs alone.
    """

    only: Callable[[PlannedRun], bool] = lambda run: True
    find: Callable[[str, Build | None], Server] | None = None
    progress: Callable[[Plan], AbstractContextManager[Progress]] | None = None
    quiet_seconds: float = 0.0


USUAL = Conditions()


def plan_campaign(
    campaign: Campaign,
    results: Results,
    say: Callable[[str], None],
    *,
    fresh: bool = False,
    conditions: Conditions = USUAL,
) -> Plan:
    """Returns the plan with every server at hand, fetched or built where needed."""

    def find(spec: str, how: Build | None) -> Server:
        return acquire(spec, how, say=say, folder=campaign.folder)

    plan = make_plan(campaign, results, conditions.find or find, fresh=fresh)
    return replace(plan, runs=[run for run in plan.runs if conditions.only(run)])


def execute(
    campaign: Campaign,
    results: Results,
    console: Console,
    *,
    fresh: bool = False,
    conditions: Conditions = USUAL,
) -> CampaignOutcome:
    """Plans and makes all missing runs.

    A run that fails is stored as failed and the next one begins. Raises Interrupted when a signal
    asked for the end, StoreError when results cannot be written (or another pgstrata does so),
    and whatever planning raises. In every case nothing is left running.
    """
    find_driver()  # said before anything is fetched
    root = data_root(campaign)
    say = plain_lines(console)
    with Interrupts(say) as interrupts, results.lock():
        for left in results.clean():
            say(f"removed what an interrupted run left: {left}")
        for text in [
            *clear_places(campaign, root),
            *clear_unfinished(),
            *(text for source in sources() for text in source.clear_unfinished()),
        ]:
            say(f"cleared what an earlier pgstrata left: {text}")
        plan = plan_campaign(campaign, results, say, fresh=fresh, conditions=conditions)
        _check_space(plan, root)
        _announce(plan, say)
        if plan.missing:
            _warn(root, plan, say)
        watched = (conditions.progress or partial(progress_on, console))(plan)
        quiet = QuietWait(conditions.quiet_seconds, say)
        return _carry_out(plan, Session(campaign, results, root, interrupts, say), watched, quiet)


def _carry_out(
    plan: Plan, session: Session, watched: AbstractContextManager[Progress], quiet: QuietWait
) -> CampaignOutcome:
    """Makes the missing runs of a plan, in its order. watched: what they report to; quiet: waited for before
    each."""
    interrupts = session.interrupts
    outcome = CampaignOutcome(plan)
    with watched as progress:
        for run in plan.missing:
            if run.unable:
                session.say(f"{run.key.variant}, {run.key.workload}: not measured: {run.unable}")
                _leave_out(run, session, progress)
        if takes_turns(session.campaign.spec):
            _interleave(plan, session, progress, outcome, quiet)
            return outcome
        units = units_of(plan)
        for number, run in enumerate((run for unit in units for run in unit.runs), 1):
            interrupts.check()
            quiet.wait(interrupts.check)
            progress.runs_begin([run], number, len(units))
            begun = time.monotonic()
            error = _make(run, session, progress, outcome)
            failed = [] if error is None else [(run, error)]
            progress.runs_ended(failed, time.monotonic() - begun)
        interrupts.check()
    return outcome


def _make(run: PlannedRun, session: Session, progress: Progress, outcome: CampaignOutcome) -> str | None:
    results, interrupts = session.results, session.interrupts
    _drop_unused([run], results)
    with interrupts.shield():
        builder = results.begin(run.key)
    try:
        interrupts.check()
        folder, error = ActiveRun(session, run, builder, progress).measure()
    except BaseException:
        with interrupts.shield():
            builder.abandon()
        raise
    outcome.folders.append(folder)
    if error is not None:
        outcome.failed.append((run, error))
    else:
        _set_aside(folder, run.key.repeat)
    kept.drop(results.root, run.key)
    return error


def _leave_out(run: PlannedRun, session: Session, progress: Progress) -> None:
    """Records that a version cannot run a workload: its cells are empty, and say why."""
    interrupts = session.interrupts
    with interrupts.shield():
        builder = session.results.begin(run.key)
    try:
        interrupts.check()
        folder = ActiveRun(session, run, builder, progress).finish(None, "")
    except BaseException:
        with interrupts.shield():
            builder.abandon()
        raise
    _set_aside(folder, run.key.repeat)


def _interleave(
    plan: Plan, session: Session, progress: Progress, outcome: CampaignOutcome, quiet: QuietWait
) -> None:
    """Makes the missing runs, those of one workload and repeat together."""
    results, interrupts = session.results, session.interrupts
    units = units_of(plan)
    for number, group in enumerate((unit.runs for unit in units), 1):
        interrupts.check()
        quiet.wait(interrupts.check)
        progress.runs_begin(group, number, len(units))
        begun = time.monotonic()
        _drop_unused(group, results)
        with interrupts.shield():
            builders = [results.begin(run.key) for run in group]
        try:
            interrupts.check()
            active = [
                ActiveRun(session, run, builder, progress)
                for run, builder in zip(group, builders, strict=True)
            ]
            measured = RunsInTurn(session.campaign, active, plan.base).measure()
        except BaseException:
            with interrupts.shield():
                for builder in builders:
                    if builder.folder.exists():
                        builder.abandon()
            raise
        folders = {run.key: folder for run, (folder, _) in zip(group, measured, strict=True)}
        failed = [(run, error) for run, (_, error) in zip(group, measured, strict=True) if error is not None]
        with storing("set older runs aside", results.root):
            comparisons.replace_older(results, folders, [run.key for run, _ in failed])
        for run in group:  # not before all are there: else half a comparison would be left
            kept.drop(results.root, run.key)
        outcome.folders += [folder for folder, _ in measured]
        outcome.failed += failed
        progress.runs_ended(failed, time.monotonic() - begun)
    interrupts.check()


def _drop_unused(runs: Sequence[PlannedRun], results: Results) -> None:
    """Removes steps that were kept and do not count any more."""
    for run in runs:
        if not run.kept:
            kept.drop(results.root, run.key)


def _set_aside(folder: Path, repeat: int) -> None:
    """Hides older runs of the same key — failed ones, and those `--fresh` measured anew.

    They stay on disk, but no table counts them beside the one that replaces them.
    """
    for other in folder.parent.glob(f"{repeat}-*"):
        if other != folder and other.is_dir():
            comparisons.hide(other)


def _check_space(plan: Plan, root: Path) -> None:
    sizes: dict[Path, list[int]] = {}
    for run in plan.missing:
        if run.variant.server.managed:
            sizes.setdefault(run.variant.storage.data or root, []).append(run.disk_bytes)
    for place, wanted in sizes.items():
        stat = os.statvfs(place)
        free = stat.f_bavail * stat.f_frsize
        if free < min(wanted):
            raise ServerError(
                f"{place} has {numbers.size(free)} free, "
                f"even the smallest run needs about {numbers.size(min(wanted))}",
                "make room, or name another disk: data_dir in the campaign, or --data-dir",
            )


def _announce(plan: Plan, say: Callable[[str], None]) -> None:
    if plan.missing:
        say(opening(plan))
    there = len(plan.runs) - len(plan.missing)
    if there:
        are = numbers.agreeing(there, "is", "are")
        say(f"{there} of {numbers.counted(len(plan.runs), 'run')} {are} there already")
    for line in filter(None, (further_line(plan), *kept_lines(plan))):
        say(line)
    if again := sum(run.again for run in plan.runs):
        say(measured_again(again, "more"))
    for line in left_out_lines(plan.variants):
        say(line)
    for line in too_short_lines(plan):
        say(f"warning: {line}")


def opening(plan: Plan) -> str:
    """Returns the first line of a campaign: what is measured, how, and how long it takes."""
    labels = list(dict.fromkeys(run.key.variant for run in plan.missing))
    workloads = " and ".join(dict.fromkeys(run.key.workload for run in plan.missing))
    names = {
        phase.name
        for run in plan.missing
        for phase in phases_of(run)
        if isinstance(phase, Step) and phase.measured
    }
    steps = numbers.plural("step", len(names))
    variants = " and ".join(labels) if len(labels) <= 4 else f"{len(labels)} variants"
    spec = plan.campaign.spec
    if takes_turns(spec):
        end = " until each is known to be slower, faster or the same" if spec.until == "verdict" else ""
        how = f"{variants} take turns at {len(names)} {steps} of {workloads}{end}"
    else:
        runs = numbers.plural("run", len(plan.missing))
        how = f"{variants}: {len(plan.missing)} {runs} of {workloads}, one after the other"
    return f"{how}, {plan.bound} {numbers.clock(plan.seconds)}"


def _warn(root: Path, plan: Plan, say: Callable[[str], None]) -> None:
    """Warns of everything that makes all numbers of this machine doubtful."""
    for check in examine(root, needed_bytes=plan.disk_bytes):
        if check.state == "bad":
            say(f"warning: {check.name}: {check.seen}. {check.fix}")


__all__ = ["CampaignOutcome", "Interrupted", "data_root", "execute", "plan_campaign"]

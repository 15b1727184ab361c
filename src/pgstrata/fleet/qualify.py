"""Can this machine see what the campaign asks? The base against itself, before its first comparison."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.study import VERDICT_SLICE_SECONDS
from pgstrata.errors import ServerError
from pgstrata.fleet.tasks import Qualified, Qualify
from pgstrata.measure.campaign import Conditions, data_root, execute
from pgstrata.measure.self_comparison import STEP, of_base, options_of, rates_in_pairs, study_of_one
from pgstrata.numbers import counted
from pgstrata.observe.doctor import examine
from pgstrata.stats.estimate import FEW
from pgstrata.stats.noise import noise
from pgstrata.store import Results
from pgstrata.store.record import Qualification
from pgstrata.store.write import now
from pgstrata.turns.windows import GAP, first_look
from pgstrata.workload.core.language import Step

TRIES = 2
"""Times that a machine may show what it sees: something may have disturbed it once."""

ROWS = 20_000


def step_minutes(plan: Plan) -> float:
    """Returns the minutes that the campaign gives a step that takes turns: in which its margin has to be
    seen."""
    spec = plan.campaign.spec
    if spec.until == "verdict":
        return spec.max_seconds / 60
    times = [
        phase.seconds
        for run in plan.runs
        if not run.unable
        for phase in run.workload.phases(run.variant.server.features)
        if isinstance(phase, Step) and phase.measured and phase.reads_only and phase.seconds
    ]
    # Both sides of a pair, and every repeat says something.
    return max(1.0, 2 * min(times, default=30.0) * spec.repeats / 60)


def qualify(task: Qualify, campaign: Campaign, results: Path, conditions: Conditions) -> Qualified:
    """Looks at the machine and measures. Raises ServerError where the base cannot be measured here."""
    doubts = tuple(
        f"{check.name}: {check.seen}"
        for check in examine(data_root(campaign), needed_bytes=task.disk_bytes)
        if check.state == "bad"
    )
    if campaign.variants[task.number].server.startswith("dsn:"):
        # Somebody else's server is not measured for our sake: what it can show is unknown beforehand.
        unknown = Qualification(
            at=now(), seen=None, minutes=task.minutes, margin=task.margin, offset=None, doubts=doubts
        )
        return Qualified(qualification=unknown)
    for _ in range(TRIES):
        qualification = _seen(task, campaign, results, conditions, doubts)
        if qualification.seen is not None and qualification.seen <= qualification.margin:
            return Qualified(qualification=qualification)
    return Qualified(qualification=qualification, problem=_problem(qualification))


def _problem(qualification: Qualification) -> str:
    seen = "nothing" if qualification.seen is None else f"no slowdown below {qualification.seen:.1%}"
    doubts = f"; {'; '.join(qualification.doubts)}" if qualification.doubts else ""
    return (
        f"it sees {seen} in {qualification.minutes:.3g} minutes of a step, and the campaign's margin is "
        f"{qualification.margin:.2%}{doubts}"
    )


def _seen(
    task: Qualify, campaign: Campaign, results: Path, conditions: Conditions, doubts: tuple[str, ...]
) -> Qualification:
    trial_results = Results(results)
    outcome = execute(
        _trial(task, campaign, results), trial_results, Console(quiet=True), fresh=True, conditions=conditions
    )
    for _, error in outcome.failed:
        raise ServerError(f"the base could not be measured here: {error}")
    folders = set(outcome.folders)
    pairs = rates_in_pairs([run for run in trial_results.runs() if run.folder in folders])
    if pairs is None:
        raise ServerError("the base could not be measured in turn here")
    if len(pairs.base) < FEW:
        left = counted(len(pairs.base), "pair")
        raise ServerError(f"too busy: in no more than {left} no server waited for a CPU")
    (shown,) = noise(
        pairs.base,
        pairs.other,
        pairs.blocks,
        starts=pairs.starts,
        pair_seconds=2 * VERDICT_SLICE_SECONDS * (1 + GAP),
        first_look=first_look(VERDICT_SLICE_SECONDS),
        minutes=[task.minutes],
    ).visible
    share = shown.watched if campaign.spec.until == "verdict" else shown.fixed
    base, again = pairs.base, pairs.other
    return Qualification(
        at=now(),
        seen=share,
        minutes=task.minutes,
        margin=task.margin,
        offset=sum(again) / sum(base) - 1 if sum(base) > 0 else None,
        doubts=doubts,
    )


def _trial(task: Qualify, campaign: Campaign, results: Path) -> Campaign:
    """Returns the campaign that measures the base against itself, on the CPUs of the campaign."""
    spec = campaign.spec
    short = study_of_one(
        "qualification",
        options_of(STEP, ROWS),
        task.seconds,
        server_cpus=spec.server_cpus,
        driver_cpus=spec.driver_cpus,
        data_dir=spec.data_dir,
        results=results,
        other_load=spec.other_load,
    )
    return of_base(short, campaign, campaign.variants[task.number])


__all__ = ["qualify", "step_minutes"]

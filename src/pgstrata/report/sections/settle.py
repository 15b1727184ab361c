"""What would settle a comparison that proves nothing: a command, and how long it takes."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence

from pgstrata import numbers
from pgstrata.campaign.study import Study
from pgstrata.errors import UsageError
from pgstrata.judge.disturbance import LONGER_SLICES
from pgstrata.page.results import RunSet, WorkloadResults
from pgstrata.server.config.resolve import find_config_file
from pgstrata.store import Run
from pgstrata.workload import catalog
from pgstrata.workload.core.options import Divisible

MOST_LONGER = 20.0
"""Times as long: beyond that another machine, or a larger margin, is the better advice."""

AROUND = 1.2
"""Of a comparison: connecting, settling, stopping, beside what is measured."""

QUIETER = (
    "Measuring longer would hardly settle it here; a quieter machine would. pgstrata doctor says what to "
    "stop; with --wait-quiet 10m the same command waits until other programs rest."
)


def settle(results: RunSet, workload: WorkloadResults) -> list[str]:
    """Returns a sentence with the command that would reach a verdict and its time; none if there is no
    variant to compare with."""
    runs = [run for run in workload.runs if run.variant in results.variants]
    if len({run.variant for run in runs}) < 2:
        return []
    if any(not run.record.server.managed for run in runs):
        seconds = 5 * sum(_seconds(run) for run in runs)
        return [_sentence(_command(results, runs, ["--repeats", "5"]), "about", seconds)]
    if _disturbed(results, workload):
        return []  # the advice beside it, to stop other programs, settles it
    together = next((run.record.comparison for run in runs if run.record.comparison), None)
    if together is None:
        most = Study.model_fields["max_seconds"].default * len(workload.compared)
        seconds = most * AROUND + sum(_seconds(run) - _measured(run) for run in runs)
        return [_sentence(_command(results, runs, ["--until", "verdict"]), "at most", seconds)]
    longer = _longer(results, workload, together.margin)
    if longer is None or longer > MOST_LONGER:
        return [QUIETER]
    longest = max(step.seconds or 0.0 for run in runs for step in run.steps if step.measured)
    most = math.ceil(longest * len(together.variants) * longer)
    more = ["--until", "verdict", "--max-seconds", str(most)]
    alone = all(run.record.replicas is None for run in runs)
    if alone and together.turns != Study.model_fields["turns"].default:
        more += ["--turns", together.turns]
    return [_sentence(_command(results, runs, more), "at most", most * len(workload.compared) * AROUND)]


def _disturbed(results: RunSet, workload: WorkloadResults) -> bool:
    """Returns whether other programs disturbed a step, so that measuring longer does not help it."""
    verdicts = [results.verdict(step, variant) for step in workload.compared for variant in results.others]
    disturbances = [
        verdict.disturbance for verdict in verdicts if verdict is not None and verdict.disturbance
    ]
    return any(LONGER_SLICES not in words for words in disturbances)


def _sentence(command: str, about: str, seconds: float) -> str:
    minutes = 60 * max(1, math.ceil(seconds / 60))
    return f"This would settle it, in {about} {numbers.duration(minutes)}: {command}"


def _longer(results: RunSet, workload: WorkloadResults, margin: float) -> float | None:
    """Returns how many times as long the clearest step takes until its interval is as narrow as the margin:
    the width of an interval goes with the root of the time."""
    widths = []
    for step in workload.compared:
        for variant in results.others:
            verdict = results.verdict(step, variant)
            if verdict is not None and verdict.verdict.is_bounded:
                widths.append(0.5 * math.log(verdict.verdict.high / verdict.verdict.low))
    return max(2.0, (min(widths) / -math.log1p(-margin)) ** 2) if widths else None


def _command(results: RunSet, runs: Sequence[Run], more: Sequence[str]) -> str:
    name = ["--name", f"{results.campaign}-verdict"]
    variants = _variants(runs)
    options = _options(runs[0])
    if variants is None or options is None:
        # a variant or workload that only a campaign file, or options that no run has kept, can say
        if (file := runs[0].record.campaign_file) is None:
            return f"the command that measured this, with {shlex.join([*more, *name])}"
        return f"pgstrata run {shlex.join([file, *_only(runs[0]), *more, *name])}"
    return f"pgstrata run {shlex.join([*variants, *options, *more, *name])}"


def _only(run: Run) -> list[str]:
    """Returns `--workload` for a workload of a file, and `--set` for the steps of a part, `sysbench@EPYC`, of
    a divided workload (`fleet.kinds`); nothing for a workload from outside, whose label the file may not
    know."""
    if run.record.workload_name not in catalog.own_names():
        return []
    workload = catalog.find(run.record.workload_name)
    label, divided, _ = run.record.workload.rpartition("@")
    if not (divided and isinstance(workload, Divisible)):
        return ["--workload", run.record.workload]
    keys = workload.part(())
    sets = [
        f"{label}.{key}={json.dumps(run.record.options[key])}" for key in keys if key in run.record.options
    ]
    return ["--workload", label, *(word for setting in sets for word in ("--set", setting))]


def _variants(runs: Sequence[Run]) -> list[str] | None:
    """Returns `--server` and `--config` that make the variants; None if they cannot be made so."""
    first = {run.variant: run for run in runs}.values()
    servers = list(dict.fromkeys(run.record.server.spec for run in first))
    stacks = list(dict.fromkeys(tuple(f.name for f in run.record.config.fragments) for run in first))
    plain = not any(
        run.record.env
        or run.record.memory
        or run.record.through
        or run.record.storage
        or run.record.replicas
        or run.record.extensions
        or run.record.server.built
        for run in first
    )
    usual = len({tuple(run.record.initdb) for run in first}) == 1
    if not plain or not usual or len(servers) * len(stacks) != len(first):
        return None
    words = [word for server in servers for word in ("--server", server)]
    if any(stack != ("default",) for stack in stacks):
        if not all(_shipped(name) for stack in stacks for name in stack) or not all(stacks):
            return None
        words += [word for stack in stacks for word in ("--config", "+".join(stack))]
    return words


def _shipped(name: str) -> bool:
    try:
        find_config_file(name, None)
    except UsageError:
        return False
    return True


def _options(run: Run) -> list[str] | None:
    """Returns `--workload` and `--set` that make the run's workload; None if a label hides which workload it
    is."""
    if run.workload not in catalog.own_names():
        return None
    if any(_nested(value) for value in run.record.options.values()):
        return None
    usual = catalog.find(run.workload).Options().model_dump(mode="json")
    words = ["--workload", run.workload]
    for key, value in run.record.options.items():
        if key in usual and value != usual[key] and value is not None:
            words += ["--set", f"{key}={json.dumps(value)}"]
    return words


def _nested(value: object) -> bool:
    """Returns whether a value is a table, or a list of tables, which JSON and TOML write differently."""
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_nested, value)))


def _measured(run: Run) -> float:
    return sum(step.seconds or 0.0 for step in run.steps if step.measured)


def _seconds(run: Run) -> float:
    """Returns all seconds of a run: those measured, and those around it."""
    return sum(step.seconds or 0.0 for step in run.steps) + sum(run.record.timings.values())

"""What the step of a search executes, from counts of its ends, and the prior of the commits between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from pgstrata.campaign.checked import ChosenWorkload
from pgstrata.count.functions import cost_of
from pgstrata.count.text import sides_of
from pgstrata.errors import PgstrataError
from pgstrata.judge.functions import Cost
from pgstrata.search.bisect.line import Range
from pgstrata.search.bisect.prior import Executed, prior_of
from pgstrata.server.features import NEWEST
from pgstrata.source.touched import defined_in, touched_by
from pgstrata.store import Results
from pgstrata.store.choose import Side
from pgstrata.store.counted import counted_runs
from pgstrata.workload.core.language import Step
from pgstrata.workload.core.options import NotInVersionError

FEWEST = 4
"""Commits from which on their diffs are looked at."""


def prior_along(
    line: Range,
    runs: Path,
    counted: str,
    step: str,
    words: frozenset[str] = frozenset(),
    check: Callable[[], None] = lambda: None,
) -> list[float]:
    """Returns how likely each commit of a line is to have changed the step. counted: campaign of a count of
    both ends, in the folder `runs`; empty where there is none. words: of the step's statements. check: raises
    where the end was asked for.

    Raises ServerError where git cannot tell what the commits change.
    """
    assert line.repo is not None
    ids = [stop.id for stop in line.stops]
    changes = touched_by(line.repo, ids, check)
    executed = executed_by(runs, counted, step) if counted else Executed()
    files = defined_in(line.repo, ids[-1])
    return prior_of([changes[id_] for id_ in ids[1:]], replace(executed, files=files, words=words))


def words_of(chosen: ChosenWorkload, step: str) -> frozenset[str]:
    """Returns the words of a step's statements."""
    try:
        phases = [p for p in chosen.phases(NEWEST) if isinstance(p, Step) and p.name == step]
    except NotInVersionError:
        return frozenset()
    texts = (msgspec.json.encode(role.spec()) for phase in phases for role in phase.roles)
    return frozenset(word for text in texts for word in re.findall(r"[a-z_]\w{3,}", text.decode()))


def executed_by(runs: Path, campaign: str, step: str) -> Executed:
    """Returns the functions of a counted step, of both ends together, and those that differ; nothing where
    the counts cannot be read."""
    try:
        base, (other, *_) = sides_of(Results(runs), campaign, "base")
        ends = [_cost(side, step).of for side in (base, other)]
    except (PgstrataError, ValueError):
        return Executed()
    of_both = {name: tuple(end.get(name, 0.0) for end in ends) for end in ends for name in end}
    # Also those that were only renamed: a commit that did it touches both names.
    differs = {name: abs(after - before) for name, (before, after) in of_both.items() if after != before}
    return Executed(_shares({name: max(costs) for name, costs in of_both.items()}), _shares(differs))


def _cost(side: Side, step: str) -> Cost:
    for run in counted_runs(side.runs):
        steps = run.record.counted.steps if run.record.counted is not None else ()
        for counted_step in steps:
            if counted_step.name == step:
                return cost_of(run, step, counted_step.role)
    return Cost({})


def _shares(values: Mapping[str, float]) -> dict[str, float]:
    whole = sum(values.values())
    return {name: value / whole for name, value in values.items()} if whole else {}


__all__ = ["FEWEST", "executed_by", "prior_along", "words_of"]

"""What a prior is worth on a real history: builds of a search for commits of it, were each the only slow one.

    pgstrata bisect --repo ~/postgresql --good GOOD --bad BAD --by instructions … --results FOLDER
    python benchmarks/bisect/history.py --search FOLDER [--culprit COMMIT] [--drawn 40]

Commits, their diffs, and the functions counted at both ends are real: those of a search whose ends were
counted. What each search would measure is simulated: an effect of 1 % at its commit, with errors of counts.
Besides the commit that is named others are drawn: of those that touch a function which the step executes, by
the root of its share, where half of what differs is in that function; of those that touch code elsewhere, and
of those that touch no code, for which the prior is wrong.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from pgstrata.search.bisect import state as states
from pgstrata.search.bisect.executed import executed_by
from pgstrata.search.bisect.hunt import RUNS
from pgstrata.search.bisect.prior import Executed, prior_of
from pgstrata.search.bisect.procedure import BUILD_ERROR, Procedure, TaskOutcome
from pgstrata.source.touched import Touched, defined_in, touched_by

EFFECT, ERROR = -0.01, 0.0001
"""Log ratio of the planted change, and the standard error of a count."""


def builds(n: int, prior: Sequence[float], culprit: int) -> tuple[int, bool]:
    """Servers that a search builds between the ends, and whether it names the commit."""
    dice = np.random.default_rng(culprit)
    procedure, built = Procedure(n, prior=prior, smallest=0.002), set[int]()
    while task := procedure.next():
        built |= {task.base, task.other}
        value = EFFECT * ((task.other >= culprit) - (task.base >= culprit))
        value += float(dice.normal()) * math.hypot(ERROR, BUILD_ERROR["instructions"])
        procedure.add(TaskOutcome(task.base, task.other, value, ERROR, "instructions", task.why))
    known = procedure.conclusion()
    named = [(group.first, group.last) for group in known.groups]
    return len(built - {0, n}), known.state == "found" and named == [(culprit, culprit)]


def kinds_of(changes: Sequence[Touched], executed: Executed) -> Mapping[str, list[int]]:
    """Positions of commits by what they touch."""
    files = {executed.files.get(name) for name in executed.shares}
    numbered = list(enumerate(changes, 1))
    return {
        "touches a function that is executed": [n for n, c in numbered if c.names & executed.shares.keys()],
        "touches none of its files": [n for n, c in numbered if c.code and not c.code & files],
        "touches no code": [n for n, c in numbered if not c.code],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What a prior is worth on a real history.")
    parser.add_argument("--search", type=Path, required=True, help="folder of a search with counted ends")
    parser.add_argument("--culprit", help="a commit that is known to be slow")
    parser.add_argument("--drawn", type=int, default=40, help="commits of each kind")
    wanted = parser.parse_args()
    state = states.load(wanted.search)
    if state is None or not state.measured_by("instructions"):
        raise SystemExit(f"{wanted.search} has no search whose ends were counted")
    repo, n = Path(state.question["repository"]), len(state.line) - 1
    changes = list(touched_by(repo, state.line).values())
    counted = state.measured_by("instructions")[0].campaign
    counts = executed_by(wanted.search / RUNS, counted, state.question["steps"][0])
    executed = Executed(counts.shares, counts.differs, defined_in(repo, state.line[-1]))
    print("| commit | of | drawn | prior | builds, median | most | found |")
    print("|---|---:|---:|---|---:|---:|---:|")
    dice = np.random.default_rng(1)
    groups = dict(kinds_of(changes, executed))
    if wanted.culprit:
        groups = {wanted.culprit: [_place(state.line, wanted.culprit)], **groups}
    for kind, places in groups.items():
        shares = executed.shares
        hot = [max((shares.get(name, 0.0) for name in changes[p - 1].names), default=0.0) for p in places]
        weights = np.sqrt(hot) if all(hot) else np.ones(len(places))
        many = min(wanted.drawn, len(places))
        some = [int(p) for p in dice.choice(places, many, replace=False, p=weights / weights.sum())]
        for name in ("none", "one end", "both ends"):
            results = [builds(n, prior_for(name, changes, executed, place), place) for place in some]
            each, right = [b for b, _ in results], sum(good for _, good in results)
            row = f"{kind} | {len(places)} | {many} | {name} | {median(each):g} | {max(each)} | {right}"
            print(f"| {row} |", flush=True)


def prior_for(name: str, changes: Sequence[Touched], executed: Executed, place: int) -> list[float]:
    """The prior of a search whose slow commit is that at a position."""
    if name == "none":
        return []
    if name == "one end":
        return prior_of(changes, Executed(executed.shares, {}, executed.files))
    touched = max(changes[place - 1].names, key=lambda f: executed.shares.get(f, 0.0), default="")
    differs = dict(executed.differs)
    if touched in executed.shares:
        differs = {function: share / 2 for function, share in differs.items()}
        differs[touched] = differs.get(touched, 0.0) + 0.5
    return prior_of(changes, Executed(executed.shares, differs, executed.files))


def _place(line: Sequence[str], commit: str) -> int:
    for place, id_ in enumerate(line):
        if place and id_.startswith(commit):
            return place
    raise SystemExit(f"{commit} is not on the line")


if __name__ == "__main__":
    main()

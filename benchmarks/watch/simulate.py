"""Simulates watches: are planted changes found and dated, and how many marks are false?

python benchmarks/watch/simulate.py --watches 20

Each watch has 3,000 commits and 30 series, and 40 changes in series and at commits that are drawn: of 0.3 to
10 % where instructions are counted, 1 to 10 % where rates are timed, half of them for the worse. Values have
the errors of real ones: of counts 0.03 %, from build to build; of rates 0.3 % of that and the error of 20
measured seconds, 0.3 %. The flat limit calls a difference to the commit before that exceeds the
smallest change a change.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgstrata.watch.detect import Change, Point, find_changes

COMMITS, SERIES, PLANTED, FALSE_ALARM = 3000, 30, 40, 1000


@dataclass(frozen=True)
class Kind:
    """A way of measuring: error of a value, sizes of planted changes, smallest that is looked for."""

    name: str
    error: float
    sizes: tuple[float, float]
    smallest: float


KINDS = (
    Kind("instructions", 0.0003, (0.003, 0.1), 0.002),
    Kind("rate", math.hypot(0.003, 0.003), (0.01, 0.1), 0.01),
)


@dataclass
class Tally:
    """found: planted changes within a marked stretch; dated: those down to the commit; near: those within a
    stretch of ten commits at most; false: marks that hold no change; flat…: the same of a flat limit."""

    planted: int = 0
    holding_marks: int = 0
    dated: int = 0
    near: int = 0
    false: int = 0
    flat_false: int = 0
    flat_found: int = 0
    commits: int = 0


def watch(kind: Kind, rng: np.random.Generator, tally: Tally, planted: int) -> None:
    """Adds a watch to the tally."""
    places = rng.choice(SERIES * (COMMITS - 1), planted, replace=False)
    low, high = (math.log(size) for size in kind.sizes)
    levels = np.zeros((SERIES, COMMITS + 1))
    true: dict[int, list[int]] = {}
    for place in places:
        series, commit = int(place) // (COMMITS - 1), int(place) % (COMMITS - 1) + 1
        size = math.exp(rng.uniform(low, high)) * (1 if rng.random() < 0.5 else -1)
        levels[series, commit:] += size
        true.setdefault(series, []).append(commit)
    values = levels + rng.normal(0, kind.error, levels.shape)
    smallest = math.log1p(kind.smallest)
    for series in range(SERIES):
        points = [Point(n, float(value), kind.error) for n, value in enumerate(values[series])]
        changes = find_changes(points, smallest, float(FALSE_ALARM * SERIES))
        _count(tally, true.get(series, []), changes)
        steps = np.abs(np.diff(values[series])) > smallest
        marked = {int(n) + 1 for n in np.flatnonzero(steps)}
        tally.flat_found += len(marked & set(true.get(series, [])))
        tally.flat_false += len(marked - set(true.get(series, [])))
    tally.commits += COMMITS


def _count(tally: Tally, commits: Sequence[int], changes: Sequence[Change]) -> None:
    tally.planted += len(commits)
    for commit in commits:
        holding = [change for change in changes if change.before < commit <= change.after]
        tally.holding_marks += bool(holding)
        tally.near += any(change.after - change.before <= 10 for change in holding)
        tally.dated += any(change.after - change.before == 1 for change in holding)
    tally.false += sum(not any(c.before < commit <= c.after for commit in commits) for c in changes)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--watches", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    print(
        "| measured | planted | found | within 10 commits | to the commit | false per 1,000 commits |"
        " flat limit: found | false per 1,000 commits |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    missed = False
    for kind in KINDS:
        for planted in (PLANTED, 0):
            tally = Tally()
            for _ in range(arguments.watches):
                watch(kind, rng, tally, planted)
            per = 1000 / tally.commits
            shares = [
                f"{n / tally.planted:.1%}" if planted else "–"
                for n in (tally.holding_marks, tally.near, tally.dated)
            ]
            flat = f"{tally.flat_found / tally.planted:.1%}" if planted else "–"
            print(
                f"| {kind.name} | {tally.planted} | {' | '.join(shares)} | {tally.false * per:.2f} |"
                f" {flat} | {tally.flat_false * per:,.0f} |"
            )
            missed |= tally.false * per > 1 or (planted > 0 and tally.holding_marks < 0.95 * tally.planted)
    if arguments.check and missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

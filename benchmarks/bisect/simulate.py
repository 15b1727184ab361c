"""How many builds a search needs, how often it finds the commit, and how often it accuses one for nothing.

    python benchmarks/bisect/simulate.py [--searches 200] [--commits 3000] [--check]

Arithmetic, no server runs. Every search goes through `pgstrata.search.bisect.procedure` as a real one does.
Measured like this: a log ratio has a standard error of its own (`--noise`, drawn within a factor of 1.5:
machines have better and worse minutes) and an offset that stays with each start of the servers (`--start`).
Commits that do not build come in runs of 20 on average; the culprit may be one of them, or beside one.
Commits touch functions as those of PostgreSQL do: a third no code, half of the others two functions at most.
A step executes 750 of 15,000 functions, most of its instructions in ten of them. Where the prior is right,
the culprit touches a function that is executed, drawn by the root of its share, and what differs between the
ends is there; `one end`: what differs is not known. Where it is wrong, what differs is in a function that
another commit touches, and the culprit touches no file of what is executed.
Beside it `git bisect` with one run of each commit and the rule "5 % slower is bad", whose single runs have
the noise that single runs have here (`--single`), skips included.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from pgstrata.search.bisect.prior import Executed, prior_of
from pgstrata.search.bisect.procedure import Procedure, TaskOutcome
from pgstrata.source.touched import Touched

EFFECTS = (0.0, 0.01, 0.02, 0.03, 0.05)
BROKEN_RUN = 20

FUNCTIONS, EXECUTED, IN_FILE = 15_000, 750, 12
"""Functions of a server, those that a step executes, and how many a file has."""
IDLE = 1 / 3
"""Share of commits that touch no code of a server."""
MOST_TOUCHED = 300
DIFFERS = 0.7
"""Share of what differs between the ends that is in one function; the rest is spread over all executed."""

Kind = Literal["none", "right", "one end", "wrong"]


@dataclass(frozen=True)
class History:
    """levels: true log rate by position; broken: positions that do not build."""

    levels: np.ndarray
    broken: frozenset[int]
    culprit: int

    @property
    def n(self) -> int:
        return len(self.levels) - 1

    def group(self) -> tuple[int, int]:
        """The culprit, with the commits beside it that cannot be told from it."""
        first = last = self.culprit
        while last in self.broken:
            last += 1
        while first - 1 in self.broken:
            first -= 1
        return first, last


@dataclass(frozen=True)
class Result:
    """builds: without the ends; named: the commits that were named, None where nothing was."""

    builds: int
    named: tuple[int, int] | None


def history(n: int, effect: float, share_broken: float, dice: np.random.Generator) -> History:
    broken: set[int] = set()
    while len(broken) < share_broken * n:
        first = int(dice.integers(1, n))
        length = int(dice.geometric(1 / BROKEN_RUN))
        length = min(length, math.ceil(share_broken * n) - len(broken))
        broken |= set(range(first, min(n, first + length)))
    culprit = int(dice.integers(1, n + 1))
    levels = np.zeros(n + 1)
    levels[culprit:] = math.log1p(-effect)
    return History(levels, frozenset(broken), culprit)


def weighed(history: History, kind: Kind, dice: np.random.Generator) -> tuple[History, list[float]]:
    """A history whose culprit fits to what is known of its commits, or contradicts it, and the prior."""
    effect = history.levels[-1]
    changes = [_touched(dice) for _ in range(history.n)]
    names = [str(f) for f in dice.permutation(FUNCTIONS)[:EXECUTED]]
    shares = np.exp(2.5 * dice.normal(size=EXECUTED))
    share_by_name = dict(zip(names, map(float, shares / shares.sum()), strict=True))
    files = {name: f"src/backend/{int(name) // IN_FILE}.c" for name in names}
    met = [place for place, change in enumerate(changes) if change.names & share_by_name.keys()]
    far = [place for place, change in enumerate(changes) if not change.code & set(files.values())]
    weights = (
        np.array([sum(share_by_name.get(name, 0.0) for name in changes[place].names) for place in met]) ** 0.5
    )
    blamed = int(dice.choice(met, p=weights / weights.sum()))
    culprit = (int(dice.choice(far)) if kind == "wrong" else blamed) + 1
    differs = {name: (1 - DIFFERS) * share for name, share in share_by_name.items()}
    differs[min(changes[blamed].names & share_by_name.keys())] += DIFFERS
    if kind == "one end":
        differs = {}
    levels = np.zeros(history.n + 1)
    levels[culprit:] = effect
    return History(levels, history.broken, culprit), prior_of(
        changes, Executed(share_by_name, differs, files)
    )


def _touched(dice: np.random.Generator) -> Touched:
    """What a commit changes: a third of them no code, the others functions near each other."""
    if dice.random() < IDLE:
        return Touched({"doc/src/sgml/ref.sgml"})
    many = min(MOST_TOUCHED, 1 + int(math.exp(dice.normal() * 1.4)))
    first = int(dice.integers(FUNCTIONS))
    touched = {(first + int(f)) % FUNCTIONS for f in dice.integers(0, 4 * many, many)}
    paths = {f"src/backend/{f // IN_FILE}.c" for f in touched}
    return Touched(paths, paths, {str(f) for f in touched})


def search(
    history: History, noise: float, start: float, dice: np.random.Generator, prior: Sequence[float] = ()
) -> Result:
    """A search through the procedure of `pgstrata bisect`."""
    procedure = Procedure(history.n, prior=prior)
    built: set[int] = set()
    while task := procedure.next():
        bad = next((p for p in (task.other, task.base) if p in history.broken), None)
        built |= {task.other}
        if bad is not None:
            procedure.set_aside(bad)
            continue
        error = noise * math.exp(dice.uniform(-0.4, 0.4))
        true = history.levels[task.other] - history.levels[task.base]
        value = true + dice.normal() * error + dice.normal() * start
        procedure.add(TaskOutcome(task.base, task.other, float(value), error, why=task.why))
    conclusion = procedure.conclusion()
    if conclusion.state != "found":
        return Result(len(built - {history.n}), None)
    return Result(len(built - {history.n}), (conclusion.groups[0].first, conclusion.groups[-1].last))


def plain(history: History, single: float, dice: np.random.Generator) -> Result:
    """`git bisect` with one run of each: 5 % slower than the good end's run is bad. It measures no ends."""
    reference = dice.normal() * single
    low, high, builds = 0, history.n, 0
    skipped: set[int] = set()
    while True:
        inside = [p for p in range(low + 1, high) if p not in skipped]
        if not inside:
            return Result(builds, (low + 1, high))
        middle = min(inside, key=lambda p: abs(p - (low + high) / 2))
        builds += 1
        if middle in history.broken:
            skipped.add(middle)
            continue
        slower = history.levels[middle] + dice.normal() * single - reference < math.log(0.95)
        low, high = (low, middle) if slower else (middle, high)


WAYS: Mapping[str, Kind | None] = {
    "pgstrata, no prior": "none",
    "pgstrata, prior right": "right",
    "pgstrata, prior of one end": "one end",
    "pgstrata, prior wrong": "wrong",
    "git bisect, ± 5 %": None,
}
MOST_BUILDS: Mapping[Kind, int] = {"none": 13, "right": 8, "one end": 12, "wrong": 16}
"""Goals: builds in the median."""


def tally(results: list[Result], histories: list[History]) -> tuple[float, float, float, float]:
    """Median of builds; shares: exactly the commit (or its group that cannot be built), in the named set,
    accusations."""
    exact = [r.named is not None and r.named == h.group() for r, h in zip(results, histories, strict=True)]
    among = [
        r.named is not None and r.named[0] <= h.culprit <= r.named[1]
        for r, h in zip(results, histories, strict=True)
    ]
    accused = [r.named is not None for r in results]
    return median(r.builds for r in results), _share(exact), _share(among), _share(accused)


def _share(flags: list[bool]) -> float:
    return sum(flags) / len(flags)


def main() -> int:
    parser = argparse.ArgumentParser(description="Searches over simulated histories.")
    parser.add_argument("--searches", type=int, default=200, help="for each size of the change")
    parser.add_argument("--commits", type=int, default=3000)
    parser.add_argument("--broken", type=float, default=0.1, help="share of commits that do not build")
    parser.add_argument("--noise", type=float, default=0.003, help="standard error of one measurement")
    parser.add_argument("--start", type=float, default=0.002, help="and from start to start")
    parser.add_argument("--single", type=float, default=0.03, help="of a single run, for git bisect")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    wanted = parser.parse_args()
    print("| change | search | builds, median | commit or its group | in what is named | something named |")
    print("|---:|---|---:|---:|---:|---:|")
    missed = []
    for effect in EFFECTS:
        for name, kind in WAYS.items():
            dice = np.random.default_rng([wanted.seed, round(effect * 1000)])
            results, histories = [], []
            for _ in range(wanted.searches):
                drawn_history = history(wanted.commits, effect, wanted.broken, dice)
                prior: list[float] = []
                if kind not in ("none", None):
                    drawn_history, prior = weighed(drawn_history, kind, dice)
                histories.append(drawn_history)
                if kind is None:
                    results.append(plain(drawn_history, wanted.single, dice))
                else:
                    results.append(search(drawn_history, wanted.noise, wanted.start, dice, prior))
            builds, exact, among, accused = tally(results, histories)
            shown = ["–", "–"] if effect == 0 else [f"{exact:.1%}", f"{among:.1%}"]
            print(
                f"| {effect:.0%} | {name} | {builds:g} | {shown[0]} | {shown[1]} | {accused:.1%} |",
                flush=True,
            )
            if kind is not None:
                if effect == 0 and accused > 0.02:
                    missed.append(f"{name}: {accused:.1%} accusations")
                if effect and builds > MOST_BUILDS[kind]:
                    missed.append(f"{name}: {builds:g} builds at {effect:.0%}")
                if effect >= 0.02 and exact < 0.98:
                    missed.append(f"{name}: {exact:.1%} exact at {effect:.0%}")
    if missed:
        print("missed: " + "; ".join(missed), file=sys.stderr)
    return 1 if wanted.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())

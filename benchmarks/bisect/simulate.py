"""How many builds a search needs, how often it finds the commit, and how often it accuses one for nothing.

    python benchmarks/bisect/simulate.py [--searches 200] [--commits 3000] [--check]

Arithmetic, no server runs. Every search goes through `pgstrata.search.bisect.procedure` as a real one does.
Measured like this: a log ratio has a standard error of its own (`--noise`, drawn within a factor of 1.5:
machines have better and worse minutes) and an offset that stays with each start of the servers (`--start`).
Commits that do not build come in runs of 20 on average; the culprit may be one of them, or beside one.
Beside it `git bisect` with one run of each commit and the rule "5 % slower is bad", whose single runs have
the noise that single runs have here (`--single`), skips included.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from pgstrata.search.bisect.procedure import Procedure, TaskOutcome

EFFECTS = (0.0, 0.01, 0.02, 0.03, 0.05)
BROKEN_RUN = 20


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


def search(made: History, noise: float, start: float, dice: np.random.Generator) -> Result:
    """A search through the procedure of `pgstrata bisect`."""
    procedure = Procedure(made.n)
    built: set[int] = set()
    while task := procedure.next():
        bad = next((p for p in (task.other, task.base) if p in made.broken), None)
        built |= {task.other}
        if bad is not None:
            procedure.set_aside(bad)
            continue
        error = noise * math.exp(dice.uniform(-0.4, 0.4))
        true = made.levels[task.other] - made.levels[task.base]
        value = true + dice.normal() * error + dice.normal() * start
        procedure.add(TaskOutcome(task.base, task.other, float(value), error, why=task.why))
    found = procedure.conclusion()
    if found.state != "found":
        return Result(len(built - {made.n}), None)
    return Result(len(built - {made.n}), (found.groups[0].first, found.groups[-1].last))


def plain(made: History, single: float, dice: np.random.Generator) -> Result:
    """`git bisect` with one run of each: 5 % slower than the good end's run is bad. It measures no ends."""
    reference = dice.normal() * single
    low, high, builds = 0, made.n, 0
    skipped: set[int] = set()
    while True:
        inside = [p for p in range(low + 1, high) if p not in skipped]
        if not inside:
            return Result(builds, (low + 1, high))
        middle = min(inside, key=lambda p: abs(p - (low + high) / 2))
        builds += 1
        if middle in made.broken:
            skipped.add(middle)
            continue
        slower = made.levels[middle] + dice.normal() * single - reference < math.log(0.95)
        low, high = (low, middle) if slower else (middle, high)


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
        dice = np.random.default_rng([wanted.seed, round(effect * 1000)])
        histories = [history(wanted.commits, effect, wanted.broken, dice) for _ in range(wanted.searches)]
        ways: dict[str, Callable[[History], Result]] = {
            "pgstrata": lambda h, d=dice: search(h, wanted.noise, wanted.start, d),  # type: ignore[misc]
            "git bisect, ± 5 %": lambda h, d=dice: plain(h, wanted.single, d),  # type: ignore[misc]
        }
        for name, way in ways.items():
            builds, exact, among, accused = tally([way(h) for h in histories], histories)
            shown = ["–", "–"] if effect == 0 else [f"{exact:.1%}", f"{among:.1%}"]
            print(
                f"| {effect:.0%} | {name} | {builds:g} | {shown[0]} | {shown[1]} | {accused:.1%} |",
                flush=True,
            )
            if name == "pgstrata":
                if effect == 0 and accused > 0.02:
                    missed.append(f"{accused:.1%} accusations")
                if effect and builds > 16:
                    missed.append(f"{builds:g} builds at {effect:.0%}")
                if effect >= 0.02 and exact < 0.9:
                    missed.append(f"{exact:.1%} exact at {effect:.0%}")
    if missed:
        print("missed: " + "; ".join(missed), file=sys.stderr)
    return 1 if wanted.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())

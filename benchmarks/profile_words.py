"""How often words and intervals of functions in paired profiles are right, on simulated servers.

    python benchmarks/profile_words.py [--profiles 200] [--check]

Prints the tables of benchmarks/results/profile-words.md. Everything here is arithmetic: no server runs. A
simulated server has 60 functions, the cost of each 1 ÷ its number; every batch changes all of them by 10 % on
both sides, and each by 4 % on one side by itself. `--check` exits 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgstrata.judge.profile_pairs import PairedProfiles, PartProfile
from pgstrata.judge.profiles import ProfileVerdict, adjusted_profiles, judge_pairs
from pgstrata.stats.criterion import USUAL

COSTS = {f"f{n}": 20e-6 / (n + 1) for n in range(60)}
"""Seconds of CPU of an operation by function."""

PLANTED = "f2"
"""A function with 7.1 % of the CPU time."""

SIZES = ((8, 100), (12, 100), (16, 62), (16, 400))
"""Batches, and samples of a side in each."""

FACTORS = (1.3, 1.5, 2.0, 3.0)


def batch(
    dice: np.random.Generator, costs: Mapping[str, float], machine: float, samples: float
) -> PartProfile:
    """Returns one side in a batch. machine: what both sides share."""
    drawn = {name: cost * machine * dice.lognormal(0, 0.04) for name, cost in costs.items()}
    cost = sum(drawn.values())
    counts = {name: float(dice.poisson(samples * part / cost)) for name, part in drawn.items()}
    counts = {name: count for name, count in counts.items() if count}
    total = sum(counts.values())
    return PartProfile(cost, total, counts, {"execution": total}, {})


def paired(
    seed: int, other: Mapping[str, float] = COSTS, *, batches: int = 12, samples: float = 100.0, **more: Any
) -> PairedProfiles:
    """Returns pairs of batches of the simulated server and another, with stacks in which one function calls
    all others."""
    dice = np.random.default_rng(seed)
    pairs = []
    for _ in range(batches):
        machine = dice.lognormal(0, 0.1)
        pairs.append((batch(dice, COSTS, machine, samples), batch(dice, other, machine, samples)))
    ours, theirs = (
        Counter({f"postgres;main;{name}": round(1e6 * cost) + 1 for name, cost in costs.items()})
        for costs in (COSTS, other)
    )
    return PairedProfiles(pairs, (ours, theirs), orders=2, are_batches=True, **more)


def judged(pairs: PairedProfiles, disturbance: str = "") -> ProfileVerdict:
    """Returns the verdict on a single profile."""
    (verdict,) = adjusted_profiles([judge_pairs("query", pairs, USUAL, disturbance)])
    return verdict


def equal_sides(profiles: int) -> bool:
    """Prints how often equal sides differ. Returns whether that is seldom enough."""
    print("| batches | samples of a side | functions | intervals without 0 | words | profiles with a word |")
    print("|---:|---:|---:|---:|---:|---:|")
    is_good = True
    for batches, samples in SIZES:
        verdicts = [judged(paired(seed, batches=batches, samples=samples)) for seed in range(profiles)]
        changes = [change for verdict in verdicts for change in verdict.functions]
        apart = sum(not change.low <= 0 <= change.high for change in changes) / len(changes)
        wrong = sum(len(verdict.proven) for verdict in verdicts)
        with_words = sum(bool(verdict.proven) for verdict in verdicts)
        print(
            f"| {batches} | {batches * samples:,} | {len(changes):,} | {apart:.1%} | {wrong} | {with_words} |"
        )
        is_good = is_good and apart <= 0.05 and with_words <= max(1, profiles / 50)
    return is_good


def planted(profiles: int) -> None:
    """Prints how often a function that costs more is named, and how often its interval holds the truth."""
    print("| planted | batches | samples of a side | named | interval holds it | another named |")
    print("|---:|---:|---:|---:|---:|---:|")
    for factor in FACTORS:
        other = {**COSTS, PLANTED: factor * COSTS[PLANTED]}
        truth = other[PLANTED] - COSTS[PLANTED]
        for batches, samples in SIZES:
            named = holds = others = 0
            for seed in range(profiles):
                verdict = judged(paired(seed, other, batches=batches, samples=samples))
                change = next(change for change in verdict.functions if change.name == PLANTED)
                names = {proven.name for proven in verdict.proven}
                holds += change.low <= truth <= change.high
                named += PLANTED in names
                others += bool(names - {PLANTED})
            shares = " | ".join(f"{count / profiles:.1%}" for count in (named, holds, others))
            print(f"| × {factor:g} | {batches} | {batches * samples:,} | {shares} |")


def main() -> int:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--profiles", type=int, default=200)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    is_good = equal_sides(arguments.profiles)
    print()
    planted(arguments.profiles)
    return 1 if arguments.check and not is_good else 0


if __name__ == "__main__":
    sys.exit(main())

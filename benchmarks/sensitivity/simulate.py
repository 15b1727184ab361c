"""How often each procedure is right, on simulated machines.

    python benchmarks/sensitivity/simulate.py [--comparisons 400] [--seed 1] [--check]

Prints the tables of benchmarks/results/simulated.md. Everything here is arithmetic: no server
runs. A simulated machine has slice noise (standard deviation drawn from 1–3 % for each comparison,
AR(1) with 0.3 from slice to slice), drift of ± 5 % that neighbouring slices share (a slow wave and a
wandering level), and rare outliers (2 % of slices lose 15 % on average).
`--check` exits 1 where a target of the design is missed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgstrata.stats import sequential
from pgstrata.stats.criterion import FIRST
from pgstrata.stats.verdict import compare

Array = NDArray[np.float64]

SLICE = 2.0
"""Seconds of a slice."""


@dataclass(frozen=True)
class Machine:
    """What disturbs a simulated machine; shares of the rate, so 0.02 is 2 %.

    `noise`: range of the slices' standard deviation. `ar`: autocorrelation of neighbouring slices.
    `drift`: size of what neighbours share. `outliers`: share of slices hit; `depth`: mean loss of those.
    `own`, `own_ar`: standard deviation and autocorrelation per slice of a state that each variant has for
    itself, which pairing cannot cancel.
    """

    noise: tuple[float, float] = (0.01, 0.03)
    ar: float = 0.3
    drift: float = 0.05
    outliers: float = 0.02
    depth: float = 0.15
    own_spread: float = 0.0
    own_ar: float = 0.7


MACHINES = {
    "quiet": Machine(noise=(0.01, 0.01), ar=0.0, drift=0.0, outliers=0.0),
    "design": Machine(),
    "sticky noise": Machine(ar=0.6),
    "four times the outliers": Machine(outliers=0.08),
    "variants wander apart": Machine(own_spread=0.01),
}


def wander(n: int, ar: float, rng: np.random.Generator) -> Array:
    """A normal AR(1) series of variance 1."""
    shocks = rng.standard_normal(n)
    values = np.empty(n)
    values[0] = shocks[0]
    for i in range(1, n):
        values[i] = ar * values[i - 1] + math.sqrt(1.0 - ar * ar) * shocks[i]
    return values


def slices(n: int, machine: Machine, rng: np.random.Generator, variants: Array) -> Array:
    """Log rates of n slices in a row; `variants` says which one each belongs to (0 base, 1 other)."""
    y = rng.uniform(*machine.noise) * wander(n, machine.ar, rng)
    if machine.drift:
        wave = np.sin(2 * np.pi * (np.arange(n) * SLICE / rng.uniform(60, 600) + rng.uniform()))
        y += machine.drift * (0.6 * wave + 0.4 * wander(n, math.exp(-SLICE / 60.0), rng))
    y -= (rng.random(n) < machine.outliers) * rng.exponential(machine.depth, n)
    if machine.own_spread:
        states = machine.own_spread * np.stack([wander(n, machine.own_ar, rng) for _ in range(2)])
        y += states[variants.astype(int), np.arange(n)]
    return y


def interleaved(
    n: int, slower: float, machine: Machine, rng: np.random.Generator
) -> tuple[list[float], list[float]]:
    """Rates (per second, about 1000) of n slices in the order A B B A …, as pairs (base, other)."""
    variants = np.resize(np.array([0.0, 1.0, 1.0, 0.0]), n)
    rates = 1000.0 * np.exp(slices(n, machine, rng, variants) + math.log1p(-slower) * variants)
    return list(rates[variants == 0]), list(rates[variants == 1])


# --- procedures: a word and the seconds measured -------------------------------------------------

Procedure = Callable[[int, float, Machine, np.random.Generator], tuple[str, float]]


def one_run_each(n: int, slower: float, machine: Machine, rng: np.random.Generator) -> tuple[str, float]:
    """The procedure of the field: one run of each, one after the other, and a ± 5 % rule."""
    variants = np.repeat([0.0, 1.0], n // 2)
    rates = np.exp(slices(n, machine, rng, variants) + math.log1p(-slower) * variants)
    relative = rates[variants == 1].mean() / rates[variants == 0].mean()
    word = "slower" if relative <= 0.95 else "faster" if relative >= 1.05 else "same"
    return word, n * SLICE


def fixed(n: int, slower: float, machine: Machine, rng: np.random.Generator) -> tuple[str, float]:
    """Interleaved slices, one look at the end."""
    return compare(*interleaved(n, slower, machine, rng)).word, n * SLICE


def until_verdict(n: int, slower: float, machine: Machine, rng: np.random.Generator) -> tuple[str, float]:
    """Interleaved slices, a look after every pair, stopped when the verdict is clear."""
    base, other = interleaved(n, slower, machine, rng)
    for k in range(FIRST, len(base) + 1):
        verdict = sequential.look(base[:k], other[:k])
        if verdict.decided:
            return verdict.word, k * 2 * SLICE
    return "unclear", n * SLICE


PROCEDURES: dict[str, Procedure] = {
    "one run each, ± 5 %": one_run_each,
    "interleaved, fixed": fixed,
    "interleaved, until verdict": until_verdict,
}


def ever_wrong(
    n: int,
    machine: Machine,
    rng: np.random.Generator,
    interval: Callable[[Sequence[float], Sequence[float]], tuple[float, float]],
) -> bool:
    """Did the interval of base against base leave out 1 at any look?"""
    base, other = interleaved(n, 0.0, machine, rng)
    for k in range(FIRST, len(base) + 1):
        low, high = interval(base[:k], other[:k])
        if low > 1.0 or high < 1.0:
            return True
    return False


def watched_interval(base: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    verdict = sequential.look(base, other)
    return verdict.low, verdict.high


def fixed_interval(base: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    verdict = compare(base, other)
    return verdict.low, verdict.high


# --- tables -----------------------------------------------------------------------------------


def words(
    procedure: Procedure, slower: float, machine: Machine, comparisons: int, n: int, seed: int
) -> tuple[Counter[str], float]:
    """How often each word was said, and the mean seconds a comparison took."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    seconds = 0.0
    for _ in range(comparisons):
        word, took = procedure(n, slower, machine, rng)
        counts[word] += 1
        seconds += took
    return counts, seconds / comparisons


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=400, help="per cell of the first table")
    parser.add_argument("--seconds", type=float, default=240.0, help="budget of a comparison")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit 1 where a target is missed")
    args = parser.parse_args()
    n = int(args.seconds / SLICE) // 4 * 4
    count = args.comparisons
    missed: list[str] = []

    print(f"{count} comparisons per row, at most {n} slices of {SLICE:g} s; shares of comparisons\n")
    print("| planted | procedure | slower | faster | same | unclear | mean seconds |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for slower in (0.0, 0.03, 0.05):
        for name, procedure in PROCEDURES.items():
            counts, seconds = words(procedure, slower, MACHINES["design"], count, n, args.seed)
            share = {word: counts[word] / count for word in ("slower", "faster", "same", "unclear")}
            cells = " | ".join(f"{value:.1%}" for value in share.values())
            print(f"| {slower:.0%} | {name} | {cells} | {seconds:.0f} |", flush=True)
            if procedure is one_run_each:
                continue
            label = f"{name}, {slower:.0%}"
            if slower == 0.0 and share["slower"] + share["faster"] > 1 / 40:
                missed.append(f"{label}: more than 1 false alarm in 40")
            if slower == 0.03 and share["slower"] < 19 / 20:
                missed.append(f"{label}: found less than 19 times of 20")
            if slower == 0.05 and share["slower"] < 0.995:
                missed.append(f"{label}: not always found")
            if slower == 0.05 and procedure is until_verdict and seconds >= args.seconds / 2:
                missed.append(f"{label}: took half of the budget")

    print("\nbase against base, a look after every pair: the 95 % interval left out 1 at some look\n")
    print("| machine | confidence sequence | interval of fixed size |")
    print("|---|---:|---:|")
    for name, machine in MACHINES.items():
        shares = []
        for interval in (watched_interval, fixed_interval):
            rng = np.random.default_rng(args.seed)
            shares.append(sum(ever_wrong(n, machine, rng, interval) for _ in range(count)) / count)
        print(f"| {name} | {shares[0]:.1%} | {shares[1]:.1%} |", flush=True)
        if shares[0] > 0.05:
            missed.append(f"{name}: the confidence sequence is wrong too often")

    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())

"""How often intervals of response times leave out the truth, and wrong words, on simulated equal sides.

    python benchmarks/sensitivity/quantiles.py --count 300 --seed 7

Each block has a level that both sides share (5 %) and one that each side has by chance (3 %), lognormal
times, and 1 % of them four times as long.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter

import numpy as np

from pgstrata.judge.times import QUANTILES
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.estimate import Array
from pgstrata.stats.quantiles import Responses, compare_quantiles
from pgstrata.stats.verdict import bounds, judge

MARGIN = 0.05
EDGES = np.geomspace(1e-5, 10.0, 8000)


def side(rng: np.random.Generator, levels: Array, responses: int) -> Responses:
    """Returns the responses of one side in blocks of these levels (logarithms)."""
    rows = []
    for level in levels + rng.normal(0, 0.03, len(levels)):
        times = np.exp(rng.normal(math.log(3e-4) + level, 0.4, rng.poisson(responses)))
        times[rng.random(len(times)) < 0.01] *= 4.0
        rows.append(np.histogram(times, EDGES)[0])
    return Responses(EDGES, np.array(rows, dtype=np.float64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="comparisons of each cell")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    print("| blocks | responses of each | time | intervals that leave out the truth | wrong words |")
    print("|---|---|---|---|---|")
    for blocks, responses in ((8, 2000), (12, 2000), (40, 1000)):
        for name in ("p50", "p99", "p99.9", "max"):
            misses = known = 0
            words: Counter[str] = Counter()
            for _ in range(arguments.count):
                levels = rng.normal(0, 0.05, blocks)
                sides = side(rng, levels, responses), side(rng, levels, responses)
                result = compare_quantiles(*sides, QUANTILES[name], bounds)
                assert result is not None
                low, high = result.interval
                if math.isfinite(low):
                    known += 1
                    misses += not low <= 0.0 <= high
                words[judge(result.estimate, (low, high), result.p_value, Criterion(MARGIN)).word] += 1
            wrong = words["slower"] + words["faster"]
            print(
                f"| {blocks} | {responses:,} | {name} | {misses} of {known} | {wrong} of {arguments.count} |"
            )


if __name__ == "__main__":
    main()

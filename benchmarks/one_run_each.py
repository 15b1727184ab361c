"""One run each of the same server, again and again: how many pairs are called different, by which procedure.

    .venv/bin/python benchmarks/one_run_each.py [--pairs 100] [--seconds 3] [--known 5]

Every run has a new cluster, as two runs of a user have; both runs of a pair are measured one after the
other, in an order drawn by lot. The procedures: the interval of the seconds alone, pgstrata with nothing else
known of the machine, and pgstrata with the spread of `--known` runs of that server, made before (`pgstrata
noise --runs` makes such). `--results` keeps the runs: the same command goes on.
Exits 1 where one of the last two calls more than 5 % different.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console

from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.study import Study, Variant, Workload
from pgstrata.judge.compare import compare_all
from pgstrata.judge.spread import NOISE, spread_of
from pgstrata.measure.campaign import execute
from pgstrata.stats.bootstrap import estimate_series
from pgstrata.stats.rates import per_second
from pgstrata.stats.verdict import interval, judge, p_value
from pgstrata.store import Results, Run
from pgstrata.store.choose import Side

STEP = "point-query"
MOST = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description="Pairs of runs of one server.")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0, help="measured of each run")
    parser.add_argument("--known", type=int, default=5, help="runs made before, for their spread")
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--results", type=Path, help="folder that keeps the runs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as temporary:
        root = given.results or Path(temporary)
        known = measure(root, given, f"{NOISE}{STEP} runs", ["base"], given.known)
        runs = measure(root, given, "one run each", ["base", "same"], given.pairs)
        pairs = [
            (by_variant["base"], by_variant["same"])
            for repeat in range(1, given.pairs + 1)
            if len(by_variant := {run.variant: run for run in runs if run.repeat == repeat}) == 2
        ]
        return report(pairs, known)


def measure(root: Path, given: argparse.Namespace, name: str, labels: list[str], repeats: int) -> list[Run]:
    """The finished runs of a campaign, those that were there already among them."""
    options = {
        "rows": given.rows, "steps": [STEP], "read_seconds": given.seconds, "warmup": 1,
        "cache_seconds": 0, "settle_base": 0,
    }  # fmt: skip
    study = Study(
        name=name,
        results=str(root),
        repeats=repeats,
        order="shuffled",
        variants=[Variant(server=given.server, label=label) for label in labels],
        workloads=[Workload(name="sysbench", options=options)],
    )
    execute(check_study(study), Results(root), Console(stderr=True))
    return [run for run in Results(root).runs() if run.campaign == name and run.done]


def report(pairs: list[tuple[Run, Run]], known: list[Run]) -> int:
    procedures = {
        "seconds of the two runs alone": [seconds_alone(*pair) for pair in pairs],
        "pgstrata, nothing else known": [word(*pair, []) for pair in pairs],
        f"pgstrata, spread of {len(known)} runs known": [word(*pair, known) for pair in pairs],
    }
    spread = spread_of(STEP, known, ())
    print(f"{STEP}, {len(pairs)} pairs of runs of one server; known: {spread and f'{spread.deviation:.1%}'}")
    print("| procedure | pairs | slower | faster | same | unclear | called different |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    missed = False
    for name, words in procedures.items():
        count = Counter(words)
        different = count["slower"] + count["faster"]
        missed = missed or (name.startswith("pgstrata") and different > MOST * len(pairs))
        cells = [len(words), *(count[w] for w in ("slower", "faster", "same", "unclear")), different]
        print(f"| {name} | {' | '.join(map(str, cells))} |")
    return int(missed)


def word(base: Run, same: Run, known: list[Run]) -> str:
    """What `pgstrata compare` says of these two runs."""
    comparisons = compare_all(Side("base", (base,)), [Side("same", (same,))], known=lambda: known)
    return comparisons[0].steps[0].verdict.word


def seconds_alone(base: Run, same: Run) -> str:
    """The word from an interval that knows the seconds only."""
    series = []
    for run in (base, same):
        rows = list(run.table("series").where(step=STEP))
        record = next(s for s in run.steps if s.name == STEP)
        series.append([rate for _, rate in per_second(rows, record.role)])
    e = estimate_series(*series)
    return judge(e, interval(e), p_value(e)).word


if __name__ == "__main__":
    sys.exit(main())

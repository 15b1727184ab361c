"""How often each procedure is right, measured on this machine with a planted slowdown.

    python benchmarks/sensitivity/measure.py [--comparisons 20] [--budget 240] [--step point-query] [--smoke]

Builds slow.c with cc, calibrates the time it burns per message to slowdowns of 3 % and 5 %, and then compares
base against base, against 3 % and against 5 %, each so many times, with

- the procedure of the field: one run each of half the budget, slower below 0.95, faster above 1.05;
- pgstrata: interleaved slices, with the time fixed, and with until = "verdict".

All have the same budget of measured seconds per comparison, take turns, and use new clusters every time.
Every run goes below --results; the table is printed as Markdown for docs/performance.md. The defaults measure
for some 16 hours per step: 40 comparisons of base and base and 20 of each slowdown, by three procedures of
240 s each. --smoke takes minutes and says nothing but that it works.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLANTED = (0.0, 0.03, 0.05)
FIELD = "one run each, ± 5 %"
FIXED = "interleaved, fixed"
WATCHED = "interleaved, until verdict"


@dataclass
class Cell:
    """What one procedure said of one planted slowdown."""

    words: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


@dataclass
class Bench:
    """Where and with what everything is measured."""

    arguments: argparse.Namespace
    library: Path
    number: int = 0

    def run(self, burn_ns: int, more: str, seconds: float, order: str) -> list[dict[str, Any]]:
        """Base and slowed variant in one campaign; their run.json."""
        a = self.arguments
        self.number += 1
        name = f"sensitivity-{os.getpid()}-{self.number}"
        # The library is preloaded on both sides, so that it differs only in what it burns.
        env = '{{ LD_PRELOAD = {lib}, PGSTRATA_BURN_NS = "{ns}" }}'
        variants = "".join(
            f'[[variants]]\nserver = "{a.server}"\nlabel = "{label}"\n'
            f"env = {env.format(lib=json.dumps(str(self.library)), ns=ns)}\n"
            for label, ns in (("base", 0), ("other", burn_ns))
        )
        text = (
            f'name = "{name}"\norder = "{order}"\n{more}\n{variants}[[workloads]]\nname = "sysbench"\n'
            f"[workloads.options]\nrows = {a.rows}\nread_seconds = {seconds}\nwarmup = 1\ncache_seconds = 0\n"
            f'settle_base = 0\nsteps = ["{a.step}"]\n'
        )
        file = self.library.parent / f"{name}.toml"
        file.write_text(text)
        command = [sys.executable, "-m", "pgstrata", "run", file, "--no-report", "--results", a.results]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        runs = [json.loads(path.read_text()) for path in Path(a.results, name).rglob("run.json")]
        return sorted(runs, key=lambda run: run["variant"] != "base")

    def field_says(self, burn_ns: int) -> tuple[str, float]:
        """The word and the seconds measured."""
        steps = [self._step(run) for run in self.run(burn_ns, "", self.arguments.budget / 2, "sequential")]
        ratio = steps[1]["rate"] / steps[0]["rate"]
        word = "slower" if ratio < 0.95 else "faster" if ratio > 1.05 else "same"
        return word, sum(s["seconds"] for s in steps)

    def pgstrata_says(self, burn_ns: int, *, watched: bool) -> tuple[str, float]:
        """The word and the seconds measured."""
        from pgstrata.analyze import sequential
        from pgstrata.analyze.compare import step_pairs
        from pgstrata.analyze.verdict import compare

        a = self.arguments
        more = f"slice_seconds = {a.slice}\n"
        if watched:
            more += f'until = "verdict"\nmax_seconds = {a.budget}\n'
        steps = [self._step(r) for r in self.run(burn_ns, more, a.budget / 2, "interleaved")]
        pairs = step_pairs(steps[0], steps[1])
        verdict = sequential.look(*pairs) if watched else compare(*pairs)
        return verdict.word, sum(s["seconds"] for s in steps)

    def calibrate(self) -> dict[float, int]:
        """Nanoseconds to burn per message for each planted slowdown: from the base's seconds per message.

        1 ÷ rate is the time of one message with one client, and burning b of it makes the rate 1 ÷ (1 + b)
        of what it was. The messages of a transaction are counted by trying: rate with a known burn.
        """
        a = self.arguments
        trial_ns = a.trial_ns
        more = f"slice_seconds = {a.slice}\n"
        steps = [self._step(r) for r in self.run(trial_ns, more, a.calibrate / 2, "interleaved")]
        pairs = [(1 / s["rate"], 1 / t["rate"]) for s, t in zip(*(x["slices"] for x in steps), strict=True)]
        base = statistics.median(b for b, _ in pairs)
        cost = statistics.median(o - b for b, o in pairs) / trial_ns
        if cost <= 0:
            raise SystemExit("the burn made nothing slower: is LD_PRELOAD allowed for this server?")
        print(
            f"{a.step}: {base * 1e6:.1f} µs per operation, a burn of {trial_ns} ns costs "
            f"{cost * trial_ns * 1e6:.2f} µs"
        )
        return {share: round(base * share / (1 - share) / cost) for share in PLANTED}

    def _step(self, run: dict[str, Any]) -> dict[str, Any]:
        found = [s for s in run["steps"] if s["name"] == self.arguments.step]
        if run["status"] != "done" or not found:
            raise SystemExit(f"{run['variant']} failed: {run['error']}")
        return dict(found[0])


def build(folder: Path) -> Path:
    """slow.so, readable for the account of servers."""
    library = folder / "slow.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "slow.c", "-ldl"], check=True)
    folder.chmod(0o755)
    library.chmod(0o755)
    return library


def table(cells: dict[tuple[float, str], Cell]) -> str:
    lines = ["| planted | procedure | slower | faster | same | unclear | mean seconds |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    for (share, procedure), cell in cells.items():
        counts = " | ".join(str(cell.words[w]) for w in ("slower", "faster", "same", "unclear"))
        lines.append(f"| {share:.0%} | {procedure} | {counts} | {statistics.mean(cell.seconds):.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--step", default="point-query")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--comparisons", type=int, default=20, help="of each kind; base against base: twice")
    parser.add_argument("--budget", type=float, default=240.0, help="measured seconds of a comparison")
    parser.add_argument("--slice", type=float, default=2.0, help="seconds of a slice")
    parser.add_argument("--calibrate", type=float, default=120.0, help="measured seconds of the calibration")
    parser.add_argument("--trial-ns", type=int, default=20_000, help="burn of the calibration")
    parser.add_argument("--results", default="results-sensitivity")
    parser.add_argument("--smoke", action="store_true", help="one comparison of a few seconds each")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.comparisons, arguments.budget, arguments.slice = 1, 10.0, 0.5
        arguments.calibrate, arguments.rows = 8.0, 1000
    with tempfile.TemporaryDirectory(prefix="pgstrata-slow-") as folder:
        bench = Bench(arguments, build(Path(folder)))
        burns = bench.calibrate()
        cells = {(share, p): Cell() for share in PLANTED for p in (FIELD, FIXED, WATCHED)}
        for turn in range(arguments.comparisons * 2):
            for share, burn in burns.items():
                if share and turn % 2:
                    continue
                for procedure in (FIELD, FIXED, WATCHED):
                    if procedure == FIELD:
                        word, seconds = bench.field_says(burn)
                    else:
                        word, seconds = bench.pgstrata_says(burn, watched=procedure == WATCHED)
                    cells[share, procedure].words[word] += 1
                    cells[share, procedure].seconds.append(seconds)
                    print(f"{turn + 1}: {share:.0%}, {procedure}: {word} after {seconds:.0f} s", flush=True)
        print(f"\n{table(cells)}")


if __name__ == "__main__":
    main()

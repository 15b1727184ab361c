"""How often verdicts on steps that write are right, in frozen turns and in whole rounds.

    python benchmarks/writes.py --step tpcb-like [--kind cpu --kind wal] [--comparisons 20]
    python benchmarks/writes.py --step l.i1 --kind stall    frozen turns against whole rounds
    python benchmarks/writes.py --step tpcb-like --print    the table of what is there

Steps: l.i1 (Insert Benchmark), update-index (sysbench), tpcb-like (pgbench), each with one client and
defaults but for the size; data is loaded once and copied into new clusters (keep_loaded). Kinds, other
against base:

- base: nothing is planted. --comparisons twice as many as of the others.
- cpu, wal: a library that is preloaded on both sides (slow.c) takes 5 % of the rate, as CPU burned per
  message of a client, or as delay of writes and syncs of WAL, with synchronous_commit = on on both sides, as
  nobody else waits for these. How much that is is tried first (--calibrate seconds).
- stall: other has max_wal_size = 32MB, so that one checkpoint follows the other; once in frozen turns with
  --budget measured seconds of both, once in whole rounds with ten times as many.

base, cpu and wal go on until the verdict is known, --budget measured seconds at most, in rounds of --round
seconds of each side; --turns rounds measures them in whole rounds, --fixed all of the budget. One line of
JSON per finished comparison goes to --out; the same command again goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from sensitivity.measure import append, build, rate_of, read

from pgstrata.judge.pairs import pairs_of
from pgstrata.server.cluster.storage import default_data_dir
from pgstrata.stats.estimate import estimate
from pgstrata.store import Results
from pgstrata.store.record import StepRecord

Json = dict[str, Any]

KINDS = ("base", "cpu", "wal", "stall")
OWN = ("server", "step", "budget", "round", "fixed", "window")
"""Arguments that all comparisons of a file have in common."""

SHARE = 0.05
WORDS = ("slower", "faster", "same", "unclear")
BOTH = {"wal": "synchronous_commit = on\n"}
"""Settings of both sides."""

OTHER = {"stall": "max_wal_size = 32MB\nmin_wal_size = 32MB\n"}
"""Settings of the other side."""

TRIALS = {"cpu": 300_000, "wal": 200_000}
"""Of the first trial, a slowdown that is seen on any machine: rounds burned, nanoseconds of delay."""


def workload(step: str, seconds: float, rows_per_second: float) -> str:
    """The workload of a campaign in which a step takes so long."""
    match step:
        case "l.i1":
            rows = max(5000, round(seconds * rows_per_second / 50) * 50)
            options = f"rows = 200000\nrows_i1 = {rows}\nrows_i2 = 0\nsettle_base = 0\nsteps = []\n"
            return f'[[workloads]]\nname = "insert"\n[workloads.options]\n{options}'
        case "update-index":
            options = (
                f"rows = 100000\nwrite_seconds = {seconds}\ncache_seconds = 0\nsettle_base = 0\nwarmup = 0\n"
            )
            return (
                f'[[workloads]]\nname = "sysbench"\n[workloads.options]\n{options}steps = ["update-index"]\n'
            )
        case _:
            script = 'scale = 10\nbuiltin = ["tpcb-like"]\nmodes = ["simple"]\nclients = [1]\n'
            return f'[[workloads]]\nname = "pgbench"\n[workloads.options]\n{script}seconds = {seconds}\n'


class Bench:
    """Where and with what everything is measured."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments, self.folder, self.library = arguments, folder, build(folder)
        self.rows_per_second = dict.fromkeys(TRIALS, 20_000.0)

    def run(
        self, kind: str, ns: int, seconds: float, turns: str, rounds: int | None
    ) -> tuple[StepRecord, StepRecord]:
        """One campaign of base and other, whose records it returns. ns: planted on the other side; seconds:
        of a round of each; rounds: None for as many as a verdict takes."""
        a = self.arguments
        place = self.folder / "run"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "base.conf").write_text(BOTH.get(kind, ""))
        (place / "other.conf").write_text(BOTH.get(kind, "") + OTHER.get(kind, ""))
        variants = ""
        for label, planted_ns in (
            ("base", int(kind == "wal")),
            ("other", ns),
        ):  # asking which file it is costs time
            env = {"LD_PRELOAD": str(self.library), variable_of(kind): str(planted_ns)}
            pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items())
            variants += f'[[variants]]\nserver = "{a.server}"\nlabel = "{label}"\n'
            variants += f'config = ["default", "./{label}.conf"]\nenv = {{ {pairs} }}\n'
        calibrated = kind if kind in TRIALS else "cpu"  # whose base has the same settings
        file = place / "writes.toml"
        ends = f"rounds = {rounds}" if rounds else f'until = "verdict"\nmax_seconds = {a.budget}'
        head = f'order = "interleaved"\nturns = "{turns}"\n{ends}\nwindow_seconds = {a.window}\n'
        head += "keep_loaded = true\n"
        file.write_text(f"{head}{variants}{workload(a.step, seconds, self.rows_per_second[calibrated])}")
        data = default_data_dir() / f"sensitivity-writes-{a.step}"
        command = [sys.executable, "-m", "pgstrata", "run", str(file), "--no-report"]
        command += ["--results", str(place / "results"), "--data-dir", str(data)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        runs = sorted(Results(place / "results").runs(), key=lambda run: run.variant != "base")
        base, other = (next(s for s in run.steps if s.name.startswith(a.step)) for run in runs)
        return base, other

    def calibrate(self, kind: str) -> int:
        """Rounds or nanoseconds that take 5 % of the rate: tried with many, then with fewer."""
        trial, wanted = TRIALS[kind], 0
        for _ in range(2):
            # As long as what is compared: the later part of a step may be slower.
            a = self.arguments
            base, other = self.run(kind, trial, a.round, "frozen", max(1, round(a.calibrate / 2 / a.round)))
            of_one = 1 / rate_of(base)
            cost: float = of_one * math.expm1(-estimate(*pairs_of(base, other)).log) / trial
            if cost <= 0:
                raise SystemExit(
                    f"{trial} of {kind} cost nothing: is LD_PRELOAD forbidden, or the machine busy?"
                )
            if a.step == "l.i1":
                self.rows_per_second[kind] = rate_of(base)
            print(
                f"{of_one * 1e6:.1f} µs per operation, {trial} of {kind} cost {cost * trial * 1e6:.1f} µs",
                flush=True,
            )
            wanted = round(of_one * SHARE / (1 - SHARE) / cost)
            trial = wanted * 3
        return wanted

    def compared(self, kind: str, turns: str, planted: int, number: int) -> Json:
        """One comparison as a line of the file."""
        begun, started = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        a = self.arguments
        rounds = None
        if kind == "stall" or a.fixed:
            longer = 10 if (kind, turns) == ("stall", "rounds") else 1
            rounds = longer * max(1, round(a.budget / 2 / a.round))
        base, other = self.run(kind, planted, a.round, turns, rounds)
        command = [sys.executable, "-m", "pgstrata", "compare", "base", "other", "--format", "json"]
        command += ["--results", str(self.folder / "run" / "results"), "--step", base.name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        (verdict,) = json.loads(done.stdout)[0]["steps"]
        figures = {name: verdict[name] for name in ("word", "ratio", "low", "high", "n")}
        line = {"kind": kind, "turns": turns, "number": number, "started": started}
        wall = round(time.monotonic() - begun, 1)
        return {**line, "wall": wall, "seconds": base.seconds + other.seconds, **figures}


def variable_of(kind: str) -> str:
    return "PGSTRATA_WAL_NS" if kind == "wal" else "PGSTRATA_BURN"


def measure(arguments: argparse.Namespace) -> None:
    """Makes every comparison that the file lacks; kinds take turns."""
    lines = read(arguments.out)
    settings = {name: getattr(arguments, name) for name in OWN}
    with tempfile.TemporaryDirectory(prefix="pgstrata-writes-") as folder:
        bench = Bench(arguments, Path(folder))
        if not lines:
            append(arguments.out, {"arguments": settings})
        elif lines[0]["arguments"] != settings:
            raise SystemExit(
                f"{arguments.out} was begun with {lines[0]['arguments']}: another --out, or the same"
            )
        planted = {line["planted"]: line for line in lines[1:] if "planted" in line}
        for kind in (kind for kind in arguments.kind if kind in TRIALS and kind not in planted):
            ns = bench.calibrate(kind)
            line = {"planted": kind, "ns": ns, "rows_per_second": bench.rows_per_second[kind]}
            append(arguments.out, line)
            planted[kind] = line
        for kind, line in planted.items():
            bench.rows_per_second[kind] = line["rows_per_second"]
        there = {(line["kind"], line["turns"], line["number"]) for line in lines[1:] if "kind" in line}
        for number in range(2 * arguments.comparisons):
            for kind in arguments.kind:
                if number >= arguments.comparisons and kind != "base":
                    continue
                for turns in ("frozen", "rounds") if kind == "stall" else (arguments.turns,):
                    if (kind, turns, number) not in there:
                        line = bench.compared(kind, turns, planted.get(kind, {}).get("ns", 0), number)
                        append(arguments.out, line)
                        text = f"{line['word']} {line['ratio']:.4f} ({line['low']} … {line['high']})"
                        print(f"{kind}, {turns} {number + 1}: {text}, {line['wall']} s", flush=True)


def table(lines: list[Json]) -> str:
    """Markdown."""
    rows = [
        "| planted | turns | comparisons | slower | faster | same | unclear | ratio | spread | ± | seconds |"
    ]
    rows.append("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    comparisons = [line for line in lines if "kind" in line]
    for kind, turns in dict.fromkeys((line["kind"], line["turns"]) for line in comparisons):
        group = [line for line in comparisons if (line["kind"], line["turns"]) == (kind, turns)]
        words = Counter(line["word"] for line in group)
        ratios = [line["ratio"] for line in group]
        spread = f"{statistics.stdev(ratios):.4f}" if len(group) > 1 else ""
        halves = [(line["high"] - line["low"]) / 2 for line in group if line["low"] is not None]
        half = f"{statistics.median(halves):.4f}" if halves else ""
        seconds = statistics.mean(line["seconds"] for line in group)
        counts = " | ".join(str(words[word]) for word in WORDS)
        figures = f"{statistics.mean(ratios):.4f} | {spread} | {half} | {seconds:.0f}"
        rows.append(f"| {kind} | {turns} | {len(group)} | {counts} | {figures} |")
    return "\n".join(rows + agreement(comparisons))


def agreement(comparisons: list[Json]) -> list[str]:
    """How often frozen turns and whole rounds of the same pair of variants say the same of a stall."""
    stalls = {(line["turns"], line["number"]): line for line in comparisons if line["kind"] == "stall"}
    both = [
        (line, stalls["rounds", number])
        for (turns, number), line in stalls.items()
        if turns == "frozen" and ("rounds", number) in stalls
    ]
    both = [pair for pair in both if all(line["low"] is not None for line in pair)]
    if not both:
        return []
    inside = sum(rounds["low"] <= frozen["ratio"] <= rounds["high"] for frozen, rounds in both)
    other_way = sum(frozen["low"] <= rounds["ratio"] <= frozen["high"] for frozen, rounds in both)
    overlap = sum(max(side["low"] for side in pair) <= min(side["high"] for side in pair) for pair in both)
    return [
        f"\nOf {len(both)} pairs of variants the ratio of frozen turns lies in the interval of rounds in "
        f"{inside}, that of rounds in the interval of frozen turns in {other_way}; the intervals overlap in "
        f"{overlap}."
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--step", choices=("l.i1", "update-index", "tpcb-like"), required=True)
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: base, cpu, wal")
    parser.add_argument("--turns", choices=("frozen", "rounds"), default="frozen")
    parser.add_argument("--comparisons", type=int, default=20, help="of each kind; base against base: twice")
    parser.add_argument("--budget", type=float, default=240.0, help="measured seconds of a comparison")
    parser.add_argument("--round", type=float, default=5.0, help="seconds of each side in a round")
    parser.add_argument("--fixed", action="store_true", help="all of the budget, whatever is known before")
    parser.add_argument("--window", type=float, default=0.1, help="seconds of a frozen turn")
    parser.add_argument("--calibrate", type=float, default=60.0, help="measured seconds of each trial")
    parser.add_argument("--out", type=Path, help="default: writes-STEP.jsonl")
    parser.add_argument("--print", action="store_true", help="only the table of what is there")
    arguments = parser.parse_args()
    arguments.kind = arguments.kind or ["base", "cpu", "wal"]
    arguments.out = arguments.out or Path(f"writes-{arguments.step}.jsonl")
    if not arguments.print:
        measure(arguments)
    print(f"\n{table(read(arguments.out))}")


if __name__ == "__main__":
    main()

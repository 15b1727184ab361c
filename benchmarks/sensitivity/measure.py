"""How often each procedure is right, measured on this machine with a planted slowdown.

    python benchmarks/sensitivity/measure.py [--step point-query] [--lanes 2] [--print]
    python benchmarks/sensitivity/measure.py --try-lanes    is --lanes 2 as quiet as one at a time?
    python benchmarks/sensitivity/measure.py --smoke        minutes; says nothing but that it works
    python benchmarks/sensitivity/measure.py --margin 0.005 --planted 0.01 --field 0

Builds slow.c with cc, calibrates what it burns per message to the slowdowns --planted (3 % and 5 %), and
compares base against base (40 times) and against each of these (20 times), each with at most the same budget
of measured seconds (240) and otherwise a campaign's defaults:

- the procedure of the field: one run each of half the budget, slower below 0.95, faster above 1.05;
- pgstrata: interleaved slices with `until = "verdict"`, which ends early where the verdict is known.

Every comparison has new clusters, and the kinds take turns. One line of JSON per finished comparison goes
to --out; the same command again goes on where it was stopped, in whatever way. --print makes the table for
benchmarks/results/sensitivity.md of what is there, without measuring.

How long: 80 comparisons of the field's procedure take 5.6 h of one lane, whatever they find; --field says how
many of each kind are made of it. Those of pgstrata take what they need, and 15 s around each.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pgstrata.judge.pairs import pairs_of
from pgstrata.server.cluster.storage import default_data_dir
from pgstrata.server.system.process import die_with_parent
from pgstrata.stats.estimate import Estimate, estimate
from pgstrata.store import Results
from pgstrata.store.record import StepRecord

Json = dict[str, Any]
Job = tuple[float, str, int]
"""Planted share, procedure, number of the comparison."""

HERE = Path(__file__).resolve().parent
PLANTED = (0.03, 0.05)
FIELD, PAIRS = "field", "interleaved"
TITLES = {FIELD: "one run each, ± 5 %", PAIRS: "interleaved, until verdict"}
SAME = ("server", "step", "rows", "budget", "slice", "margin", "planted", "lanes")
"""Arguments that may not differ between the lines of one file."""


@dataclass
class Cell:
    """What one procedure said of one planted slowdown."""

    words: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    def add(self, word: str, seconds: float, ratio: float) -> None:
        self.words[word] += 1
        self.seconds.append(seconds)
        self.ratios.append(ratio)


class Bench:
    """Where and with what everything is measured."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments, self.folder = arguments, folder
        self.library = build(folder)
        self.running: set[subprocess.Popen[bytes]] = set()
        self.stopped = threading.Event()

    def run(self, lane: int | None, burn: int, seconds: float, more: str) -> Path:
        """Base and the slowed variant in one campaign; lane: the CPU they keep to. Returns its results.

        more: lines for the campaign.
        """
        a = self.arguments
        place = self.folder / f"lane-{lane or 0}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        more += "" if a.margin is None else f"\nmargin = {a.margin}"
        # The library is preloaded on both sides, so that it differs only in what it burns.
        variants = "".join(
            f'[[variants]]\nserver = "{a.server}"\nlabel = "{label}"\n'
            f'env = {{ LD_PRELOAD = {json.dumps(str(self.library))}, PGSTRATA_BURN = "{rounds}" }}\n'
            for label, rounds in (("base", 0), ("other", burn))
        )
        file = place / "sensitivity.toml"
        file.write_text(
            f"{more}\nslice_seconds = {a.slice}\n{variants}"
            f'[[workloads]]\nname = "sysbench"\n[workloads.options]\n'
            f"rows = {a.rows}\nread_seconds = {seconds}\nwarmup = 1\ncache_seconds = 0\n"
            f'settle_base = 0\nsteps = ["{a.step}"]\n'
        )
        # One folder per lane, the same every time: the next run in it clears what a killed one left.
        data = default_data_dir() / f"sensitivity-{lane or 0}"
        self._call(lane, "run", file, "--no-report", "--results", place / "results", "--data-dir", data)
        return place / "results"

    def steps(self, place: Path) -> list[StepRecord]:
        """The records of base and other."""
        runs = sorted(Results(place).runs(), key=lambda run: run.variant != "base")
        return [next(step for step in run.steps if step.name == self.arguments.step) for run in runs]

    def _call(self, lane: int | None, *words: object) -> None:
        """pgstrata to its end, on the lane's CPU as if there were no other.

        Raises SystemExit where it fails or the benchmark is stopped.
        """
        command = [sys.executable, "-m", "pgstrata", *map(str, words)]

        def begin() -> None:
            die_with_parent()
            if lane is not None:
                os.sched_setaffinity(0, {lane})

        self._goes_on()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=begin)
        self.running.add(process)
        try:
            code = process.wait()
        finally:
            self.running.discard(process)
        self._goes_on()
        if code:
            self.stop()
            raise SystemExit(f"ended with exit code {code}: {' '.join(command)}")

    def _goes_on(self) -> None:
        """Raises SystemExit where the benchmark is stopped."""
        if self.stopped.is_set():
            raise SystemExit("stopped; the same command goes on")

    def stop(self, *_: int | FrameType | None) -> None:
        """Ends what runs, orderly; the lines already written stay."""
        self.stopped.set()
        for process in list(self.running):
            process.send_signal(signal.SIGTERM)

    def pairs(self, lane: int | None, burn: int, seconds: float) -> tuple[float, Estimate]:
        """Rate of the base, and other against it slice by slice; `seconds` both together."""
        base, other = self.steps(self.run(lane, burn, seconds / 2, 'order = "interleaved"'))
        return rate_of(base), estimate(*pairs_of(base, other))

    def verdict(self, place: Path) -> Json:
        """What `pgstrata compare` says of the two, as its users get it."""
        command = [sys.executable, "-m", "pgstrata", "compare", "base", "other", "--format", "json"]
        done = subprocess.run([*command, "--results", place], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        (verdict,) = json.loads(done.stdout)[0]["steps"]
        return {name: verdict[name] for name in ("word", "ratio", "low", "high", "n")}

    def compared(self, lane: int | None, burn: int, job: Job) -> Json:
        """One comparison as a line of the file."""
        share, procedure, number = job
        begun, started = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        budget = self.arguments.budget
        if procedure == FIELD:
            place = self.run(lane, burn, budget / 2, 'order = "sequential"')
            base, other = self.steps(place)
            ratio = rate_of(other) / rate_of(base)
            verdict = {"word": field_word(ratio), "ratio": ratio}
        else:
            more = f'order = "interleaved"\nuntil = "verdict"\nmax_seconds = {budget}'
            place = self.run(lane, burn, budget / 2, more)
            base, other = self.steps(place)
            verdict = self.verdict(place)
        wall = round(time.monotonic() - begun, 1)
        line = {"share": share, "procedure": procedure, "number": number, "started": started, "wall": wall}
        seconds = base.seconds + other.seconds
        return {**line, "lane": lane, "seconds": seconds, **verdict}

    def calibrate(self, lanes: list[int | None]) -> Json:
        """Rounds to burn per message for each planted slowdown.

        1 ÷ rate is the time of one operation with one client, and burning b of it makes the rate 1 ÷ (1 + b)
        of what it was. What a burn costs is tried: first a large one, then one of about 10 %, near to what is
        planted, because clients and servers that wait longer also wait otherwise. By all lanes at a time,
        as everything after it is measured.
        """
        seconds = self.arguments.calibrate
        base, first = self._cost(lanes, self.arguments.trial, seconds / 4)
        base, cost = self._cost(lanes, round(0.1 * base / first), seconds)
        # Each operation is one message here, or so many.
        if not self.arguments.smoke and not 0.7 < cost / first < 1.4:
            raise SystemExit("the second is not what the first makes of it: is the machine busy?")
        shares = (0.0, *self.arguments.planted)
        burns = {str(share): round(base * share / (1 - share) / cost) for share in shares}
        return {"base_seconds": base, "cost": cost, "burn": burns}

    def _cost(self, lanes: list[int | None], burn: int, seconds: float) -> tuple[float, float]:
        """Seconds of an operation of the base, and how many more each burned round costs."""
        with ThreadPoolExecutor(len(lanes)) as pool:
            pairs = list(pool.map(lambda lane: self.pairs(lane, burn, seconds), lanes))
        base = statistics.mean(1 / rate for rate, _ in pairs)
        more = base * statistics.mean(math.expm1(-e.log) for _, e in pairs)
        print(f"{base * 1e6:.2f} µs per operation, burning {burn} costs {more * 1e6:.2f} µs", flush=True)
        if not self.arguments.smoke and more < 0.02 * base:
            raise SystemExit("that is not what was burned: is the machine busy, or LD_PRELOAD forbidden?")
        return base, max(more, 0.001 * base) / burn


def build(folder: Path) -> Path:
    """slow.so, readable for the account of servers."""
    library = folder / "slow.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "slow.c", "-ldl"], check=True)
    folder.chmod(0o755)
    library.chmod(0o755)
    return library


def jobs(planted: list[float], comparisons: int, field: int) -> Iterator[Job]:
    """All comparisons in the order they are made: twice as many of base and base."""
    for number in range(comparisons * 2):
        for share in (0.0, *planted):
            for procedure, wanted in ((FIELD, field), (PAIRS, comparisons)):
                if number < wanted * (2 if share == 0 else 1):
                    yield share, procedure, number


def measure(arguments: argparse.Namespace) -> None:
    """Makes every comparison that the file lacks."""
    with tempfile.TemporaryDirectory(prefix="pgstrata-slow-") as folder:
        bench = Bench(arguments, Path(folder))
        signal.signal(signal.SIGTERM, bench.stop)
        signal.signal(signal.SIGINT, bench.stop)
        lanes: list[int | None] = [None] if arguments.lanes == 1 else list(range(arguments.lanes))
        lines = begun(arguments, SAME, lambda: bench.calibrate(lanes))
        done = {(x["share"], x["procedure"], x["number"]) for x in lines[1:]}
        burns = lines[0]["burn"]
        wanted = jobs(arguments.planted, arguments.comparisons, arguments.field)
        todo = iter([job for job in wanted if job not in done])
        lock = threading.Lock()

        def work(lane: int | None) -> None:
            while True:
                with lock:
                    job = next(todo, None)
                if job is None:
                    return
                line = bench.compared(lane, burns[str(job[0])], job)
                with lock:
                    append(arguments.out, line)
                    print(
                        f"{job[0]:.0%} {job[1]} {job[2] + 1}: {words_of(line)}, {line['wall']} s", flush=True
                    )

        with ThreadPoolExecutor(len(lanes)) as pool:
            for future in [pool.submit(work, lane) for lane in lanes]:
                future.result()


def try_lanes(arguments: argparse.Namespace) -> None:
    """Prints the noise of a pair, base against base: one at a time, and on every lane at a time."""
    with tempfile.TemporaryDirectory(prefix="pgstrata-slow-") as folder:
        bench = Bench(arguments, Path(folder))
        for lanes in ([None], list[int | None](range(max(2, arguments.lanes)))):
            with ThreadPoolExecutor(len(lanes)) as pool:
                pairs = list(pool.map(lambda lane: bench.pairs(lane, 0, arguments.calibrate / 2), lanes))
            for lane, (_, e) in zip(lanes, pairs, strict=True):
                deviation = e.standard_error * e.n**0.5
                where = "one at a time" if lane is None else f"{len(lanes)} at a time, CPU {lane}"
                print(f"{where}: {e.n} pairs, noise of one {deviation:.2%}, second cluster {e.log:+.2%}")


def rate_of(step: StepRecord) -> float:
    """Raises SystemExit where nothing was measured."""
    if step.rate is None:
        raise SystemExit(f"{step.name} has no rate")
    return step.rate


def read(file: Path) -> list[Json]:
    """The lines of the file; the last may have been cut by a crash."""
    lines = file.read_text().splitlines() if file.exists() else []
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise SystemExit(f"{file}:{number}: not a line of this benchmark") from None
    return records


def begun(arguments: argparse.Namespace, same: Sequence[str], calibrate: Callable[[], Json]) -> list[Json]:
    """The lines of --out. A new file is begun with the arguments that may not differ, and what `calibrate`
    returns. Raises SystemExit where they are others."""
    wanted = {name: getattr(arguments, name) for name in same}
    lines = read(arguments.out)
    if not lines:
        append(arguments.out, {"arguments": wanted, **calibrate()})
        lines = read(arguments.out)
    if lines[0]["arguments"] != wanted:
        raise SystemExit(
            f"{arguments.out} was begun with {lines[0]['arguments']}: another --out, or the same"
        )
    return lines


def append(file: Path, line: Json) -> None:
    """Writes a line so that it outlives a crash; one that was cut is ended first."""
    with file.open("ab+") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":
                whole = file.read_bytes()
                out.truncate(whole.rfind(b"\n") + 1)
        out.write(json.dumps(line).encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())


def words_of(line: Json) -> str:
    return f"{line['word']} ({line['ratio']:.4f}) after {line['seconds']:.0f} s"


def field_word(ratio: float) -> str:
    """The rule of the field."""
    return "slower" if ratio < 0.95 else "faster" if ratio > 1.05 else "same"


def table(lines: list[Json]) -> str:
    """Markdown."""
    shares = (0.0, *lines[0]["arguments"]["planted"])
    cells = {(share, title): Cell() for share in shares for title in TITLES.values()}
    for line in lines[1:]:
        cell = cells[line["share"], TITLES[line["procedure"]]]
        cell.add(line["word"], line["seconds"], line["ratio"])
    rows = [
        "| planted | procedure | comparisons | slower | faster | same | unclear | ratio | spread | seconds |"
    ]
    rows += ["|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for (share, procedure), cell in cells.items():
        if n := len(cell.ratios):
            counts = " | ".join(str(cell.words[w]) for w in ("slower", "faster", "same", "unclear"))
            spread = f"{statistics.stdev(cell.ratios):.4f}" if n > 1 else ""
            seconds = statistics.mean(cell.seconds)
            middle = statistics.mean(cell.ratios)
            rows.append(
                f"| {share:.0%} | {procedure} | {n} | {counts} | {middle:.4f} | {spread} | {seconds:.0f} |"
            )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--step", default="point-query")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--comparisons", type=int, default=20, help="of each kind; base against base: twice")
    parser.add_argument("--field", type=int, help="the same of the field's procedure; default: as many")
    parser.add_argument("--budget", type=float, default=240.0, help="measured seconds of a comparison")
    parser.add_argument("--slice", type=float, default=0.02, help="seconds of a slice")
    parser.add_argument("--margin", type=float, help="of the verdicts, a share; default: 0.02")
    parser.add_argument(
        "--planted", type=float, action="append", help="a slowdown, as a share; default: 0.03 and 0.05"
    )
    parser.add_argument("--calibrate", type=float, default=120.0, help="measured seconds of the calibration")
    parser.add_argument("--trial", type=int, default=60_000, help="rounds first burned to calibrate")
    parser.add_argument(
        "--lanes", type=int, default=1, help="comparisons at a time, each on a CPU of its own"
    )
    parser.add_argument("--out", type=Path, help="default: sensitivity-STEP.jsonl")
    parser.add_argument("--print", action="store_true", help="only the table of what is there")
    parser.add_argument("--try-lanes", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="one comparison of a few seconds each")
    arguments = parser.parse_args()
    arguments.planted = arguments.planted or list(PLANTED)
    if arguments.smoke:
        arguments.comparisons, arguments.budget, arguments.slice = 1, 10.0, 0.02
        arguments.calibrate, arguments.rows = 8.0, 1000
    if arguments.field is None:
        arguments.field = arguments.comparisons
    smoke = "-smoke" if arguments.smoke else ""
    arguments.out = arguments.out or Path(f"sensitivity-{arguments.step.replace('=', '-')}{smoke}.jsonl")
    if arguments.try_lanes:
        try_lanes(arguments)
        return
    if not arguments.print:
        measure(arguments)
    lines = read(arguments.out)
    if not lines:
        raise SystemExit(f"{arguments.out} holds nothing yet")
    print(f"\n{table(lines)}")


if __name__ == "__main__":
    main()

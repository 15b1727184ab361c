"""How often a count is right: base against base, and a planted code path of 0.5 %, counted and timed.

    python benchmarks/instructions/measure.py [--same 40] [--planted 20] [--timed 5] [--busy 2]
    python benchmarks/instructions/measure.py --print

Builds burn.c with cc, finds out how many rounds of it are 0.5 % of an operation, and lets `pgstrata count`
compare base with base and base with the planted one, new clusters and new starts each time, at the default
margin, with so many busy programs beside; and `pgstrata run` times the same two in turns, at the same margin,
for at most --seconds. One line of JSON per comparison goes to --out; the same command again goes on where it
was stopped. --print makes the table of what is there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from pgstrata.server.system.process import die_with_parent

Json = dict[str, Any]

HERE = Path(__file__).resolve().parent
SHARE = 0.005
SAME, PLANTED, TIMED = "base against base", f"+ {SHARE:.1%} planted", f"+ {SHARE:.1%} planted, timed"
TRY = 1000
"""Rounds with which it is found out how often the loop is reached."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--step", default="point-query")
    parser.add_argument("--same", type=int, default=40)
    parser.add_argument("--planted", type=int, default=20)
    parser.add_argument("--timed", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=60, help="longest timed comparison")
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("instructions.jsonl"))
    parser.add_argument("--print", action="store_true", dest="show")
    arguments = parser.parse_args()
    there = (
        [json.loads(line) for line in arguments.out.read_text().splitlines()]
        if arguments.out.exists()
        else []
    )
    if arguments.show:
        show(there)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; the same command goes on"))
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command, preexec_fn=die_with_parent) for _ in range(arguments.busy)]
    try:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            Path(folder).chmod(0o755)
            measure(arguments, Path(folder), there)
    finally:
        for process in busy:
            process.kill()


def measure(arguments: argparse.Namespace, folder: Path, there: list[Json]) -> None:
    """All comparisons that are missing, the kinds in turn."""
    library = folder / "burn.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "burn.c", "-ldl"], check=True)
    library.chmod(0o755)
    known = (line["rounds"] for line in there if line["step"] == arguments.step)
    rounds = next(known, 0) or calibrated(arguments, folder, library)
    wanted = {SAME: arguments.same, PLANTED: arguments.planted, TIMED: arguments.timed}
    done = Counter(line["kind"] for line in there if line["step"] == arguments.step)
    for number in range(max(wanted.values())):
        for kind, most in wanted.items():
            if not done[kind] <= number < most:
                continue
            begun = time.monotonic()
            more = 0 if kind == SAME else rounds
            line = {
                "kind": kind,
                "rounds": rounds,
                "step": arguments.step,
                **(timed if kind == TIMED else counted)(arguments, folder, library, more),
                "seconds": round(time.monotonic() - begun, 1),
                "load": os.getloadavg()[0],
            }
            with arguments.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


def calibrated(arguments: argparse.Namespace, folder: Path, library: Path) -> int:
    """Rounds that are SHARE of an operation's instructions."""
    count = counted(arguments, folder, library, TRY)
    return max(1, round(TRY * SHARE / (float(count["ratio"]) - 1)))


def campaign(arguments: argparse.Namespace, folder: Path, library: Path, rounds: int) -> Path:
    """A campaign of the server with a loop of no rounds, and of so many."""
    variants = "".join(
        f'[[variants]]\nserver = "{arguments.server}"\nlabel = "{label}"\n'
        f'env = {{ LD_PRELOAD = {json.dumps(str(library))}, PGSTRATA_BURN = "{n}" }}\n'
        for label, n in (("base", 0), ("other", rounds))
    )
    file = folder / "planted.toml"
    file.write_text(
        f'order = "interleaved"\nuntil = "verdict"\nmargin = 0.002\nmax_seconds = {arguments.seconds}\n'
        f'{variants}[[workloads]]\nname = "sysbench"\nscale = "count"\n'
        f'options = {{ steps = ["{arguments.step}"] }}\n'
    )
    return file


def counted(arguments: argparse.Namespace, folder: Path, library: Path, rounds: int) -> Json:
    """One count of two variants: the verdict, and the function that changed most."""
    results = folder / "counted"
    file = campaign(arguments, folder, library, rounds)
    output = pgstrata(
        "count", file, "--fresh", "--engine", "valgrind", "--results", results, "--format", "json"
    )
    verdict: Json = json.loads(output)[0]["steps"][0]
    sql = (
        "select function from functions where variant in ('base', 'other') group by function order by "
        "abs(sum(case variant when 'other' then instructions else -instructions end)) desc limit 1"
    )
    rows = json.loads(pgstrata("query", sql, "--results", results, "--format", "json"))
    spread = (
        "select max(m) from (select max(instructions) / min(instructions) - 1 as m from instructions "
        "group by variant)"
    )
    spreads = json.loads(pgstrata("query", spread, "--results", results, "--format", "json"))
    keys = ("word", "ratio", "low", "high", "starts")
    figures = {key: verdict[key] for key in keys}
    return figures | {"culprit": rows[0]["function"], "spread": next(iter(spreads[0].values()))}


def timed(arguments: argparse.Namespace, folder: Path, library: Path, rounds: int) -> Json:
    """The same two, timed in turns until the verdict is known at the margin of a count, or time is up."""
    results = folder / "timed"
    file = campaign(arguments, folder, library, rounds)
    pgstrata("run", file, "--fresh", "--results", results, "--no-report")
    words = ("base", "other", "--margin", "0.2%", "--format", "json")
    verdict: Json = json.loads(pgstrata("compare", *words, "--results", results))[0]["steps"][0]
    return {key: verdict[key] for key in ("word", "ratio", "low", "high")} | {"culprit": None}


def pgstrata(*words: object) -> str:
    """What a command of pgstrata prints. Raises SystemExit where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pgstrata", *map(str, words)], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def show(lines: list[Json]) -> None:
    """The table: what was said of each kind on each step."""
    print(
        "| kind, step | comparisons | more or slower | fewer or faster | same | unclear "
        "| ratio, least and most | spread of starts, largest | named `burn` | seconds, median and most |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind, step in dict.fromkeys((line["kind"], line["step"]) for line in lines):
        group = [line for line in lines if (line["kind"], line["step"]) == (kind, step)]
        words = Counter(line["word"] for line in group)
        ratios = [line["ratio"] for line in group]
        seconds = [line["seconds"] for line in group]
        cells = [
            f"{kind}, {step}",
            len(group),
            words["more"] + words["slower"],
            words["fewer"] + words["faster"],
            words["same"],
            words["unclear"],
            f"{min(ratios):.5f} … {max(ratios):.5f}",
            "–" if kind == TIMED else f"{max(line['spread'] for line in group):.3%}",
            sum(line["culprit"] == "burn" for line in group) if kind == PLANTED else "–",
            f"{median(seconds):.0f}, {max(seconds):.0f}",
        ]
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()

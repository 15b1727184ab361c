"""How often a count is right: base against base, and a planted code path of 0.5 %.

    python benchmarks/instructions/measure.py [--same 40] [--planted 20] [--busy 2]
    python benchmarks/instructions/measure.py --print

Builds burn.c with cc, finds out how many rounds of it are 0.5 % of an operation, and lets `pgstrata count`
compare base with base and base with the planted one, new clusters and new starts each time, at the default
margin, with so many busy programs beside. One line of JSON per comparison goes to --out; the same command
again goes on where it was stopped. --print makes the table of what is there.
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

from pgstrata.server.process import die_with_parent

Json = dict[str, Any]

HERE = Path(__file__).resolve().parent
SHARE = 0.005
TRY = 1000
"""Rounds with which it is found out how often the loop is reached."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--step", default="point-query")
    parser.add_argument("--same", type=int, default=40)
    parser.add_argument("--planted", type=int, default=20)
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
        for one in busy:
            one.kill()


def measure(arguments: argparse.Namespace, folder: Path, there: list[Json]) -> None:
    """All comparisons that are missing, the kinds in turn."""
    library = folder / "burn.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "burn.c", "-ldl"], check=True)
    library.chmod(0o755)
    rounds = next((line["rounds"] for line in there if line["planted"]), 0) or calibrated(
        arguments, folder, library
    )
    done = Counter(line["planted"] for line in there)
    for number in range(max(arguments.same, arguments.planted)):
        for planted, wanted in ((False, arguments.same), (True, arguments.planted)):
            if number >= wanted or number < done[planted]:
                continue
            begun = time.monotonic()
            verdict, culprit = compare(arguments, folder, library, rounds if planted else 0)
            line = {
                "planted": planted,
                "rounds": rounds,
                "step": arguments.step,
                "word": verdict["word"],
                "ratio": verdict["ratio"],
                "low": verdict["low"],
                "high": verdict["high"],
                "starts": verdict["starts"],
                "culprit": culprit,
                "seconds": round(time.monotonic() - begun, 1),
                "load": os.getloadavg()[0],
            }
            with arguments.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


def calibrated(arguments: argparse.Namespace, folder: Path, library: Path) -> int:
    """Rounds that are SHARE of an operation's instructions."""
    verdict, _ = compare(arguments, folder, library, TRY)
    longer = float(verdict["other"]) - float(verdict["base"])
    return max(1, round(TRY * SHARE * float(verdict["base"]) / longer))


def compare(arguments: argparse.Namespace, folder: Path, library: Path, rounds: int) -> tuple[Json, str]:
    """One count of two variants: the verdict, and the function that changed most."""
    variants = "".join(
        f'[[variants]]\nserver = "{arguments.server}"\nlabel = "{label}"\n'
        f'env = {{ LD_PRELOAD = {json.dumps(str(library))}, PGSTRATA_BURN = "{n}" }}\n'
        for label, n in (("base", 0), ("other", rounds))
    )
    file = folder / "planted.toml"
    file.write_text(
        f'{variants}[[workloads]]\nname = "sysbench"\nscale = "count"\n'
        f'options = {{ steps = ["{arguments.step}"] }}\n'
    )
    results = folder / "results"
    said = pgstrata(
        "count", file, "--fresh", "--engine", "valgrind", "--results", results, "--format", "json"
    )
    verdict: Json = json.loads(said)[0]["steps"][0]
    sql = (
        "select function from functions where variant in ('base', 'other') group by function order by "
        "abs(sum(case variant when 'other' then instructions else -instructions end)) desc limit 1"
    )
    rows = json.loads(pgstrata("query", sql, "--results", results, "--format", "json"))
    return verdict, rows[0]["function"]


def pgstrata(*words: object) -> str:
    """What a command of pgstrata prints. Raises SystemExit where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pgstrata", *map(str, words)], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def show(lines: list[Json]) -> None:
    """The table: what was said of both kinds."""
    words_ = "more | fewer | same | unclear"
    print(f"| kind | comparisons | {words_} | ratio, least and most | named `burn` | seconds, median |")
    print("|---|---|---|---|---|---|---|---|---|")
    for planted in (False, True):
        own = [line for line in lines if line["planted"] is planted]
        if not own:
            continue
        words = Counter(line["word"] for line in own)
        ratios = [line["ratio"] for line in own]
        cells = [
            f"+ {SHARE:.1%} planted" if planted else "base against base",
            len(own),
            *(words[word] for word in ("more", "fewer", "same", "unclear")),
            f"{min(ratios):.5f} … {max(ratios):.5f}",
            sum(line["culprit"] == "burn" for line in own) if planted else "–",
            f"{median(line['seconds'] for line in own):.0f}",
        ]
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()

"""What commands cost that read many runs, with the catalogue and reading every run.json.

    python benchmarks/store_scale.py [--runs 2000 --runs 10000 …] [--pairs 3] [--folder DIR]

Makes results folders of so many runs: the figures of one run of the Insert Benchmark (ten steps, 40 kB of
run.json) again and again, twenty runs to a campaign, all of one content sharing their files' blocks. Each
command is a process of its own, from its start to its end: seconds by the clock, seconds of CPU (which a busy
machine moves less), and the most memory it had resident. In pairs: the command with the catalogue, and right
after it with the catalogue taken away, which reads every run.json, checks every file of every run, and
writes the catalogue. Above --most-read runs that is done once and not for every command.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pgstrata.store import RunKey
from pgstrata.store.catalogue import NAME
from support_runs import make_run

COMMANDS = {
    "runs": ["runs"],
    "query, count": ["query", "select count(*) from runs"],
    "query, every step": [
        "query",
        "select variant, step, count(*), avg(rate), max(p99_seconds) from steps group by all order by all",
    ],
    "compare": ["compare", "pg16.1", "pg17.1"],
}
OF_CAMPAIGN = 20


class Cost(NamedTuple):
    """Of one process: seconds by the clock, seconds of CPU, most MB resident."""

    clock: float
    cpu: float
    megabytes: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, action="append")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--most-read", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="made and kept; else a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgs-scale.") as temporary:
        print("| runs | command | s | CPU s | MB | reading all: s | CPU s | MB |")
        print("|---:|---|---:|---:|---:|---:|---:|---:|")
        print(line(0, "--version", [cost(["--version"]) for _ in range(arguments.pairs)], []))
        for runs in arguments.runs or [2000, 10_000]:
            root = (arguments.folder or Path(temporary)) / str(runs)
            if not root.exists():
                fill(root, runs)
            measure(root, runs, arguments.pairs, runs <= arguments.most_read)
    return 0


def measure(root: Path, runs: int, pairs: int, each: bool) -> None:
    """Prints a line per command."""
    (root / NAME).unlink(missing_ok=True)
    first = cost(["query", "select count(*) from runs", "--results", str(root)])
    for name, command in COMMANDS.items():
        with_it, without = [], [] if each else [first]
        for _ in range(pairs):
            with_it.append(cost([*command, "--results", str(root)]))
            if each:
                (root / NAME).unlink()
                without.append(cost([*command, "--results", str(root)]))
        print(line(runs, name, with_it, without if each or name == "query, count" else []), flush=True)


def line(runs: int, name: str, with_it: list[Cost], without: list[Cost]) -> str:
    """Medians of both."""
    cells = [f"{runs:,}", name]
    for costs in (with_it, without):
        if costs:
            clock, cpu, megabytes = (statistics.median(column) for column in zip(*costs, strict=True))
            cells += [f"{clock:.2f}", f"{cpu:.2f}", f"{megabytes:.0f}"]
        else:
            cells += [""] * 3
    return f"| {' | '.join(cells)} |"


def cost(arguments: list[str]) -> Cost:
    """One command, its output thrown away. Raises RuntimeError where it fails."""
    begun = time.monotonic()
    program = Path(sys.executable).with_name("pgstrata")
    with subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"pgstrata {' '.join(arguments)} ended with {process.returncode}")
    return Cost(time.monotonic() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def fill(root: Path, runs: int) -> None:
    """So many runs, twenty to a campaign: ten repeats of two variants."""
    with tempfile.TemporaryDirectory(dir=root.parent if root.parent.exists() else None) as temporary:
        model = make_run(Path(temporary), RunKey("model", "pg16.1", "insert", 1), seconds=10)
        files = [path.relative_to(model) for path in model.rglob("*") if path.is_file()]
        text = (model / "run.json").read_text()
        own_id = model.name.partition("-")[2]
        for number in range(runs):
            campaign, place = divmod(number, OF_CAMPAIGN)
            variant, repeat = f"pg{16 + place % 2}.1", place // 2 + 1
            run_id = f"20260101T000000-{number:08x}"
            folder = root / f"nightly-{campaign:05d}" / variant / "insert" / f"{repeat}-{run_id}"
            for file in files:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                if file.name != "run.json":
                    os.link(model / file, folder / file)
            changed = text.replace(own_id, run_id).replace('"model"', f'"nightly-{campaign:05d}"', 1)
            changed = changed.replace('"variant": "pg16.1"', f'"variant": "{variant}"', 1)
            (folder / "run.json").write_text(changed.replace('"repeat": 1', f'"repeat": {repeat}', 1))


if __name__ == "__main__":
    sys.exit(main())

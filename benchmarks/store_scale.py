"""What commands cost that read many runs, with the catalogue and reading every run.json.

    python benchmarks/store_scale.py [--runs 2000 --runs 10000 …]
                                     [--report 2000] [--pairs 3] [--folder DIR]

--report: writes the report of one campaign of so many runs, ten variants, each run with tables of its own.
--runs: makes results folders of so many runs: the figures of one run of the Insert Benchmark, ten steps and
40 kB of run.json, again and again, twenty runs to a campaign, all of one content sharing their files' blocks.

Each command is a process of its own, from its start to its end: seconds by the clock, seconds of CPU (which a
busy machine moves less), and the most memory it had resident. In pairs: the command with the catalogue, and
right after it with the catalogue taken away, which reads every run.json, checks every file of every run, and
writes the catalogue. Above --most-read runs that is done once and not for every command.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pgstrata.files import digests
from pgstrata.store import RunKey, sums
from pgstrata.store.catalogue import NAME
from pgstrata.store.parquet import to_bytes
from pgstrata.store.read import Run, read_run
from pgstrata.store.tables import of_run
from support.runs import make_run

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
OF_REPORT = 10
"""Variants of the campaign that a report is written of."""

MOST_LINKS = 20_000
"""Names that a file gets: ext4 allows 65,000."""


class Cost(NamedTuple):
    """Of one process: seconds by the clock, seconds of CPU, most MB resident."""

    clock: float
    cpu: float
    megabytes: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, action="append")
    parser.add_argument("--report", type=int, action="append", help="runs of a campaign to write a report of")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--most-read", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="made and kept; else a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgs-scale.") as temporary:
        print("| runs | command | s | CPU s | MB | reading all: s | CPU s | MB |")
        print("|---:|---|---:|---:|---:|---:|---:|---:|")
        print(line(0, "--version", [cost(["--version"]) for _ in range(arguments.pairs)], []))
        place = arguments.folder or Path(temporary)
        for runs in arguments.runs or ([] if arguments.report else [2000, 10_000]):
            root = place / str(runs)
            if not root.exists():
                fill(root, runs)
            measure(root, runs, arguments.pairs, runs <= arguments.most_read)
        for runs in arguments.report or []:
            root = place / f"report-{runs}"
            if not root.exists():
                fill_campaign(root, runs)
            measure_report(root, runs, arguments.pairs)
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


def measure_report(root: Path, runs: int, pairs: int) -> None:
    """Prints a line for the report, with the catalogue and without, and the size of its page."""
    with_it, without = [], []
    for _ in range(pairs):
        (root / NAME).unlink(missing_ok=True)
        without.append(cost(["report", str(root)]))
        with_it.append(cost(["report", str(root)]))
    print(line(runs, "report", with_it, without))
    print(f"\npage of {runs:,} runs: {(root / 'many.report' / 'index.html').stat().st_size / 1e6:.2f} MB")


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
        for number in range(runs):
            if number % MOST_LINKS == 0:
                at = Path(temporary) / str(number)
                model = make_run(at, RunKey("model", "pg16.1", "insert", 1), seconds=10)
                files = [path.relative_to(model) for path in model.rglob("*") if path.is_file()]
                text = (model / "run.json").read_text()
                own_id = model.name.partition("-")[2]
            campaign, place = divmod(number, OF_CAMPAIGN)
            variant, repeat = f"pg{16 + place % 2}.1", place // 2 + 1
            run_id = f"20260101T000000-{number:08x}"
            folder = root / f"nightly-{campaign:05d}" / variant / "insert" / f"{repeat}-{run_id}"
            link(model, files, folder)
            changed = text.replace(own_id, run_id).replace('"model"', f'"nightly-{campaign:05d}"', 1)
            changed = changed.replace('"variant": "pg16.1"', f'"variant": "{variant}"', 1)
            (folder / "run.json").write_text(changed.replace('"repeat": 1', f'"repeat": {repeat}', 1))


def fill_campaign(root: Path, runs: int) -> None:
    """So many runs in one campaign: ten variants, each with tables of its own run in every run."""
    shaken = random.Random(1)
    for place in range(OF_REPORT):
        label = f"pg{9 + place}.1"
        with tempfile.TemporaryDirectory(dir=root.parent) as temporary:
            key = RunKey("many", label, "insert", 1)
            model = make_run(Path(temporary), key, seconds=10, seed=place, speed=1 + 0.03 * place)
            record = json.loads((model / "run.json").read_text()) | {"variant_order": place}
            run = read_run(model)
            assert isinstance(run, Run)
            tables = {path.stem: run.table(path.stem).values for path in model.glob("*.parquet")}
            files = [path.relative_to(model) for path in model.rglob("*") if path.is_file()]
            shared = [file for file in files if file.suffix != ".parquet" and file.name != sums.NAME]
            known = {str(file): digests.of_file(model / file) for file in shared if file.name != "run.json"}
            for repeat in range(1, runs // OF_REPORT + 1):
                run_id = f"20260101T000000-{place:04x}{repeat:04x}"
                folder = root / "many" / label / "insert" / f"{repeat}-{run_id}"
                link(model, shared, folder)
                own_files = {
                    f"{name}.parquet": to_bytes(name, of_run(name, run_id, rows))
                    for name, rows in tables.items()
                }
                digests = known | {name: digests.of(data) for name, data in own_files.items()}
                faster = shaken.gauss(1, 0.02)
                steps = [step | {"rate": (step["rate"] or 0) * faster} for step in record["steps"]]
                changed = record | {"run_id": run_id, "repeat": repeat, "steps": steps}
                own_files |= {sums.NAME: sums.text(digests), "run.json": json.dumps(changed).encode()}
                for name, data in own_files.items():
                    (folder / name).write_bytes(data)


def link(model: Path, files: Sequence[Path], folder: Path) -> None:
    """The same files under another name, all but the record."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        if file.name != "run.json":
            os.link(model / file, folder / file)


if __name__ == "__main__":
    sys.exit(main())

"""Verdicts on single queries: planted cases with a known right word, and TPC-DS, 13 against 17.

    .venv/bin/python benchmarks/queries/run.py --results DIR --hours 3   measures what is missing; the table
    .venv/bin/python benchmarks/queries/run.py --results DIR --hours 0   only the table of what is there

Every case of cases.toml is one `pgstrata compare-queries` on each major that the file names; what it answered
is kept as DIR/NAME.json, with the load of the machine meanwhile, and never measured again. No case begins
after `--hours`. TPC-DS (scale 0.1, all 99 queries, at most 20 minutes) comes last. A word is right where it
is that of the file, wrong where it is another proven one; unclear is neither.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgstrata.files import disk

HERE = Path(__file__).resolve().parent
MOST_SECONDS = 60
TPCDS = ("pg:13", "pg:17")
TPCDS_SECONDS = 1200


@dataclass(frozen=True)
class Case:
    """One comparison. base, other: settings on top of `default`."""

    name: str
    word: str
    setup: str
    query: str
    servers: tuple[str, str]
    base: Sequence[str] = ()
    other: Sequence[str] = ()

    def command(self, folder: Path, other_load: str) -> list[str]:
        """What is measured, in a folder of its own."""
        (folder / "query.sql").write_text(self.query)
        command = ["pgstrata", "compare-queries", str(folder / "query.sql")]
        for server in dict.fromkeys(self.servers):
            command += ["--server", server]
        if len(set(self.servers)) == 1:
            command += ["--config", "+".join(["default", *self.base])]
            command += ["--config", "+".join(["default", "bench.side=b", *self.other])]
        command += ["--setup", str(HERE / "setup" / f"{self.setup}.sql"), "--max-seconds", str(MOST_SECONDS)]
        command += ["--results", str(folder / "results"), "--format", "json", "--no-report"]
        return [*command, "--other-load", other_load] if other_load else command


def cases() -> Iterator[Case]:
    """The cases of cases.toml, those on several majors once for each."""
    read = tomllib.loads((HERE / "cases.toml").read_text())
    for row in read["case"]:
        about = {key: row[key] for key in ("word", "setup", "query")}
        about |= {key: row[key] for key in ("base", "other") if key in row}
        if "between" in row:
            yield Case(name=row["name"], servers=tuple(row["between"]), **about)
            continue
        for server in read["majors"]:
            name = f"{row['name']}-{server.partition(':')[2]}"
            yield Case(name=name, servers=(server, server), **about)


def measure(name: str, command: Sequence[str], results: Path) -> dict[str, Any]:
    """Runs a command and keeps what it answered. Raises SystemExit where it answers nothing."""
    begun, load = time.time(), os.getloadavg()[0]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{name}: {done.stderr.strip()[-2000:]}") from None
    record = {
        "name": name,
        "command": list(command),
        "date": time.strftime("%Y-%m-%d", time.gmtime(begun)),
        "seconds": round(time.time() - begun, 1),
        "load_before_and_after": [round(load, 2), round(os.getloadavg()[0], 2)],
        "exit_code": done.returncode,
        "failed": answer["failed"],
        "comparisons": answer["comparisons"],
    }
    disk.write(results / f"{name}.json", json.dumps(record, indent=1).encode())
    return record


def steps_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The verdicts on queries in what a command answered."""
    return [step for comparison in record["comparisons"] for step in comparison["steps"]]


def table(results: Path) -> Iterator[str]:
    """What is measured, as Markdown."""
    yield "| case | right word | word | relative | 95 % interval | pairs | load before, after |"
    yield "|---|---|---|---|---|---|---|"
    counts: Counter[str] = Counter()
    for case in cases():
        path = results / f"{case.name}.json"
        if not path.exists():
            counts["not measured"] += 1
            continue
        record = json.loads(path.read_text())
        (step,) = steps_of(record) or [{"word": "unclear", "n": 0}]
        word = step["word"]
        counts["right" if word == case.word else "unclear" if word == "unclear" else "wrong"] += 1
        numbers = [step.get(key) for key in ("ratio", "low", "high")]
        ratio, low, high = ("–" if number is None else f"{number:.3g}" for number in numbers)
        load = ", ".join(map(str, record["load_before_and_after"]))
        yield f"| {case.name} | {case.word} | {word} | {ratio} | {low} … {high} | {step['n']} | {load} |"
    yield ""
    yield ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) + "."
    path = results / "tpcds.json"
    if path.exists():
        record = json.loads(path.read_text())
        words = Counter(step["word"] for step in steps_of(record))
        yield ""
        yield f"TPC-DS, {' against '.join(TPCDS)}, {record['seconds']:.0f} s in all: " + ", ".join(
            f"{count} {word}" for word, count in sorted(words.items())
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--other-load", default="", help="as of pgstrata")
    parser.add_argument("--only", default="", help="cases whose names begin with this")
    parser.add_argument("--tpcds-seconds", type=int, default=TPCDS_SECONDS)
    chosen = parser.parse_args()
    chosen.results.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 3600 * chosen.hours
    for case in cases():
        if (chosen.results / f"{case.name}.json").exists() or not case.name.startswith(chosen.only):
            continue
        if time.monotonic() >= end:
            break
        folder = chosen.results / case.name
        folder.mkdir(exist_ok=True)
        record = measure(case.name, case.command(folder, chosen.other_load), chosen.results)
        words = ", ".join(step["word"] for step in steps_of(record))
        print(f"{case.name}: {words} (right: {case.word})", file=sys.stderr, flush=True)
    if time.monotonic() < end and not chosen.only and not (chosen.results / "tpcds.json").exists():
        command = [
            "pgstrata",
            "run",
            *TPCDS,
            "--workload",
            "tpcds",
            "--set",
            "scale=0.1",
            "--until",
            "verdict",
        ]
        command += ["--max-seconds", str(chosen.tpcds_seconds), "--results", str(chosen.results / "tpcds")]
        command += ["--other-load", chosen.other_load] if chosen.other_load else []
        measure("tpcds", [*command, "--format", "json"], chosen.results)
    print("\n".join(table(chosen.results)))


if __name__ == "__main__":
    main()

"""Verdicts on single queries: planted cases with a known right answer, and TPC-DS, 13 against 17.

    .venv/bin/python benchmarks/queries/run.py --results DIR --hours 3   measures what is missing; the table
    .venv/bin/python benchmarks/queries/run.py --results DIR --hours 0   only the table of what is there
    .venv/bin/python benchmarks/queries/run.py --results DIR --differing   the cases whose sides are not equal

Every case of cases.toml is one `pgstrata compare-queries` on each major that the file names; what it answered
is kept as DIR/NAME.json, with the load of the machine meanwhile, and never measured again. No case begins
after `--hours`. TPC-DS (scale 0.1, all 99 queries, at most 20 minutes) comes last. A word is right where it
is that of the file, wrong where it is another proven one; unclear is neither. A cause is right where it is
that of the file, at least in part, and unclear where it is not known. A remedy is right where one is proven
for a case that has one, or none for a case that has none; unclear where a case has one and none is proven.
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
from typing import Any, Literal, get_args

from pgstrata.files import disk

HERE = Path(__file__).resolve().parent
MOST_SECONDS = 60
TPCDS = ("pg:13", "pg:17")
TPCDS_SECONDS = 1200

Cause = Literal["planner", "executor", "none"]
Answer = Literal["right", "wrong", "unclear"]

PLANNER = frozenset(("planner", "partly planner", "schema", "planning"))
EXECUTOR = frozenset(("executor", "partly executor"))
"""Causes as a comparison calls them."""


@dataclass(frozen=True)
class Case:
    """One comparison. base, other: settings on top of `default`; remedy: whether there is one."""

    name: str
    word: str
    cause: Cause
    setup: str
    query: str
    servers: tuple[str, str]
    base: Sequence[str] = ()
    other: Sequence[str] = ()
    remedy: bool = False

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
        about = {key: row[key] for key in ("word", "cause", "setup", "query")}
        about |= {key: row[key] for key in ("base", "other", "remedy") if key in row}
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


def judged(case: Case, step: dict[str, Any]) -> dict[str, tuple[str, Answer]]:
    """Returns word, cause and remedy of what a command answered on a case, each with how right it is."""
    word = step["word"]
    cause = step.get("cause") or {"word": "none", "remedies": []}
    kinds = [remedy["kind"] for remedy in cause["remedies"] if remedy["word"] == "faster"]
    rights = {"planner": PLANNER, "executor": EXECUTOR, "none": {"none"}}[case.cause]
    return {
        "word": (word, _answer(word == case.word, word == "unclear")),
        "cause": (cause["word"], _answer(cause["word"] in rights, cause["word"] in ("unknown", "none"))),
        "remedy": (
            kinds[0] if kinds else "none",
            _answer(case.remedy == bool(kinds) and word in (case.word, "unclear"), not kinds),
        ),
    }


def _answer(is_right: bool, is_unclear: bool) -> Answer:
    return "right" if is_right else "unclear" if is_unclear else "wrong"


def table(results: Path) -> Iterator[str]:
    """What is measured, as Markdown."""
    yield (
        "| case | right word | word | relative | 95 % interval | pairs | right cause | cause | has a remedy "
        "| remedy | load before, after |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    counts: Counter[tuple[str, str]] = Counter()
    with_remedy: Counter[Answer] = Counter()
    missing = 0
    for case in cases():
        path = results / f"{case.name}.json"
        if not path.exists():
            missing += 1
            continue
        record = json.loads(path.read_text())
        (step,) = steps_of(record) or [{"word": "unclear", "n": 0}]
        answers = judged(case, step)
        counts.update((about, answer) for about, (_, answer) in answers.items())
        with_remedy[answers["remedy"][1]] += case.remedy
        word, cause, remedy = (
            text if answer != "wrong" else f"**{text}**" for text, answer in answers.values()
        )
        numbers = [step.get(key) for key in ("ratio", "low", "high")]
        ratio, low, high = ("–" if number is None else f"{number:.3g}" for number in numbers)
        load = ", ".join(map(str, record["load_before_and_after"]))
        yield (
            f"| {case.name} | {case.word} | {word} | {ratio} | {low} … {high} | {step['n']} "
            f"| {case.cause} | {cause} | {'yes' if case.remedy else 'no'} | {remedy} | {load} |"
        )
    yield ""
    for about in ("word", "cause", "remedy"):
        yield f"{about}: " + ", ".join(f"{counts[about, answer]} {answer}" for answer in get_args(Answer))
    yield f"remedy, of those that have one: {with_remedy['right']} of {with_remedy.total()}"
    yield f"{missing} not measured."
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
    parser.add_argument("--differing", action="store_true", help="only cases whose sides are not equal")
    parser.add_argument("--tpcds-seconds", type=int, default=TPCDS_SECONDS)
    chosen = parser.parse_args()
    chosen.results.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 3600 * chosen.hours
    for case in cases():
        if (chosen.results / f"{case.name}.json").exists() or not case.name.startswith(chosen.only):
            continue
        if chosen.differing and case.word == "same":
            continue
        if time.monotonic() >= end:
            break
        folder = chosen.results / case.name
        folder.mkdir(exist_ok=True)
        record = measure(case.name, case.command(folder, chosen.other_load), chosen.results)
        for step in steps_of(record):
            answers = (f"{about} {text} ({answer})" for about, (text, answer) in judged(case, step).items())
            print(f"{case.name}: {', '.join(answers)}", file=sys.stderr, flush=True)
    is_part = chosen.only or chosen.differing
    if time.monotonic() < end and not is_part and not (chosen.results / "tpcds.json").exists():
        command = [
            "pgstrata",
            "run",
            *TPCDS,
            "--workload",
            "tpcds",
            "--scale",
            "small",
            "--set",
            "streams=0",
            "--set",
            "judge_loads=false",
            "--why-seconds",
            "0",
            "--until",
            "verdict",
        ]
        command += ["--max-seconds", str(chosen.tpcds_seconds), "--results", str(chosen.results / "tpcds")]
        command += ["--other-load", chosen.other_load] if chosen.other_load else []
        measure("tpcds", [*command, "--format", "json"], chosen.results)
    print("\n".join(table(chosen.results)))


if __name__ == "__main__":
    main()

"""Planted differences between two major versions, each with the line that an upgrade has to begin with.

    .venv/bin/python benchmarks/upgrade/run.py --results DIR --hours 2   measures what is missing; the table
    .venv/bin/python benchmarks/upgrade/run.py --results DIR --hours 0   only the table of what is there

Every case of cases.toml is one `pgstrata upgrade`. Its log is made by an application on the old version: a
shop's statements, and those of the case between them. What the upgrade said is kept as DIR/NAME.json with the
load of the machine meanwhile, and never measured again. No case begins after `--hours`. A difference is seen
where its words stand in what the terminal shows, and first where nothing but what every upgrade has stands
above them; of a case without a difference nothing may fail, answer otherwise or be slower.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from pgstrata.files import disk
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.acquire import acquire

HERE = Path(__file__).resolve().parent
TURNS = 30
LOGGED = {
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql",
    "log_destination": "csvlog",
    "log_min_duration_statement": "0",
    "log_connections": "on",
    "log_disconnections": "on",
}
ROUTINE = ("after the upgrade: 1", "not known", "faster", "the same", "to look at")
"""How entries begin that every upgrade may have."""
BAD = ("fails", "answers otherwise", "before the upgrade", "slower")
"""How entries begin that equal servers must not have."""


@dataclass(frozen=True)
class Case:
    """One upgrade. words: a regular expression of the entry that has to be first; empty where nothing is
    planted. stops: the answer is `do not go yet`. where: `entry`, or `look` where a line to look at is right.
    sessions: at the same time, where it is more than one with keys of sequences, upserts and retries.
    """

    name: str
    kind: str
    servers: tuple[str, str]
    words: str = ""
    stops: bool = False
    where: str = "entry"
    schema: str = ""
    statements: Sequence[str] = ()
    after: str = ""
    config: str = ""
    rounds: int = 2
    sessions: int = 1

    def command(self, folder: Path) -> list[str]:
        """What is measured, in a folder of its own that has the log."""
        (folder / "schema.sql").write_text(shop() + self.schema)
        old, new = self.servers
        if old == new:
            old = f"path:{acquire(f'pg:{old}').bin_dir}=old"
        command = ["pgstrata", "upgrade", "--from", old, "--to", new]
        command += ["--dump", str(folder / "schema.sql"), "--log", str(folder / "postgresql.csv")]
        if self.after:
            (folder / "after.sql").write_text(self.after)
            command += ["--after-load", f"{self.servers[1]}={folder / 'after.sql'}"]
        if self.config:
            (folder / "own.conf").write_text(self.config)
            command += ["--config", str(folder / "own.conf")]
        command += ["--rounds", str(self.rounds), "--speed", "0", "--minutes", "1", "--other-load", "100%"]
        return [*command, "--results", str(folder / "results")]


def shop() -> str:
    """The schema and rows that every case has."""
    return (HERE / "shop.sql").read_text()


def cases() -> Iterator[Case]:
    """The cases of cases.toml."""
    for row in tomllib.loads((HERE / "cases.toml").read_text())["case"]:
        times = row.pop("times", 1)
        case = Case(**{**row, "servers": tuple(row["servers"])})
        for number in range(1, times + 1):
            yield replace(case, name=f"{case.name}-{number}") if times > 1 else case


def make_log(case: Case, to: Path) -> None:
    """Writes the log of the application on the old version."""
    server = acquire(f"pg:{case.servers[0]}")
    with tempfile.TemporaryDirectory(prefix="pgs", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        with Cluster(server, resolve([], server.version_num, 1 << 30), Path(folder) / "c") as cluster:
            cluster.create()
            cluster.start()
            with cluster.connect() as admin:
                admin.execute("CREATE DATABASE shop")
            with cluster.connect("shop") as admin:
                admin.execute((shop() + case.schema).encode())
            cluster.stop()
            cluster.start(settings=LOGGED)
            if case.sessions > 1:
                with ThreadPoolExecutor(case.sessions) as pool:
                    list(pool.map(partial(_busy_session, cluster), range(case.sessions)))
            else:
                with cluster.connect("shop") as connection:
                    _work(connection, case.statements)
            cluster.stop()
            shutil.copyfile(cluster.data_folder.path / "log" / "postgresql.csv", to)


def _work(connection: psycopg.Connection[Any], statements: Sequence[str]) -> None:
    """The shop's own statements, and those of a case between them."""
    dice = random.Random(1)
    for turn in range(TURNS):
        customer = dice.randrange(1, 1000)
        connection.execute("SELECT name, region FROM customer WHERE id = %s", (customer,))
        connection.execute("SELECT id, amount FROM orders WHERE customer = %s ORDER BY id", (customer,))
        with connection.transaction():
            connection.execute(
                "INSERT INTO orders (customer, amount, day, note) VALUES (%s, %s, %s, %s)",
                (customer, dice.randrange(1, 500), turn, f"note {turn}"),
            )
            connection.execute("UPDATE customer SET credit = credit + 1 WHERE id = %s", (customer,))
        connection.execute("SELECT region, count(*) FROM customer GROUP BY region ORDER BY region")
        for text in statements:
            connection.execute(text.replace("{turn}", str(turn + 1)).encode())


def _busy_session(cluster: Cluster, number: int) -> None:
    """A session beside others: keys of sequences, foreign keys, upserts, and transactions done again."""
    dice = random.Random(number)
    with cluster.connect("shop") as connection:
        for turn in range(TURNS):
            customer = dice.randrange(1, 1000)
            connection.execute("SELECT nextval('ticket')")
            with connection.transaction():
                (order,) = connection.execute(
                    "INSERT INTO orders (customer, amount, day) VALUES (%s, %s, %s) RETURNING id",
                    (customer, dice.randrange(1, 500), turn),
                ).fetchone() or (0,)
                connection.execute("INSERT INTO line (orders, number) VALUES (%s, %s)", (order, turn))
            connection.execute(
                "INSERT INTO counter AS c VALUES (%s, 1) ON CONFLICT (name) DO UPDATE SET n = c.n + 1",
                (f"counter {dice.randrange(3)}",),
            )
            for _ in range(20):
                try:
                    with connection.transaction():
                        connection.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                        connection.execute("SELECT sum(credit) FROM customer WHERE id <= 20")
                        connection.execute(
                            "UPDATE customer SET credit = credit + 1 WHERE id = %s", (dice.randrange(1, 20),)
                        )
                except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                    continue
                break
            connection.execute("SELECT id, amount FROM orders WHERE customer = %s ORDER BY id", (customer,))


def measure(case: Case, results: Path) -> dict[str, Any]:
    """Tries the upgrade and keeps what it said. Raises SystemExit where it says nothing."""
    folder = results / case.name
    folder.mkdir(exist_ok=True)
    begun, load = time.time(), os.getloadavg()[0]
    if not (folder / "postgresql.csv").exists():
        make_log(case, folder / "postgresql.csv")
    command = case.command(folder)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3) or not done.stdout:
        raise SystemExit(f"{case.name}: {done.stderr.strip()[-2000:]}")
    record = {
        "name": case.name,
        "command": command,
        "date": time.strftime("%Y-%m-%d", time.gmtime(begun)),
        "seconds": round(time.time() - begun, 1),
        "load_before_and_after": [round(load, 2), round(os.getloadavg()[0], 2)],
        "exit_code": done.returncode,
        "text": done.stdout,
    }
    disk.write(results / f"{case.name}.json", json.dumps(record, indent=1).encode())
    shutil.rmtree(folder / "results", ignore_errors=True)
    return record


def entries(text: str) -> list[str]:
    """What the terminal shows below the answer: each entry with the lines that belong to it."""
    shown: list[str] = []
    for line in text.splitlines()[3:]:
        if not line.startswith("  "):
            break
        if line.startswith("    ") and shown:
            shown[-1] += f"\n{line}"
        else:
            shown.append(line)
    return shown


def outcome(case: Case, record: dict[str, Any]) -> str:
    """`first`, `seen`, `missed`; of a case without a difference `quiet` or `wrong`."""
    shown = entries(record["text"])
    if not case.words:
        has_bad = any(entry.strip().startswith(BAD) for entry in shown)
        return "wrong" if has_bad or record["exit_code"] not in (0, 3) else "quiet"
    places = [place for place, entry in enumerate(shown) if re.search(case.words, entry, re.DOTALL)]
    if not places:
        return "missed"
    if case.stops and "Do not go yet" not in record["text"]:
        return "seen"
    above = shown[: places[0]]
    is_first = not any(not entry.strip().startswith(ROUTINE) for entry in above)
    is_look = shown[places[0]].strip().startswith("to look at")
    return "first" if is_first and (case.where == "look") == is_look else "seen"


def table(results: Path) -> Iterator[str]:
    """What is measured, as Markdown."""
    yield "| case | kind | upgrade | outcome | the answer | exit | seconds | load before, after |"
    yield "|---|---|---|---|---|---|---|---|"
    counts: Counter[str] = Counter()
    for case in cases():
        path = results / f"{case.name}.json"
        if not path.exists():
            counts["not measured"] += 1
            continue
        record = json.loads(path.read_text())
        word = outcome(case, record)
        counts[word] += 1
        answer = record["text"].splitlines()[2].partition(": ")[2].partition(":")[0].lower()
        load = ", ".join(map(str, record["load_before_and_after"]))
        yield (
            f"| {case.name} | {case.kind} | {' → '.join(case.servers)} | {word} | {answer} | "
            f"{record['exit_code']} | {record['seconds']:.0f} | {load} |"
        )
    yield ""
    yield ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--only", default="", help="cases whose names begin with this")
    chosen = parser.parse_args()
    results = chosen.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 3600 * chosen.hours
    for case in cases():
        if (results / f"{case.name}.json").exists() or not case.name.startswith(chosen.only):
            continue
        if time.monotonic() >= end:
            break
        record = measure(case, results)
        word = outcome(case, record)
        print(f"{case.name}: {word}, {record['seconds']:.0f} s", file=sys.stderr, flush=True)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()

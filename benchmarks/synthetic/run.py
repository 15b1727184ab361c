"""How much of an application a synthetic file of its statistics covers.

    .venv/bin/python benchmarks/synthetic/run.py pagila SCHEMA.sql [DATA.sql] --results DIR

An application (pagila.toml, chinook.toml, rails.toml beside this file) works on PostgreSQL 17 with the given
public schema; `pgstrata capture --from-statistics` makes the file, which is replayed on the data of the
beginning. Covered is a statement that is in the file and does not fail there. Shares are of all that
pg_stat_statements has counted of the application. Kept with the load of the machine as DIR/NAME.json.
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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Done, Failure
from pgstrata.files import disk
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.initdb import USER
from pgstrata.server.config.conf_file import ConfigFile
from pgstrata.server.config.resolve import resolve
from pgstrata.server.features import NEWEST
from pgstrata.server.find.acquire import acquire
from pgstrata.traffic.shapes import shape
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step
from pgstrata.workload.custom.sql import SqlStatement, items

LOGGED = {
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql",
    "log_destination": "csvlog",
    "log_min_duration_statement": "0",
    "log_connections": "on",
    "log_disconnections": "on",
}
HERE = Path(__file__).resolve().parent
CONFIG = "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.max = 10000\n"
LISTED = 5
"""Values of a list."""


@dataclass(frozen=True)
class Counted:
    """What pg_stat_statements has of a statement."""

    text: str
    calls: int
    seconds: float


@dataclass(frozen=True)
class Chosen:
    """What is measured. description: of the application; files: of the public schema."""

    name: str
    files: Sequence[Path]
    results: Path
    seconds: float
    sessions: int
    calls: int
    description: Mapping[str, Any]


class Application:
    """Statements with the values of a database."""

    def __init__(self, description: Mapping[str, Any], connection: psycopg.Connection[Any]) -> None:
        self._statements = description["statement"]
        self._weights = [statement["weight"] for statement in self._statements]
        self._values = {
            name: [row[0] for row in connection.execute(query.encode()).fetchall()]
            for name, query in description["values"].items()
        }
        self.errors: Counter[str] = Counter()

    def work(self, address: str, seconds: float, seed: int) -> None:
        """One session; what fails is counted, as an application would go on."""
        dice = random.Random(seed)
        end = time.monotonic() + seconds
        with psycopg.connect(address, autocommit=True) as connection:
            while time.monotonic() < end:
                (statement,) = dice.choices(self._statements, self._weights)
                try:
                    if "texts" in statement:
                        with connection.transaction():
                            for text in statement["texts"]:
                                self._execute(
                                    connection, text, dice, is_prepared=statement.get("prepared", False)
                                )
                    else:
                        self._execute(
                            connection, statement["text"], dice, is_prepared=statement.get("prepared", False)
                        )
                except psycopg.Error as error:
                    self.errors[f"{type(error).__name__}: {str(error).splitlines()[0]}"] += 1

    def _execute(
        self, connection: psycopg.Connection[Any], text: str, dice: random.Random, *, is_prepared: bool
    ) -> None:
        pieces = list(Formatter().parse(text))
        if not is_prepared:
            drawn = {name: self._drawn(name, dice) for _, name, _, _ in pieces if name}
            connection.execute(text.format_map(drawn).encode())
            return
        plain = "".join(literal.replace("%", "%%") + ("%s" if name else "") for literal, name, _, _ in pieces)
        values = [self._drawn(name, dice) for _, name, _, _ in pieces if name]
        connection.execute(plain.encode(), values, prepare=True)

    def _drawn(self, name: str, dice: random.Random) -> Any:
        if name.endswith("_list"):
            return [dice.choice(self._values[name.removesuffix("_list")]) for _ in range(LISTED)]
        return dice.choice(self._values[name])


def load(connection: psycopg.Connection[Any], file: Path) -> list[str]:
    """Executes a dump; returns what failed (owners that are not there, and the like)."""
    failed = []
    data = file.read_bytes()
    for item in items(file):
        try:
            if isinstance(item, SqlStatement):
                connection.execute(item.text.encode())
            else:
                with connection.cursor().copy(item.text.encode()) as copy:
                    copy.write(data[item.begin : item.end])
        except psycopg.Error as error:
            failed.append(f"line {item.line}: {str(error).splitlines()[0]}")
    return failed


def counted(connection: psycopg.Connection[Any]) -> list[Counted]:
    """The statements of the application, its utility statements among them."""
    rows = connection.execute(
        "SELECT query, sum(calls)::bigint, sum(total_exec_time + total_plan_time) / 1000 "
        "FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
        "WHERE d.datname = current_database() AND toplevel AND query !~ 'pg_stat_statements|pgstrata' "
        "GROUP BY 1"
    ).fetchall()
    return [Counted(*row) for row in rows]


def replayed(cluster: Cluster, file: Path) -> dict[str, Any]:
    """What a replay of a file on the data of the beginning says of itself."""
    workload = catalog.find("replay")
    options = workload.Options.model_validate({"file": str(file), "speed": 0})
    step = workload.phases(options, NEWEST)[-1]
    assert isinstance(step, Step)
    done = None
    with Driver(driver_spec(step, cluster.connection("app"), 1, "auto")) as driver:
        driver.ready()
        driver.start()
        for event in driver.events():
            assert not isinstance(event, Failure), event
            done = event if isinstance(event, Done) else done
        driver.close()
    assert done is not None
    (role,) = done.roles
    assert role.replay is not None
    return {
        "failures": [
            {
                "statement": failure.statement,
                "now": failure.now,
                "count": failure.count,
                "message": failure.message,
            }
            for failure in role.replay.failures
        ],
        "failing": {
            str(statement.number): statement.errors / statement.count
            for statement in role.statements_by_name
            if statement.errors
        },
    }


@contextmanager
def serving(version: str) -> Iterator[Cluster]:
    """A server with pg_stat_statements; it and its folder are gone afterwards."""
    server = acquire(f"pg:{version}")
    with tempfile.TemporaryDirectory(prefix="pgs", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        config = resolve([ConfigFile("app", CONFIG, None)], server.version_num, 1 << 30)
        with Cluster(server, config, Path(folder) / "c") as cluster:
            cluster.create()
            cluster.start()
            yield cluster


def begun(cluster: Cluster, chosen: Chosen) -> tuple[Application, list[str]]:
    """Makes the database `app`; returns the application, and what of the files was not loaded."""
    with cluster.connect() as admin:
        admin.execute("CREATE DATABASE app")
    with cluster.connect("app") as connection:
        not_loaded = [failure for file in chosen.files for failure in load(connection, file)]
        connection.execute("RESET ALL")
        connection.execute(chosen.description["setup"].encode())
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
        connection.execute("VACUUM ANALYZE")
        return Application(chosen.description, connection), not_loaded


def work(cluster: Cluster, application: Application, chosen: Chosen) -> str:
    """The application works in its sessions; returns how to connect to its database."""
    address = make_conninfo(host=str(cluster.socket_dir), port=cluster.port, user=USER, dbname="app")
    with ThreadPoolExecutor(chosen.sessions) as pool:
        sessions = range(chosen.sessions)
        for session in [pool.submit(application.work, address, chosen.seconds, n) for n in sessions]:
            session.result()
    return address


def measure(chosen: Chosen) -> dict[str, Any]:
    """The application works, and its synthetic file is replayed."""
    capture = chosen.results / f"{chosen.name}.traffic"
    capture.unlink(missing_ok=True)
    with serving("17") as cluster:
        application, not_loaded = begun(cluster, chosen)
        with cluster.connect() as admin:
            admin.execute("CREATE DATABASE beginning TEMPLATE app")
        load_before = os.getloadavg()[0]
        with cluster.connect("app") as connection:
            connection.execute("SELECT pg_stat_statements_reset()")
            address = work(cluster, application, chosen)
            statements = counted(connection)
        command = ["pgstrata", "capture", "--from-statistics", address, "-o", str(capture)]
        command += ["--calls", str(chosen.calls), "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        with cluster.connect() as admin:
            admin.execute("DROP DATABASE app WITH (FORCE)")
            admin.execute("ALTER DATABASE beginning RENAME TO app")
        outcome = replayed(cluster, capture)
    header = json.loads(done.stdout)
    return {
        "name": chosen.name,
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "load_before_and_after": [round(load_before, 2), round(os.getloadavg()[0], 2)],
        "seconds": chosen.seconds,
        "sessions": chosen.sessions,
        "not_loaded": not_loaded,
        "errors_of_the_application": dict(application.errors),
        "counted": [
            vars(statement) for statement in sorted(statements, key=lambda statement: -statement.seconds)
        ],
        "left_out": header["left_out"],
        "shapes": header["shapes"],
        **outcome,
    }


def make_log(chosen: Chosen, version: str) -> None:
    """Writes the dump of the beginning and the log of the application, for `pgstrata upgrade`."""
    with serving(version) as cluster:
        application, not_loaded = begun(cluster, chosen)
        dump = str(chosen.results / f"{chosen.name}-{version}.dump")
        address = make_conninfo(host=str(cluster.socket_dir), port=cluster.port, user=USER, dbname="app")
        subprocess.run(["pg_dump", "-Fc", "-f", dump, "-d", address], check=True)
        cluster.stop()
        cluster.start(settings=LOGGED)
        work(cluster, application, chosen)
        cluster.stop()
        log = cluster.data_folder.path / "log" / "postgresql.csv"
        shutil.copyfile(log, chosen.results / f"{chosen.name}-{version}.csv")
    print(f"not loaded: {not_loaded}, errors: {dict(application.errors)}", file=sys.stderr)


def summary(record: Mapping[str, Any]) -> dict[str, Any]:
    """Shares of calls and of time by what came of the statements."""
    in_file = {
        logged_shape["text"]: logged_shape for logged_shape in record["shapes"] if logged_shape["calls"]
    }
    failing = {record["shapes"][int(number)]["text"]: share for number, share in record["failing"].items()}
    parts: dict[str, Counter[str]] = {
        part: Counter() for part in ("covered", "guessed", "failing", "left out")
    }
    whole: Counter[str] = Counter()
    control: Counter[str] = Counter()
    for statement in record["counted"]:
        text = shape(statement["text"]).text
        amounts = Counter({"calls": statement["calls"], "seconds": statement["seconds"]})
        if re.match(r"(BEGIN|COMMIT|ROLLBACK|START TRANSACTION|SAVEPOINT|RELEASE)\b", text, re.IGNORECASE):
            control.update(amounts)
            continue
        whole.update(amounts)
        known = in_file.get(text)
        if known is None:
            parts["left out"].update(amounts)
            continue
        failed = failing.get(text, 0.0)
        for part, share in (("failing", failed), ("covered", 1 - failed)):
            for unit, amount in amounts.items():
                parts[part][unit] += amount * share
        if any("guessed" in source or "of the type of" in source for source in known["parameters"]):
            parts["guessed"].update(amounts)
    return {
        "control": {unit: control[unit] / (whole[unit] + control[unit]) for unit in ("calls", "seconds")},
        **{
            part: {unit: amounts[unit] / whole[unit] for unit in ("calls", "seconds")}
            for part, amounts in parts.items()
        },
        "statements": len(record["counted"]),
    }


def table(results: Path) -> Iterator[str]:
    """What is measured, as Markdown."""
    yield (
        "| application | statements | covered, of the calls | of the time | guessed in part, of the time | "
        "fails in the replay, of the time | left out, of the time | BEGIN, COMMIT, of all time | "
        "load before, after |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---|"
    for path in sorted(results.glob("*.json")):
        record = json.loads(path.read_text())
        figures = summary(record)

        def percent(part: str, unit: str = "seconds", figures: Mapping[str, Any] = figures) -> str:
            return f"{100 * figures[part][unit]:.1f} %"

        cells = [
            path.stem,
            str(figures["statements"]),
            percent("covered", "calls"),
            *(percent(part) for part in ("covered", "guessed", "failing", "left out", "control")),
            ", ".join(map(str, record["load_before_and_after"])),
        ]
        yield "| " + " | ".join(cells) + " |"
        for left_out in record["left_out"]:
            seen = (
                f"{left_out['seconds']:.3f} s, {left_out['count']} calls: {left_out['why']}: "
                f"{(left_out['example'] or '')[:100]}"
            )
            print(f"  {path.stem}: left out {seen}", file=sys.stderr)
        for failure in record["failures"]:
            seen = f"{failure['count']} calls: {failure['message']}: {failure['statement'][:100]}"
            print(f"  {path.stem}: fails {seen}", file=sys.stderr)
        for what in ("not_loaded", "errors_of_the_application"):
            print(f"  {path.stem}, {what}: {record[what]}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", default="", help="none: only the table of what is there")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--log", metavar="VERSION", help="write dump and log of this version instead")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--calls", type=int, default=20_000)
    arguments = parser.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    if arguments.name:
        version = vars(arguments).pop("log")
        text = (HERE / f"{arguments.name}.toml").read_text()
        chosen = Chosen(**vars(arguments), description=tomllib.loads(text))
        if version:
            make_log(chosen, version)
            return
        record = measure(chosen)
        disk.write(chosen.results / f"{chosen.name}.json", json.dumps(record, indent=1).encode())
    print("\n".join(table(arguments.results)))


if __name__ == "__main__":
    main()

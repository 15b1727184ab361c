"""`pgstrata count --fleet` on a real fleet of this machine counts what `pgstrata count` counts."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pgstrata.server.find.model import Server
from support.program import Program, wait_until_ended

pytestmark = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")

FILE = """
data_dir = "data"
[[variants]]
server = "pg:17"
label = "quiet"
[[variants]]
server = "pg:17"
config = ["default", "talk.conf"]
label = "talk"
[[workloads]]
name = "custom"
options = { scripts = ["one.sql"], reads_only = true }
"""

TABLES = {
    table: f"select variant, step, role, count(*) n from {table} group by all order by all"
    for table in ("instructions", "files", "calls")
}


def counted(place: Path, results: str) -> dict[str, dict[str, Any]]:
    runs = [json.loads(path.read_text()) for path in place.glob(f"{results}/mine/*/*.counted/1-*/run.json")]
    return {run["variant"]: run for run in runs}


@pytest.mark.timeout(900)
def test_the_same_is_counted_as_without_a_fleet(pgstrata: Program, place: Path, pg17: Server) -> None:
    (place / "data").mkdir()
    (place / "talk.conf").write_text("log_min_duration_statement = 0\n")
    (place / "one.sql").write_text("select 1\n")
    (place / "mine.toml").write_text(FILE)
    count = (
        "count",
        "mine.toml",
        "--starts",
        "2",
        "--most-starts",
        "2",
        "--engine",
        "valgrind",
        "--format",
        "json",
    )
    here = pgstrata(*count, "--results", "here", "--no-report")
    assert here.returncode == 0, here.stderr
    away = pgstrata(*count, "--results", "away", "--fleet", "local:2")
    assert away.returncode == 0, away.stderr
    assert "talk, custom.counted is home" in away.stderr, away.stderr
    wait_until_ended(place)

    verdicts = [json.loads(done.stdout)[0]["steps"] for done in (here, away)]
    assert [v["word"] for v in verdicts[0]] == [v["word"] for v in verdicts[1]] == ["more"]
    for ours, theirs in zip(*verdicts, strict=True):
        for side in ("base", "other"):
            assert abs(theirs[side] / ours[side] - 1) < ours["margin"]
    ours, theirs = counted(place, "here"), counted(place, "away")
    assert ours.keys() == theirs.keys() == {"quiet", "talk"}
    machines = {name: run["machine"]["name"] for name, run in theirs.items()}
    assert set(machines.values()) == {"local-1", "local-2"}
    for name, run in theirs.items():
        assert run["variant_order"] == ours[name]["variant_order"] and run["base"] == "quiet"
        for key in ("engine", "tool", "libc", "settings", "symbols"):
            assert run["counted"][key] == ours[name]["counted"][key]
        (step,), (same,) = run["counted"]["steps"], ours[name]["counted"]["steps"]
        operations = [{role: r["operations"] for role, r in s["roles"].items()} for s in (step, same)]
        assert operations[0] == operations[1]
    for query in TABLES.values():
        rows = []
        for name in ("here", "away"):
            asked = pgstrata("query", query, "--results", name, "--format", "csv")
            assert asked.returncode == 0, asked.stderr
            rows.append([row[:-1] for row in csv.reader(asked.stdout.splitlines())])
        assert len(rows[0]) > 2 and rows[0] == rows[1]

    again = pgstrata(*count, "--results", "away", "--fleet", "local:1", "--no-report")
    assert again.returncode == 0 and "begins" not in again.stderr
    assert again.stdout == away.stdout


@pytest.mark.program
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fleet", "local:0"), "write local:2"),
        (("--fleet", "nowhere:1"), "not the address of a scheduler"),
        (("--fleet", "tcp://127.0.0.1:1"), "no scheduler answers"),
        (("--fleet", "local:1", "--step", "nothing"), "has no step nothing"),
        (("--fleet", "local:1", "--server", "dsn:host=nowhere"), ""),
    ],
)
def test_what_is_wrong_is_one_sentence(
    pgstrata: Program, place: Path, options: tuple[str, ...], words: str
) -> None:
    done = pgstrata("count", "--server", "pg:17", "--name", "x", *options)
    assert done.returncode != 0
    assert done.stderr.count("error: ") == 1 and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr

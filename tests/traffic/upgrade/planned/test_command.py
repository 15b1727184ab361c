"""`pgstrata upgrade --statistics-only` as a user gives it, on a database of PostgreSQL 13."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgstrata.traffic.captured import PREPARED, SIMPLE, Header, Statement, Writer
from support.planner import CHANGED, FAILS, NOT_FROM_15_ON, OF_NOT_NULL, UTILITY, Original
from support.program import Program, environment, living_in


def words(text: str) -> str:
    """The beginning of a statement without its values, in one line."""
    return " ".join(text.split())[:30]


def test_plans_of_a_log(original13: Original, pgstrata: Program, place: Path) -> None:
    done = pgstrata(
        *("upgrade", "--from", "13", "--to", "17", "--dump", original13.schema, "--log", original13.log),
        *("--statistics-only", original13.statistics, "--results", "out", "--format", "json"),
    )
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    (new,) = answer["to"]
    assert answer["answer"] == {"17": "do not go yet"}
    assert len(new["refused"]) == 1 and "trailing junk" in new["refused"][0]["why"]
    changed = {words(statement["statement"]): statement for statement in new["changed"]}
    planted = changed[words(CHANGED)]
    assert any("Run Condition" in theirs for _, theirs in planted["differences"])
    assert planted["base_cost"] > 0 and planted["cost"] > 0 and 0 < planted["share"] < 1
    assert words(OF_NOT_NULL) in {words(statement["statement"]) for statement in new["same"]}
    shares = [statement["share"] for statement in new["changed"]]
    assert shares == sorted(shares, reverse=True)
    whys = {words(statement["statement"]): statement["why"] for statement in new["not_planned"]}
    assert "neither a query" in whys[words(UTILITY)] and "went well" in whys[words(FAILS)]
    planned = len(new["changed"]) + len(new["same"])
    assert planned >= 20 and len(new["changed"]) < planned / 2
    assert f"{len(new['changed'])} of {planned} statements" in new["said"]
    assert "--dump DATA.dump" in answer["proof"] and "--statistics-only" not in answer["proof"]
    page = Path(place / answer["page"]).read_text()
    assert "What only data can prove is not said" in page and "Run Condition" in page
    (captured,) = (place / "out").glob("*.traffic")
    for path in (captured, Path(place / answer["page"]).parent):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert not living_in(place)


def test_plans_of_counted_statements(original13: Original, pgstrata: Program) -> None:
    """Without values every statement is planned for any; two new versions have an answer each."""
    done = pgstrata(
        *("upgrade", "--from", "13", "--to", "17,18", "--dump", original13.schema),
        *("--statements", original13.dsn, "--statistics-only", original13.statistics, "--results", "out"),
    )
    assert done.returncode == 3, done.stdout + done.stderr
    for version in ("17", "18"):
        assert f"\n{version}: Cannot tell: " in done.stdout
    assert "another plan" in done.stdout and "Run Condition" in done.stdout
    assert "not restored on 17: app.events.span: a range" in done.stdout
    assert done.stdout.count("3 objects of CREATE STATISTICS") == 3
    assert NOT_FROM_15_ON not in done.stdout


def test_what_has_no_plan_is_said_first(original13: Original, pgstrata: Program) -> None:
    """12 makes generic plans where it is told to, 10 does not: of counted statements it plans those without
    values."""
    done = pgstrata(
        *("upgrade", "--from", "10", "--to", "13", "--dump", original13.schema, "--results", "out"),
        *("--statements", original13.dsn, "--statistics-only", original13.statistics, "--format", "json"),
    )
    assert done.returncode == 3, done.stdout + done.stderr
    (new,) = json.loads(done.stdout)["to"]
    assert f"{len(new['not_planned'])} statements with " in new["said"]
    assert "have no plan to compare" in new["said"]
    assert any("generic plans: since 12" in statement["why"] for statement in new["not_planned"])


def test_ctrl_c_leaves_nothing(original13: Original, place: Path) -> None:
    command = [sys.executable, "-m", "pgstrata", "upgrade", "--from", "13", "--to", "17"]
    command += ["--dump", str(original13.schema), "--log", str(original13.log), "--results", "out"]
    command += ["--statistics-only", str(original13.statistics), "--data-dir", str(place / "data")]
    process = subprocess.Popen(command, cwd=place, env=environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "plans of" in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors
    assert not living_in(place)
    assert [*(place / "data").iterdir()] == []


def test_what_is_no_question(original13: Original, pgstrata: Program, place: Path) -> None:
    common = ("upgrade", "--from", "13", "--to", "17", "--dump", original13.schema, "--log", original13.log)
    for more in (("--checklist",), ("--more", "5"), ("--rounds", "4"), ("--dry-run",)):
        done = pgstrata(*common, "--statistics-only", original13.statistics, *more)
        assert done.returncode == 2 and more[0] in done.stderr and "Traceback" not in done.stderr
    damaged = place / "damaged.sql"
    text = original13.statistics.read_text()
    damaged.write_text(text + "DROP TABLE app.events;\n")
    done = pgstrata(*common, "--statistics-only", damaged)
    line = text.count("\n") + 1
    assert done.returncode == 2 and f"line {line}: DROP TABLE app.events" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_five_thousand_statements(original13: Original, pgstrata: Program, place: Path) -> None:
    """benchmarks/results/plans-without-data.md has what it prints."""
    captured = place / "many.traffic"
    start = 1_700_000_000_000_000
    with Writer(captured) as writer:
        session = writer.begin(start, writer.database("shop"))
        for number in range(5000):
            is_prepared = number % 2 == 1
            text = (
                f"SELECT e.*, {number} AS column_{number} FROM app.events e JOIN parts p ON p.id = e.id "
                f"LEFT JOIN app.events f ON f.zip = e.zip AND f.kind = 'click' "
                f"WHERE e.zip = {'$1' if is_prepared else number % 200} AND p.v < {number % 10} "
                f"ORDER BY e.id LIMIT {number % 50 + 1}"
            )
            protocol, values = (PREPARED, (str(number % 200),)) if is_prepared else (SIMPLE, ())
            at = start + 2000 * number
            shape = writer.shape(text)
            writer.add(session, Statement(at, 1000, protocol, shape, text, values), common=False)
        writer.finish(Header())
    begin = time.monotonic()
    done = pgstrata(
        *("upgrade", "--from", "13", "--to", "17", "--dump", original13.schema, "--log", captured),
        *("--statistics-only", original13.statistics, "--results", "out", "--format", "json"),
    )
    print(f"{time.monotonic() - begin:.0f} s")
    (new,) = json.loads(done.stdout)["to"]
    assert len(new["same"]) + len(new["changed"]) == 5000

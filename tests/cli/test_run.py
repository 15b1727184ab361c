"""Whole campaigns on real servers, tiny: what they leave on disk, what they print, what they refuse."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.program import Program, WriteCampaign
from support.records import on_disk

STEPS = ["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100"]


def records(place: Path) -> list[dict[str, Any]]:
    return [on_disk(run) for run in Results(place / "results").runs()]


def test_two_versions_end_to_end(
    place: Path, pgstrata: Program, campaign: WriteCampaign, pg12: Server, pg17: Server
) -> None:
    file = campaign(pg12, pg17)
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("run 1 of 2", "run 2 of 2", "l.i0", "qp100"):
        assert word in done.stderr
    assert "run 1 of 2" not in done.stdout, "results alone"
    page = Path(done.stdout.rpartition("report: ")[2].strip())
    assert page.is_file()
    assert page.parent.parent == (place / "results").resolve()

    runs = records(place)
    assert [run["variant"] for run in runs] == [pg12.label, pg17.label]
    for run in runs:
        check_run(run)
    assert list((place / "data").iterdir()) == []

    summary = done.stdout.rpartition("report: ")[0].rstrip()
    assert "qp100" in summary
    assert pgstrata("run", file, "--no-report").stdout.rstrip() == summary

    # The same command has nothing to do, and leaves what is there as it is.
    before = sorted(str(p) for p in (place / "results").rglob("run.json"))
    again = pgstrata("run", file)
    assert again.returncode == 0
    assert "2 of 2 runs are there already" in again.stderr
    assert sorted(str(p) for p in (place / "results").rglob("run.json")) == before

    check_reading(pgstrata, runs)
    check_json(pgstrata, file, pg12, pg17)


def check_json(pgstrata: Program, file: Path, pg12: Server, pg17: Server) -> None:
    """JSON alone on standard output: of what is there, and of a plan."""
    done = pgstrata("run", file, "--format", "json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert Path(summary["report"]).is_file() and summary["failed"] == []
    (comparison,) = summary["comparisons"]
    assert (comparison["base"], comparison["other"]) == (pg12.label, pg17.label)
    asked = pgstrata("compare", pg12.label, pg17.label, "--format", "json")
    assert json.loads(asked.stdout) == summary["comparisons"], "one verdict has one record"
    plan = json.loads(pgstrata("run", file, "--dry-run", "--format", "json").stdout)
    assert [run["state"] for run in plan["runs"]] == ["there already"] * 2 and plan["to_do"] == 0


def check_run(run: dict[str, Any]) -> None:
    assert run["status"] == "done"
    assert run["error"] is None
    steps = {step["name"]: step for step in run["steps"]}
    assert list(steps) == STEPS
    assert [step["order"] for step in run["steps"]] == list(range(1, len(STEPS) + 1))
    assert steps["l.i0"]["rows"] == 3000
    assert steps["l.i1"]["rows"] == 500
    assert steps["l.i1"]["roles"]["delete"]["operations"] == 10
    assert steps["l.i2"]["rows"] == 100
    for step in run["steps"]:
        assert step["rate"] > 0
        assert step["server_cpu_seconds"] >= 0
        assert step["driver_cpu_seconds"] > 0
        assert step["wal_bytes"] is not None
        assert step["sizes"]["database_bytes"] > 0
        assert step["metrics"]["maxop"] > 0
        assert step["notes"] == [] or "disk" in " ".join(step["notes"])
    assert steps["qr100"]["target_rate"] == 100
    assert steps["qr100"]["sla_met"] is True
    assert set(steps["qr100"]["roles"]) == {"query", "insert", "delete"}
    assert {"initdb", "start", "setup", "settle", "observe", "stop", "store"} <= set(run["timings"])
    assert run["host"]["memory_bytes"] > 0
    assert run["options"]["rows"] == 3000
    assert run["options"]["clients"] == 1


def check_reading(pgstrata: Program, runs: list[dict[str, Any]]) -> None:
    listed = json.loads(pgstrata("runs", "--format", "json").stdout)
    assert [run["run_id"] for run in listed] == [run["run_id"] for run in runs]
    shown = pgstrata("show", runs[0]["run_id"][-8:])
    assert shown.returncode == 0
    for step in STEPS:
        assert step in shown.stdout
    assert json.loads(pgstrata("show", runs[0]["run_id"], "--format", "json").stdout) == runs[0]

    sql = "select variant, step, rate from steps order by variant, step_order"
    answer = list(csv.reader(io.StringIO(pgstrata("query", sql, "--format", "csv").stdout)))
    assert answer[0] == ["variant", "step", "rate"]
    assert [row[1] for row in answer[1:]] == STEPS * 2
    # Seconds add up to the totals of the step.
    sums = """
        select count(*) as n from (
            select step, run_id, sum(operations) as added from series where role = 'query' group by all
        ) join steps using (run_id, step) where added <> operations
    """
    assert json.loads(pgstrata("query", sums, "--format", "json").stdout) == [{"n": 0}]
    backends = "select distinct role from backends where step = 'qp100' order by role"
    roles = [row["role"] for row in json.loads(pgstrata("query", backends, "--format", "json").stdout)]
    assert roles == ["delete", "insert", "query", "server"]


def test_the_spec_of_each_step_is_kept(
    place: Path, pgstrata: Program, campaign: WriteCampaign, pg17: Server
) -> None:
    assert pgstrata("run", campaign(pg17), "--no-report").returncode == 0
    (run,) = Results(place / "results").runs()
    specs = sorted(path.name for path in (run.folder / "spec").iterdir())
    assert specs == [f"{n:02d}-{name}.json" for n, name in enumerate(STEPS, 1)]
    seeds = {json.loads((run.folder / "spec" / name).read_text())["seed"] for name in specs}
    assert len(seeds) == len(specs)


def test_an_adhoc_campaign_with_options_and_configs(place: Path, pgstrata: Program, pg17: Server) -> None:
    (place / "mine.conf").write_text("# mine\nwork_mem = 9MB\nmax_wal_size = 2GB\n")
    arguments = [
        "run",
        "--server",
        pg17.spec,
        "--config",
        "mine.conf",
        "--scale",
        "quick",
        "--data-dir",
        "data",
    ]
    for option in (
        "rows=2000",
        "rows_i1=100",
        "rows_i2=20",
        "seconds=0.5",
        'steps=["0:point"]',
        "settle_base=0",
    ):
        arguments += ["--set", option]
    done = pgstrata(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    assert (run.campaign, run.variant) == ("insert-quick", f"{pg17.label}.mine")
    assert run.settings()["work_mem"] == "9MB"
    assert run.record.config.settings["work_mem"] == "9MB"

    other = pgstrata(*[a.replace("rows=2000", "rows=2100") for a in arguments])
    assert other.returncode == 2
    assert "rows = 2000 instead of 2100" in other.stderr
    fresh = pgstrata(*[a.replace("rows=2000", "rows=2100") for a in arguments], "--fresh", "--no-report")
    assert fresh.returncode == 0, fresh.stdout + fresh.stderr
    (run,) = Results(place / "results").runs()
    assert run.record.options["rows"] == 2100
    assert [p.name for p in run.folder.parent.glob(".*.superseded")]


def test_a_dry_run_touches_nothing(
    place: Path, pgstrata: Program, campaign: WriteCampaign, pg12: Server, pg17: Server
) -> None:
    done = pgstrata("run", campaign(pg12, pg17, more="repeats = 2"), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 runs to do" in done.stdout
    assert pg12.label in done.stdout
    assert [p.name for p in place.iterdir()] == ["tiny.toml"]


def test_a_missed_sla_is_seen(place: Path, pgstrata: Program, campaign: WriteCampaign, pg17: Server) -> None:
    done = pgstrata("run", campaign(pg17, steps='"9999999:range"'))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SLA missed" in done.stderr
    (run,) = Results(place / "results").runs()
    step = run.steps[-1]
    assert step.sla_met is False
    assert 0 < (step.background_rate or 0) < 0.95 * (step.target_rate or 0)


def test_servers_that_are_not_to_be_had(place: Path, pgstrata: Program, campaign: WriteCampaign) -> None:
    unknown = pgstrata("run", "--server", "pg:17.99", "--scale", "quick", "--data-dir", "data")
    assert unknown.returncode in (1, 2)
    assert "17." in unknown.stderr
    assert "Traceback" not in unknown.stderr
    empty = pgstrata("run", "--server", f"path:{place}", "--data-dir", "data")
    assert empty.returncode == 2
    assert "no PostgreSQL" in empty.stderr


def test_a_data_folder_that_cannot_be_written(
    pgstrata: Program, campaign: WriteCampaign, pg17: Server
) -> None:
    file = campaign(pg17)
    done = pgstrata("run", file, "--data-dir", "/proc/nowhere")
    assert done.returncode == 2
    assert "/proc/nowhere cannot be written" in done.stderr
    assert "--data-dir" in done.stderr


def test_a_server_that_does_not_start_fails_its_run_only(
    place: Path, pgstrata: Program, campaign: WriteCampaign, pg12: Server, pg17: Server
) -> None:
    (place / "bad.conf").write_text("shared_buffers = 7TB\n")
    file = campaign(pg12, more='[[variants]]\nserver = "pg:17"\nconfig = "bad.conf"\nlabel = "bad"')
    text = file.read_text().replace(f'servers = ["{pg12.spec}"]\n', "")
    file.write_text(text.replace("[[workloads]]", f'[[variants]]\nserver = "{pg12.spec}"\n[[workloads]]'))
    done = pgstrata("run", file)
    assert done.returncode == 1
    runs = {run["variant"]: run for run in records(place)}
    assert runs["bad"]["status"] == "failed"
    assert runs["bad"]["error"]["message"]
    assert runs[pg12.label]["status"] == "done"
    assert "failed: bad" in done.stderr
    listed = pgstrata("runs")
    assert "failed" in listed.stdout


def test_names_that_would_leave_the_folder(
    place: Path, pgstrata: Program, campaign: WriteCampaign, pg17: Server
) -> None:
    file = campaign(pg17, steps='"0:point"', seconds=0.5)
    for name in ("../../etc", "<script>alert(1)</script>"):
        file.write_text(
            file.read_text().replace(file.read_text().splitlines()[1], f"name = {json.dumps(name)}")
        )
        done = pgstrata("run", file)
        assert done.returncode == 0, done.stdout + done.stderr
    assert {p.name for p in place.iterdir()} == {"results", "data", "tiny.toml"}
    assert {run["campaign"] for run in records(place)} == {"../../etc", "<script>alert(1)</script>"}
    for page in (place / "results").rglob("*.html"):
        assert "<script>alert(1)" not in page.read_text()


@pytest.fixture
def foreign(place: Path, pg17: Server) -> Iterator[Cluster]:
    """A server that somebody else runs."""
    with Cluster(pg17, resolve([], pg17.version_num, 1 << 30), place / "theirs") as cluster:
        cluster.create()
        cluster.start()
        yield cluster


def dsn_of(cluster: Cluster, database: str = "") -> str:
    name = f" dbname={database}" if database else ""
    return f"dsn:host={cluster.socket_dir} port={cluster.port} user={cluster.user}{name}"


OPTIONS = ["--set", "rows=1000", "--set", "rows_i1=100", "--set", "rows_i2=20", "--set", "seconds=0.5"]
OPTIONS += ["--set", 'steps=["100:point"]', "--set", "settle_base=0", "--data-dir", "data"]


def test_a_server_somebody_else_runs(place: Path, pgstrata: Program, foreign: Cluster) -> None:
    done = pgstrata("run", "--server", dsn_of(foreign), *OPTIONS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "creating pgstrata" in done.stderr
    (run,) = Results(place / "results").runs()
    assert run.record.server.managed is False
    assert run.record.config.settings == {}
    assert run.variant == run.record.server.label
    assert run.steps[0].server_cpu_seconds is None
    assert foreign.postmaster.alive()
    with foreign.connect() as connection:
        names = [row[0] for row in connection.execute("SELECT datname FROM pg_database").fetchall()]
    assert "pgstrata" not in names


def test_tables_of_somebody_else_are_not_touched(place: Path, pgstrata: Program, foreign: Cluster) -> None:
    with foreign.connect() as connection:
        connection.execute("CREATE DATABASE shop")
    with foreign.connect("shop") as connection:
        connection.execute("CREATE TABLE pi1 (precious int); INSERT INTO pi1 VALUES (42)")
    done = pgstrata("run", "--server", dsn_of(foreign, "shop"), *OPTIONS)
    assert done.returncode == 1
    assert "tables that pgstrata did not make: pi1" in done.stderr
    with foreign.connect("shop") as connection:
        assert connection.execute("SELECT precious FROM pi1").fetchall() == [(42,)]
        connection.execute("DROP TABLE pi1")

    again = pgstrata("run", "--server", dsn_of(foreign, "shop"), *OPTIONS)
    assert again.returncode == 0, again.stdout + again.stderr
    with foreign.connect("shop") as connection:
        left = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE 'pi1%'").fetchall()
        schemas = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname LIKE 'pgstrata%'").fetchall()
    assert (left, schemas) == ([], [])


def test_passwords_of_a_dsn_stay_out_of_the_results(place: Path, pgstrata: Program, foreign: Cluster) -> None:
    with_password = dsn_of(foreign).replace("dsn:", "dsn:password=topsecret ")
    assert pgstrata("run", "--server", with_password, *OPTIONS, "--no-report").returncode == 0
    for path in (place / "results").rglob("*"):
        if path.is_file():
            assert b"topsecret" not in path.read_bytes()

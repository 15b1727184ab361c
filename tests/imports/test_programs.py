"""What pgbench and sysbench print against a real server is imported as they report it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pgstrata.cli.main import invoke
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.store import Results
from pgstrata.store.imported import ImportedStep
from support.bench import TABLES, pgbench


def imported(results: Path) -> dict[tuple[str, str], ImportedStep]:
    """The steps of a results folder by variant and name."""
    return {
        (run.variant, step.name): step
        for run in Results(results).runs()
        if run.record.imported
        for step in run.record.imported.steps
    }


@pytest.fixture(scope="module")
def bank(cluster: Cluster) -> Cluster:
    """The tables of pgbench."""
    with cluster.connect() as connection:
        connection.execute(TABLES)
    return cluster


def test_pgbench(bank: Cluster, tmp_path: Path) -> None:
    """The rate of its logs is that of its report: all threads, from the first transaction to the last."""
    done = pgbench(bank, "-n", "-c", 4, "-j", 2, "-T", 4, "-P", 1, "-S", "-l", folder=tmp_path)
    report = tmp_path / "report.txt"
    report.write_text(done.stdout + done.stderr)
    logs = sorted(tmp_path.glob("pgbench_log.*"))
    assert len(logs) == 2
    results = tmp_path / "results"
    assert invoke(["import", *map(str, [report, *logs]), "--results", str(results), "--variant", "pg"]) == 0
    there = imported(results)
    of_report, log = there["pg", "select only"], there["pg", logs[0].name]
    assert f"tps = {of_report.rate:.6f}" in done.stdout
    assert (of_report.clients, log.clients, of_report.operations) == (4, 4, log.operations)
    assert log.rate == pytest.approx(of_report.rate, rel=0.02)
    assert log.latency["mean"] == pytest.approx(of_report.latency["mean"], rel=0.02)
    assert len(of_report.intervals) >= 3
    assert sum(part.rate * part.seconds for part in log.intervals) == pytest.approx(log.operations)


def test_pgbench_names_the_server(bank: Cluster, tmp_path: Path) -> None:
    done = pgbench(bank, "-n", "-t", 50, "-S")
    (tmp_path / "a.txt").write_text(done.stdout)
    assert invoke(["import", str(tmp_path / "a.txt"), "--results", str(tmp_path / "results")]) == 0
    (run,) = Results(tmp_path / "results").runs()
    assert re.fullmatch(r"pg17\.\d+", run.variant)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--sampling-rate=0.1"], "are missing (--sampling-rate?)"),
        (["--rate=2000", "--latency-limit=1"], ""),
        (["--aggregate-interval=1"], ""),
    ],
    ids=["sampled", "skipped", "aggregated"],
)
def test_other_logs_of_pgbench(
    bank: Cluster, tmp_path: Path, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = pgbench(bank, "-n", "-c", 2, "-T", 4, "-S", "-l", *options, folder=tmp_path)
    (log,) = tmp_path.glob("pgbench_log.*")
    results = tmp_path / "results"
    code = invoke(["import", str(log), "--results", str(results), "--variant", "pg", "--step", "s"])
    assert code == (2 if says else 0)
    assert says in capsys.readouterr().err
    tps = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    assert tps
    if not says:
        assert imported(results)["pg", "s"].rate == pytest.approx(float(tps[1]), rel=0.25)


def test_sysbench(cluster: Cluster, tmp_path: Path) -> None:
    program = shutil.which("sysbench")
    if program is None:
        pytest.skip("sysbench is not installed (apt: sysbench)")
    where = [f"--pgsql-host={cluster.socket_dir}", f"--pgsql-port={cluster.port}", "--pgsql-user=postgres"]
    more = ["--pgsql-db=postgres", "--db-driver=pgsql", "--tables=1", "--table-size=1000", "--threads=2"]
    timed = ["--time=3", "--report-interval=1"]
    for command in ("prepare", "run"):
        done = subprocess.run(
            [program, *where, *more, *(timed if command == "run" else []), "oltp_point_select", command],
            capture_output=True,
            text=True,
            timeout=120,
        )
    (tmp_path / "point-select.txt").write_text(done.stdout)
    results = tmp_path / "results"
    arguments = ["import", str(tmp_path / "point-select.txt"), "--results", str(results)]
    assert invoke([*arguments, "--variant", "pg17"]) == 0
    step = imported(results)["pg17", "point-select"]
    assert f"({step.rate:.2f} per sec.)" in done.stdout
    assert step.clients == 2 and step.operations and len(step.intervals) >= 2
    assert 0 < step.latency["mean"] <= step.latency["max"] >= step.latency["p95"] > 0

"""`pgstrata bench` against a real server: pgbench's options and language, and everything that goes wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgstrata.server.cluster.cluster import Cluster
from support.bench import Bench, json_of, run_bench, url
from support.program import environment
from support.steps import EVERY_META_COMMAND


def test_keys_of_thejson_of(bench: Bench) -> None:
    done = bench("SELECT 1;\nSELECT 2;", "-t", 20, "-c", 3, "--format", "json")
    assert done.returncode == 0, done.stderr
    figures = json_of(done)
    assert figures["transactions"] == 60 and figures["failed"] == 0 and figures["error"] is None
    assert figures["tps"] == pytest.approx(60 / figures["seconds"])
    assert set(figures["latency_ms"]) >= {"mean", "stddev", "p50", "p95", "p99", "max"}
    assert (
        0
        < figures["latency_ms"]["p50"]
        <= figures["latency_ms"]["p99"]
        <= figures["latency_ms"]["max"] * 1.01
    )
    assert figures["driver_cpu_seconds"] > 0
    assert [s["count"] for s in figures["statements"]] == [60, 60]


def test_every_short_option(bench: Bench) -> None:
    script = "SELECT :scale AS s, :n AS n \\gset\n\\if :s <> 7 or :n <> 42\nSELECT broken;\n\\endif\n"
    options = ["-c", 4, "-j", 2, "-T", 1, "-M", "prepared", "-D", "n=42", "-r", "-R", 100, "-n", "-s", 7]
    done = bench(script, *options)
    assert done.returncode == 0, done.stderr
    assert "number of clients: 4" in done.stdout and "query mode: prepared" in done.stdout
    assert "number of threads: " in done.stdout and "(server 17" in done.stdout.splitlines()[0]
    assert "statement latencies" in done.stdout and "SELECT :scale AS s" in done.stdout
    assert "tps = " in done.stdout


@pytest.mark.parametrize("options", [[], ["-S"], ["-N"], ["-b", "select"], ["-b", "tpcb-like@3"]])
def test_built_in_scripts_take_the_scale_from_the_database(bench: Bench, options: list[str]) -> None:
    done = bench(None, *options, "-t", 3, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json_of(done)["scale"] == 2 and json_of(done)["transactions"] == 3


def test_a_built_in_script_goes_on_where_nothing_may_be_written(cluster: Cluster, tmp_path: Path) -> None:
    """As on a standby, where pgbench says so and goes on, too."""
    read_only = f"{url(cluster)}&options=-c%20default_transaction_read_only%3Don"
    done = run_bench(None, tmp_path, "-S", "-t", 3, "--format", "json", read_only)
    assert done.returncode == 0, done.stderr
    assert json_of(done)["transactions"] == 3
    assert "warning: truncate pgbench_history: cannot execute TRUNCATE TABLE in a read-only" in done.stderr


def test_weights(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "rare.sql").write_text("SELECT 'rare';")
    done = bench("SELECT 'often';", "-f", "mine.sql@8", "-f", "rare.sql@1", "-t", 1000, "--format", "json")
    often, rare = (
        sum(s["count"] for s in json_of(done)["statements"] if word in s["statement"])
        for word in ("often", "rare")
    )
    assert often + rare == 1000 and 50 < rare < 170
    scripts = json_of(done)["scripts"]
    assert [(s["script"], s["weight"]) for s in scripts] == [
        ("mine.sql", 1),
        ("mine.sql", 8),
        ("rare.sql", 1),
    ]
    assert scripts[0]["transactions"] + scripts[1]["transactions"] == often
    assert scripts[2]["transactions"] == rare


def test_several_scripts_have_a_block_each(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "slow.sql").write_text("SELECT 'a';\nSELECT pg_sleep(0.002);\n")
    (tmp_path / "never.sql").write_text("SELECT 'never';")
    done = bench("SELECT 'quick';", "-f", "never.sql@0", "-f", "slow.sql", "-t", 100, "-r")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    whole, quick, slow = re.split(r"SQL script \d: ", text)
    assert "transaction type: multiple scripts" in whole and "statement latencies" not in whole
    assert quick.startswith("mine.sql\n - weight: 1 (targets 50.0% of total)\n")
    counts = [int(re.search(r"^ - (\d+) transactions", block, re.M)[1]) for block in (quick, slow)]  # type: ignore[index]
    assert sum(counts) == 100 and min(counts) > 20
    assert " - number of failed transactions: 0 (0.000%)" in slow
    average = re.search(r"^ - latency average = (\S+) ms$", slow, re.M)
    assert average and float(average[1]) >= 2.0
    assert "pg_sleep" in slow and "'a'" in slow and "quick" not in slow
    assert "'quick'" in quick and "pg_sleep" not in quick


def test_what_is_late_on_schedule_is_said(bench: Bench) -> None:
    """One client can do 50 of the 200 transactions/s: the schedule runs away from it."""
    script = "SELECT pg_sleep(0.02);"
    late = bench(script, "-R", 200, "-T", 2, "-P", 1, "--format", "json")
    figures = json_of(late)
    assert 0 < figures["schedule_lag_ms"]["mean"] < figures["schedule_lag_ms"]["max"]
    assert figures["schedule_lag_ms"]["max"] > 500
    assert figures["schedule_lag_ms"]["mean"] < figures["latency_ms"]["mean"]
    assert re.search(r"^progress: 1\.0 s, .* tps, lat \S+ ms stddev \S+, 0 failed, lag \S+ ms", late.stderr)
    assert "rate limit schedule lag: avg " in bench(script, "-R", 200, "-T", 1).stdout
    assert json_of(bench(script, "-t", 2, "--format", "json"))["schedule_lag_ms"] is None


def test_every_meta_command(bench: Bench, cluster: Cluster) -> None:
    options = ["-M", "extended", "-t", 5, "-s", 1, "--allow-shell", "--format", "json"]
    done = bench(EVERY_META_COMMAND, *options)
    assert done.returncode == 0, done.stderr
    assert json_of(done)["transactions"] == 5
    with cluster.connect() as connection:
        row = connection.execute("SELECT sum(abalance) FROM pgbench_accounts WHERE aid <= 1000").fetchone()
    assert row is not None and row[0] >= 5


@pytest.mark.parametrize(
    ("script", "place", "message", "caret"),
    [
        ("SELECT 1;\n\\set x 1 + * 2\n", "mine.sql:2:12", "syntax error", "             ^"),
        ("SELECT 1;\n  \\set x randm(1, 2)\n", "mine.sql:2:10", "randm", "         ^"),
        ("\\if true\nSELECT 1;\n", "mine.sql:1:1", "\\endif", "^"),
        ("\\sett x 1\n", "mine.sql:1:", "sett", "^"),
        ("", "mine.sql:1:1", "empty", "^"),
        ("-- nothing\n", "mine.sql:1:1", "empty", "^"),
        (b"SELECT 1;\0", "mine.sql:1:10", "NUL", "^"),
        ("SELECT 1;\n\\startpipeline\n\\endpipeline\n", "mine.sql:2:1", "pipeline", "^"),
    ],
)
def test_a_wrong_script_names_its_place(
    bench: Bench, script: str | bytes, place: str, message: str, caret: str
) -> None:
    done = bench(script, "-t", 1)
    assert done.returncode == 2
    assert place in done.stderr and message in done.stderr and caret in done.stderr
    assert "tps" not in done.stdout


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("\\set x :nothing + 1\n", 'undefined variable "nothing"'),
        ("\\set x 1 / 0\n", "division by zero"),
        ("\\set x 9223372036854775807 + 1\n", "out of range"),
        ("SELECT nope FROM nowhere;", "nowhere"),
        ("SELECT 1 WHERE false \\gset\n", "one row"),
    ],
)
def test_what_fails_while_it_runs(bench: Bench, script: str, message: str) -> None:
    done = bench(script, "-t", 2)
    assert done.returncode == 1
    assert message in done.stderr and "defect" not in done.stderr
    assert "number of transactions actually processed: 0/2" in done.stdout
    assert "tps" not in done.stdout and "latency" not in done.stdout, "of nothing there is no rate"


@pytest.mark.parametrize("script", [None, b"SELECT \xff;"])
def test_scripts_that_cannot_be_read(bench: Bench, script: bytes | None) -> None:
    done = bench(script, *([] if script else ["-f", "gone.sql"]), "-t", 1)
    assert done.returncode == 2
    assert ("not UTF-8" if script else "there is no script gone.sql") in done.stderr


DEADLOCK = """
\\set a random(1, 2)
BEGIN;
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = :a;
\\sleep 2 ms
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 3 - :a;
END;
"""


@pytest.mark.parametrize("engine", ["io_uring", "blocking"])
@pytest.mark.parametrize("mode", ["simple", "prepared"])
def test_deadlocks_are_retried_and_counted(bench: Bench, engine: str, mode: str) -> None:
    options = ["-c", 4, "-t", 6, "--engine", engine, "-M", mode, "--format", "json"]
    done = bench(DEADLOCK, *options, "--max-tries", 0)
    if "io_uring" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert (json_of(done)["transactions"], json_of(done)["failed"]) == (24, 0)
    assert json_of(done)["retries"] > 0
    done = bench(DEADLOCK, *options, "--max-tries", 1)
    assert done.returncode == 0, done.stderr
    figures = json_of(done)
    assert figures["retries"] == 0 and figures["failed"] > 0
    assert figures["transactions"] + figures["failed"] == 24


SERIALIZABLE = """
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT tbalance FROM pgbench_tellers WHERE tid = 5;
\\sleep 2 ms
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 5;
END;
"""


def test_serialization_failures_are_retried_and_counted(bench: Bench, cluster: Cluster) -> None:
    options = ["-c", 4, "-t", 6, "-M", "extended", "--format", "json"]

    def balance() -> int:
        with cluster.connect() as connection:
            row = connection.execute("SELECT tbalance FROM pgbench_tellers WHERE tid = 5").fetchone()
        assert row is not None
        return int(row[0])

    before = balance()
    figures = json_of(bench(SERIALIZABLE, *options, "--max-tries", 0))
    assert (figures["transactions"], figures["failed"]) == (24, 0)
    assert figures["retries"] > 0
    assert balance() == before + 24
    figures = json_of(bench(SERIALIZABLE, *options, "--max-tries", 1))
    assert figures["retries"] == 0 and figures["failed"] > 0


def test_built_in_scripts_are_listed(bench: Bench) -> None:
    done = bench(None, "-b", "list")
    assert done.returncode == 0
    assert done.stdout.split()[2:] == ["select-only", "simple-update", "tpcb-like"]


def test_too_many_clients(bench: Bench) -> None:
    done = bench("SELECT 1;", "-c", 150, "-t", 1)
    assert done.returncode == 1
    assert "too many clients" in done.stderr and "max_connections" in done.stderr


def test_ten_megabytes_of_script(bench: Bench) -> None:
    line = "\\set v random(1, 100) + 12345678 * 1234567890 -- and so on, and so on, and so on\n"
    done = bench(line.split(" --")[0] + "\n" + "\\set v 1 + 2\n" * 800_000 + "SELECT :v;", "-t", 2)
    assert done.returncode == 0, done.stderr
    assert "actually processed: 2/2" in done.stdout


def test_a_lost_connection_keeps_what_was_measured(bench: Bench, cluster: Cluster) -> None:
    kill = "SELECT pg_terminate_backend(pg_backend_pid()) WHERE :n = 30;"
    done = bench(f"SELECT nextval('s') AS n \\gset\n{kill}", "-t", 100, "--format", "json")
    assert "s" in done.stderr and done.returncode == 1  # there is no sequence yet
    with cluster.connect() as connection:
        connection.execute("CREATE SEQUENCE s")
    done = bench(f"SELECT nextval('s') AS n \\gset\n{kill}", "-t", 100, "--format", "json")
    assert done.returncode == 1
    assert json_of(done)["transactions"] == 29
    assert "terminating connection" in done.stderr and "terminating" in json_of(done)["error"]


@pytest.mark.parametrize(("caught", "code"), [(signal.SIGINT, 130)])
def test_ctrl_c_prints_what_was_measured(cluster: Cluster, caught: int, code: int) -> None:
    command = [sys.executable, "-m", "pgstrata", "bench", "-S", "-T", "60", "-P", "1", url(cluster)]
    running = subprocess.Popen(
        command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stderr is not None
    assert running.stderr.readline().startswith("progress: 1.0 s")
    begun = time.monotonic()
    os.kill(running.pid, caught)
    out, _ = running.communicate(timeout=120)
    assert running.returncode == code
    assert time.monotonic() - begun < 50
    processed = out.split("actually processed: ")[1].split()[0]
    assert int(processed) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-T", "1", "-t", "1"], "-T and -t"),
        (["-T", "0"], "-T 0"),
        (["-R", "-1"], "-R -1"),
        (["-D", "x"], "NAME=VALUE"),
        (["-b", "nothing"], "built-in scripts are"),
        (["-M", "fast"], "prepared"),
        (["-c", "0"], "-c"),
    ],
)
def test_wrong_options(bench: Bench, options: list[str], message: str) -> None:
    done = bench("SELECT 1;", *options)
    assert done.returncode == 2
    assert message in done.stderr

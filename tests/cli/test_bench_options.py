"""Options of `pgstrata bench` that pgbench has too, beside pgbench itself on the same server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgstrata.server.cluster.cluster import Cluster
from support.bench import Bench, json_of, pgbench, run_bench

ANY = r"[\d.]+"


def shapes(text: str, words: tuple[str, ...]) -> list[str]:
    """Lines that begin with one of these words, numbers as N."""
    lines = [line.strip(" -") for line in text.splitlines()]
    return [re.sub(ANY, "N", line) for line in lines if line.startswith(words)]


COUNTED = (
    "number of transactions actually",
    "number of failed",
    "number of serialization",
    "number of deadlock",
    "number of transactions retried",
    "total number of retries",
    "number of transactions skipped",
    "number of transactions above",
    "rate limit schedule lag",
    "initial connection time",
    "average connection time",
    "tps = ",
    "statement latencies",
)


@pytest.mark.parametrize(
    "options",
    [
        ["-L", "100"],
        ["-L", "0.5", "-R", "200"],
        ["-C"],
        ["-C", "-L", "50", "-R", "100", "-r"],
        ["--failures-detailed"],
        ["--failures-detailed", "--max-tries", "3", "-L", "20", "-R", "200", "-r"],
        ["-b", "simple-update", "-b", "select-only", "-L", "20", "-R", "200", "--max-tries", "2", "-r"],
    ],
    ids=" ".join,
)
def test_the_same_lines_in_the_same_order(bench: Bench, cluster: Cluster, options: list[str]) -> None:
    script = [] if "-b" in options else ["-S"]
    done = bench(None, "-n", "-t", 10, "-c", 2, *script, *options)
    assert done.returncode == 0, done.stderr
    real = pgbench(cluster, "-n", "-t", 10, "-c", 2, *script, *options)
    assert real.returncode == 0, real.stderr
    assert shapes(done.stdout, COUNTED) == shapes(real.stdout, COUNTED)


def test_transactions_above_the_latency_limit_are_counted(bench: Bench) -> None:
    script = "\\set slow :client_id = 0\n\\if :slow\nSELECT pg_sleep(0.05);\n\\else\nSELECT 1;\n\\endif\n"
    options = ["-c", 2, "-t", 20, "-L", 45, "--format", "json"]
    figures = json_of(bench(script, *options))
    assert figures["transactions"] == 40 and figures["skipped"] == 0
    assert 20 <= figures["late"] < 40
    text = bench(script, *options[:-2]).stdout
    assert re.search(r"number of transactions above the 45\.0 ms latency limit: \d+/40 \(", text)


def test_what_is_due_too_long_ago_is_skipped(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    """One client can do 20 of the 200 transactions/s: nine of ten are due for longer than 20 ms."""
    options = ["-R", "200", "-L", "20", "-T", "2"]
    done = bench("SELECT pg_sleep(0.05);", *options, "-P", 1)
    figures = json_of(bench("SELECT pg_sleep(0.05);", *options, "--format", "json"))
    assert figures["skipped"] > 4 * figures["transactions"] > 0
    assert figures["late"] == figures["transactions"], "each takes 50 ms"
    assert figures["schedule_lag_ms"]["max"] > 0
    assert re.search(r"^progress: \d\.\d s, .*, lag \S+ ms, \d+ skipped", done.stderr, re.M)
    real = pgbench(cluster, "-n", *options, "-P", 1, "-f", str(tmp_path / "mine.sql"))
    assert re.search(r"^progress: \d\.\d s, .*, lag \S+ ms, \d+ skipped", real.stderr, re.M)
    line = r"number of transactions skipped: (\d+) "
    ours, theirs = (int(re.findall(line, text)[0]) for text in (done.stdout, real.stdout))
    assert 0.5 < ours / theirs < 2


def test_skipped_transactions_count_to_the_number_asked_for(bench: Bench) -> None:
    options = ["-R", 500, "-L", 10, "-t", 50, "--format", "json"]
    figures = json_of(bench("SELECT pg_sleep(0.05);", *options))
    assert figures["skipped"] > 0 and figures["transactions"] + figures["skipped"] == 50


def test_each_transaction_has_a_connection_of_its_own(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    with cluster.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS seen")
        connection.execute("CREATE TABLE seen (pid int)")
    script = "INSERT INTO seen VALUES (pg_backend_pid());\nSELECT :client_id;\n"
    options = ["-C", "-c", "3", "-t", "7", "-M", "prepared"]
    figures = json_of(bench(script, *options, "--format", "json"))
    assert figures["transactions"] == 21 and figures["failed"] == 0 and figures["error"] is None
    assert figures["average_connection_ms"] > 0 and figures["initial_connection_ms"] is None

    def count() -> tuple[int, int]:
        with cluster.connect() as connection:
            row = connection.execute("SELECT count(*), count(DISTINCT pid) FROM seen").fetchone()
            connection.execute("TRUNCATE seen")
        assert row is not None
        return int(row[0]), int(row[1])

    assert count() == (21, 21)
    real = pgbench(cluster, "-n", *options, "-f", str(tmp_path / "mine.sql"))
    assert real.returncode == 0 and count() == (21, 21)


def test_a_new_connection_that_is_refused_ends_the_run(bench: Bench, cluster: Cluster) -> None:
    with cluster.connect() as connection:
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute("GRANT pg_write_all_data TO guest")
        connection.execute("ALTER ROLE guest CONNECTION LIMIT 1")
    try:
        done = bench("SELECT 1;", "-C", "-c", 2, "-t", 50, "-U", "guest")
        assert done.returncode == 1 and "too many connections for role" in done.stderr
        assert "defect" not in done.stderr
    finally:
        with cluster.connect() as connection:
            connection.execute("DROP OWNED BY guest")
            connection.execute("DROP ROLE guest")


def test_io_uring_cannot_reconnect(bench: Bench) -> None:
    done = bench("SELECT 1;", "-C", "-t", 1, "--engine", "io_uring")
    assert done.returncode == 2 and "blocking engine" in done.stderr


DEADLOCK = """
\\set a random(1, 2)
BEGIN;
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = :a;
\\sleep 2 ms
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 3 - :a;
END;
"""


def test_failures_are_told_apart(bench: Bench) -> None:
    options = ["-c", 4, "-t", 8, "-M", "simple", "--failures-detailed"]
    figures = json_of(bench(DEADLOCK, *options, "--format", "json"))
    assert figures["failed"] == figures["deadlock_failures"] > 0 and figures["serialization_failures"] == 0
    done = bench(DEADLOCK, *options, "--max-tries", 0, "-r")
    assert re.search(r"number of deadlock failures: 0 \(0\.000%\)", done.stdout)
    retried, retries = (
        int(re.findall(pattern, done.stdout)[0])
        for pattern in (r"transactions retried: (\d+) ", r"total number of retries: (\d+)")
    )
    assert 0 < retried <= min(retries, 32)
    rows = re.findall(r"^ +[\d.]+ +(\d+) +(\d+)  (\w+)", done.stdout, re.M)
    assert sum(int(r) for _, r, _ in rows) == retries, "each retry is that of one statement"
    assert all(word == "UPDATE" for _, r, word in rows if int(r)) and all(f == "0" for f, _, _ in rows)


def test_a_seed_is_said_and_repeats_the_stream(bench: Bench) -> None:
    script = "\\set x debug(random(1, 1000000))\nSELECT 1;\n"
    first, again = (bench(script, "-t", 3, "--random-seed", 42) for _ in range(2))
    assert "setting random seed to 42" in first.stderr
    drawn = re.findall(r": int (\d+)", first.stderr)
    assert len(set(drawn)) == 3 and drawn == re.findall(r": int (\d+)", again.stderr)
    for word in ("time", "rand"):
        done = bench("SELECT 1;", "-t", 1, "--random-seed", word)
        assert done.returncode == 0 and re.search(r"setting random seed to \d+", done.stderr)


def test_connection_options_are_pgbenchs(cluster: Cluster, tmp_path: Path) -> None:
    where = ["-h", str(cluster.socket_dir), "-p", cluster.port, "-U", "postgres"]
    (tmp_path / "who.sql").write_text("SELECT 1 / (current_user = 'postgres')::int;\n")
    for named in (["-d", "postgres"], ["postgres"], ["-d", "dbname=postgres"]):
        done = run_bench(None, tmp_path, "-f", "who.sql", "-t", 2, *where, *named)
        assert done.returncode == 0, done.stderr
        assert "actually processed: 2/2" in done.stdout
    done = run_bench(None, tmp_path, "-f", "who.sql", "-t", 2, *where, "-d", "postgres", "template1")
    assert done.returncode == 2 and "named twice" in done.stderr
    done = run_bench(None, tmp_path, "--help")
    assert done.returncode == 0 and "--host" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-L", "0"], "-L 0 is not between"),
        (["-L", "-1"], "-L -1 is not between"),
        (["-L", "nan"], "-L nan is not between"),
        (["--random-seed", "x"], "--random-seed x: not a number"),
        (["--random-seed", "9" * 30], "not a number below 2^63"),
        (["-p", "0"], "-p"),
    ],
)
def test_wrong_options_are_refused(bench: Bench, options: list[str], message: str) -> None:
    done = bench("SELECT 1;", *(options if "-T" in options else [*options, "-t", 1]))
    assert done.returncode == 2
    assert message in done.stderr and "defect" not in done.stderr

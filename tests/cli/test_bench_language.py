"""What pgbench refuses, prints and calls an error, `pgstrata bench` does, too: both run the same scripts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgstrata.server.cluster.cluster import Cluster
from support.bench import Bench, json_of, pgbench, url
from support.program import environment, living_in

# script, what pgbench says of it, what is said here, and where
REFUSED = {
    "transaction-open": (
        "BEGIN;\nSELECT 1;\n",
        "end of script reached without completing the last transaction",
        "mine.sql:2: end of script reached without completing the last transaction",
    ),
    "transaction-open-behind-a-pipeline": (
        "BEGIN;\n\\startpipeline\nSELECT 1;\n\\endpipeline\n",
        "end of script reached without completing the last transaction",
        "mine.sql:4: end of script reached without completing the last transaction",
    ),
    "pipeline-open": (
        "SELECT 1;\n\\startpipeline\nSELECT 2;\n",
        "end of script reached with pipeline open",
        "mine.sql:3: end of script reached with pipeline open",
    ),
    "pipeline-twice": (
        "\\startpipeline\nSELECT 1;\n\\startpipeline\n\\endpipeline\n",
        "already in pipeline mode",
        "mine.sql:3: \\startpipeline: already in pipeline mode",
    ),
    "pipeline-not-begun": (
        "SELECT 1;\n\\endpipeline\n",
        "not in pipeline mode",
        "mine.sql:2: \\endpipeline: not in pipeline mode",
    ),
    "gset-in-a-pipeline": (
        "\\startpipeline\nSELECT 1 AS one \\gset\n\\endpipeline\n",
        "\\gset is not allowed in pipeline mode",
        "mine.sql:2: \\gset is not allowed in pipeline mode",
    ),
    "aset-in-a-pipeline": (
        "\\startpipeline\nSELECT 1 AS one \\aset\n\\endpipeline\n",
        "\\aset is not allowed in pipeline mode",
        "mine.sql:2: \\aset is not allowed in pipeline mode",
    ),
    "gset-without-a-row": (
        "SELECT 1;\nSELECT 1 AS one WHERE false \\gset\n",
        "expected one row, got 0",
        "mine.sql:2: \\gset expects one row, and the query gave 0",
    ),
    "gset-with-two-rows": (
        "SELECT generate_series(1, 2) AS one \\gset\n",
        "expected one row, got 2",
        "mine.sql:1: \\gset expects one row, and the query gave 2",
    ),
    "gset-of-a-nameless-column": (
        'SELECT 1 AS "?" \\gset\n',
        'invalid variable name: "?"',
        'mine.sql:1: a column cannot become a variable: invalid variable name "?"',
    ),
    "rejected": (
        "\\set x 1\n\n  SELECT\n  nope;\n",
        'column "nope" does not exist',
        "mine.sql:3: the server rejected a statement in role query, client 0: column",
    ),
    "rejected-in-a-pipeline": (
        "\\startpipeline\nSELECT 1;\nSELECT 1 / 0;\nSELECT 2;\n\\endpipeline\n",
        "division by zero",
        "mine.sql:3: the server rejected a statement in role query, client 0: division by zero",
    ),
    "sleep": (
        "SELECT 1;\n\\sleep :nothing ms\n",
        'undefined variable "nothing"',
        'mine.sql:2: sleep: undefined variable "nothing"',
    ),
    "shell": ("\\shell exit 3\n", "", 'mine.sql:1: shell command "exit 3" failed: exit status: 3'),
    "setshell": (
        "SELECT 1;\n\\setshell x echo five\n",
        "must return an integer",
        'mine.sql:2: shell command must print a whole number, not "five"',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pgbench_refuses_at_run_time_is_refused_with_its_place(
    bench: Bench, cluster: Cluster, tmp_path: Path, name: str
) -> None:
    script, theirs, ours = REFUSED[name]
    done = bench(script, "-M", "prepared", "-t", 3, "--allow-shell")
    assert done.returncode == 1
    assert ours in done.stderr and "defect" not in done.stderr
    assert name == "rejected" or "rejected" in name or "rejected" not in done.stderr
    # In the simple mode of an old pgbench the words of the server come second otherwise.
    mode = "simple" if name == "rejected" else "prepared"
    real = pgbench(cluster, "-n", "-M", mode, "-t", "3", "-f", str(tmp_path / "mine.sql"))
    assert real.returncode != 0 and theirs in real.stderr

    def counts(text: str) -> list[str]:
        return re.findall(r"actually processed: (\S+)", text)

    assert counts(done.stdout) == counts(real.stdout), "as many transactions count"


def test_a_pipeline_that_is_not_begun_cannot_be_synced(bench: Bench) -> None:
    """Beside the others: a pgbench before 17 does not know the command."""
    done = bench("SELECT 1;\n\\syncpipeline\n", "-M", "extended", "-t", 1)
    assert done.returncode == 1
    assert "mine.sql:2: \\syncpipeline: not in pipeline mode" in done.stderr


@pytest.mark.parametrize(
    "script",
    [
        "\\if false\n\\startpipeline\n\\endif\nSELECT 1 AS one \\gset\n\\if false\n\\endpipeline\n\\endif\n",
        "BEGIN;\nSAVEPOINT a;\nSELECT 1;\nROLLBACK TO a;\nCOMMIT;\n",
        "COMMIT;\n",
        "BEGIN\\;SELECT 1\\;COMMIT;\n",
    ],
    ids=["branches-not-taken", "savepoint", "no-transaction", "together"],
)
def test_what_pgbench_accepts_is_accepted(
    bench: Bench, cluster: Cluster, tmp_path: Path, script: str
) -> None:
    mode = "simple" if "\\;" in script else "prepared"
    done = bench(script, "-t", 3, "-M", mode)
    assert done.returncode == 0, done.stderr
    real = pgbench(cluster, "-n", "-M", mode, "-t", "3", "-f", str(tmp_path / "mine.sql"))
    assert real.returncode == 0, real.stderr


def test_a_transaction_may_not_lie_in_two_scripts(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "end.sql").write_text("END;")
    options = ["-t", 200, "-f", "end.sql"]
    done = bench("BEGIN;", *options)
    assert done.returncode == 1 and "mine.sql:1: end of script reached without completing" in done.stderr
    files = [str(tmp_path / name) for name in ("mine.sql", "end.sql")]
    real = pgbench(cluster, "-n", "-t", "200", "-f", files[0], "-f", files[1])
    assert real.returncode != 0 and "without completing the last transaction" in real.stderr


def test_debug_and_shell_print_where_people_see_it(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    script = "\\set x debug(2 + 3)\n\\set y debug(1.5)\n\\shell echo from the shell\nSELECT 1;\n"
    done = bench(script, "-t", 2, "--allow-shell", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json_of(done)["transactions"] == 2, "standard output is the result and nothing else"
    assert done.stderr.count("from the shell\n") == 2
    real = pgbench(cluster, "-n", "-t", "2", "-f", str(tmp_path / "mine.sql"))
    theirs = re.findall(r"^debug\(.*\): (.*)$", real.stderr, re.M)
    assert re.findall(r"^debug\(.*\): (.*)$", done.stderr, re.M) == theirs == ["int 5", "double 1.5"] * 2


@pytest.mark.parametrize("engine", ["io_uring", "blocking"])
@pytest.mark.parametrize("script", ["\\set x 1\n", "\\if false\nSELECT 1;\n\\endif\n"])
def test_a_script_that_sends_nothing_ends_and_has_no_rate(bench: Bench, script: str, engine: str) -> None:
    done = bench(script, "-T", 1, "-c", 2, "--engine", engine)
    if "io_uring cannot be used" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "no statement was sent, so there is neither latency nor tps" in done.stdout
    assert "tps =" not in done.stdout and "latency average" not in done.stdout
    figures = json_of(bench(script, "-T", 1, "--engine", engine, "--format", "json"))
    assert figures["tps"] is None and figures["latency_ms"]["mean"] is None
    assert figures["transactions"] > 0 and figures["seconds"] == pytest.approx(1, abs=0.5)


def test_a_script_that_sends_now_and_then_has_its_rate(bench: Bench) -> None:
    figures = json_of(bench("\\if random(1, 50) = 1\nSELECT 1;\n\\endif\n", "-t", 2000, "--format", "json"))
    (statement,) = figures["statements"]
    assert figures["transactions"] == 2000 and 5 < statement["count"] < 100
    assert figures["tps"] == pytest.approx(2000 / figures["seconds"])


def test_a_message_of_fifty_megabytes_is_shown_cut(bench: Bench) -> None:
    script = "DO $$ BEGIN RAISE EXCEPTION '%', repeat('too much ', 5500000); END $$;"
    for form in ("text", "json"):
        done = bench(script, "-t", 1, "--format", form)
        assert done.returncode == 1
        assert "too much too much" in done.stderr and "cut" in done.stderr
        assert len(done.stderr) < 30_000 and len(done.stdout) < 30_000


@pytest.mark.parametrize("caught", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_a_bench_whose_script_waits_for_a_program(
    cluster: Cluster, place: Path, caught: signal.Signals
) -> None:
    """Statements that wait are ended elsewhere; here the driver itself is stuck in `\\shell`."""
    (place / "mine.sql").write_text("SELECT 1;\n\\shell echo begun; exec sleep 1000\n")
    command = [sys.executable, "-m", "pgstrata", "bench", "-f", "mine.sql", "-T", "600", "--allow-shell"]
    running = subprocess.Popen(
        [*command, url(cluster)], cwd=place, env=environment(), text=True, stdout=-1, stderr=-1
    )
    assert running.stderr is not None and running.stderr.readline() == "begun\n"
    running.send_signal(caught)
    out, _ = running.communicate(timeout=240)
    assert running.returncode == 128 + caught
    assert "number of transactions actually processed: 0" in out
    assert not living_in(place), "the program that it waited for is gone, too"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-f", "mine.sql@0"], "all scripts have the weight 0"),
        (["-f", "mine.sql@0", "-b", "select-only@0"], "all scripts have the weight 0"),
        (["-b", "nothing"], "there is no built-in script 'nothing'"),
        (["-b", "@3"], "names nothing before its weight"),
        (["-b", "s"], "several built-in scripts: select-only, simple-update"),
        (["-b", "select-only@²"], "the weight '²' of 'select-only' is not a whole number"),
        (["-b", "select-only@"], "the weight '' of 'select-only' is not a whole number"),
        (["-b", "select-only@-1"], "the weight '-1' of 'select-only' is not a whole number"),
        (["-b", "tpcb@99999999999"], "is out of range (0 to 2147483647)"),
        (["-b", "tpcb@" + "9" * 10_000], "is out of range (0 to 2147483647)"),
        (["-f", "mine.sql@often"], "the weight 'often' of 'mine.sql' is not a whole number"),
    ],
)
def test_wrong_scripts_and_weights_say_what_is_wrong(
    bench: Bench, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "mine.sql").write_text("SELECT 1;")
    done = bench(None, "-t", 1, *options)
    assert done.returncode == 2
    assert message in done.stderr and "defect" not in done.stderr and len(done.stderr) < 1000


def test_a_script_may_have_an_at_sign_in_its_name(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "mail@home.sql").write_text("SELECT 1;")
    done = bench(None, "-t", 1, "-f", "mail@home.sql", "-f", "mail@home.sql@2", "--format", "json")
    assert [s["weight"] for s in json_of(done)["scripts"]] == [1, 2]

"""Queries of any size: answers are streamed, memory has a bound, Ctrl-C ends them."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgstrata.cli import main, output
from support.program import environment
from support.runs import make_campaign

GIGABYTE = 1 << 30


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bounds") / "results"
    make_campaign(folder, seconds=3)
    return folder


def start(results: Path, sql: str, *more: str, out: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pgstrata", "query", sql, "--results", str(results), *more]
    return subprocess.Popen(
        command,
        env=environment(),
        text=True,
        stdout=out,
        stderr=subprocess.PIPE,
        preexec_fn=hears_ctrl_c,
    )


def hears_ctrl_c() -> None:
    """A shell starts what runs in the background deaf to SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, int]:
    """Exit code, errors, and the most memory in bytes."""
    assert process.stderr is not None
    stderr = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, stderr, usage.ru_maxrss * 1024


@pytest.mark.program
@pytest.mark.parametrize("form", ["table", "csv"])
def test_an_answer_of_gigabytes_takes_little_memory(results: Path, form: str) -> None:
    code, stderr, most = ended(
        start(results, "select range, repeat('x', 20000) from range(60000)", "--format", form)
    )
    assert (code, stderr) == (0, "")
    # DuckDB uses what it may where it is ahead of the output.
    assert most < 640 << 20


@pytest.mark.program
@pytest.mark.parametrize(
    "sql",
    [
        "select repeat('x', 1000000) from range(3000)",
        "select repeat('x', 3000000000)",
        "select list(range) from range(200000000)",
    ],
)
def test_what_needs_more_memory_than_it_may_is_refused(results: Path, sql: str) -> None:
    code, stderr, most = ended(start(results, sql))
    assert code == 2
    assert stderr.startswith("error: the query needs more than 500MB of memory\n")
    assert most < GIGABYTE


@pytest.mark.program
@pytest.mark.parametrize(
    "sql",
    [
        "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t",
        "select count(*) from range(1000) a, range(100000000000) b where hash(a.range + b.range) = 0",
        "select * from range(100000000000)",
    ],
)
def test_ctrl_c_ends_a_query(results: Path, sql: str) -> None:
    with start(results, sql) as process:
        tasks = Path(f"/proc/{process.pid}/task")
        until = time.monotonic() + 120
        # DuckDB's own threads show that it works.
        while len(list(tasks.iterdir())) < 2 or _busy(process.pid) < 1.5:
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        stderr = process.stderr.read()
        assert process.wait(60) == 130
    assert stderr == ""


def _busy(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_stream_is_printed_as_a_whole_answer_would_be(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "select range as n, chr(8232) || range as t from range(5)"

    def printed(form: str) -> str:
        assert main.invoke(["query", sql, "--results", str(results), "--format", form]) == 0
        return capsys.readouterr().out

    rows = [{"n": n, "t": f"\u2028{n}"} for n in range(5)]
    assert printed("json") == json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    assert list(csv.reader(io.StringIO(printed("csv"))))[1:] == [[str(n), f"\u2028{n}"] for n in range(5)]
    whole = printed("table")
    monkeypatch.setattr(output, "FITTED_ROWS", 2)
    assert printed("table") == whole
    assert main.invoke(["query", "select 1 where false", "--results", str(results), "--format", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_a_long_cell_moves_its_own_row_only() -> None:
    long = "x" * 240
    lines = output.aligned(("step", "rate"), [("a", 1), (long, 2)])
    assert [len(line) for line in lines] == [output.WIDEST + 6] * 3 + [len(long) + 6]
    assert lines[-1] == f"{long}     2"


def test_a_query_leaves_the_limits_of_the_process_alone(results: Path) -> None:
    import resource

    from pgstrata.store.ask import query

    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert query(results, "select count(*) from runs").rows == [(2,)]
    assert resource.getrlimit(resource.RLIMIT_DATA) == before

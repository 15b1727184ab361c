"""Logs of real servers: all forms come to the same, and pg_stat_statements has counted the same."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.model import Server
from pgstrata.traffic.account import DEFINITIONS, EMPTY_SESSIONS, ENDED, MESSAGES, ROWS_OF_COPY
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured, Header, Statement
from pgstrata.traffic.shapes import shape
from support.program import Program
from support.steps import database, running, statement_rows

SETTINGS = {
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql",
    "log_destination": "stderr,csvlog,jsonlog",
    "log_line_prefix": "%m [%c] %e %q%u@%d ",
    "log_min_duration_statement": "0",
    "log_parameter_max_length_on_error": "-1",
    "log_connections": "on",
    "log_disconnections": "on",
}

EXPECTED_ERRORS = {"23505", "42703", "22P02", "42601"}


@pytest.fixture(scope="module")
def logs(
    pg17: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, dict[str, tuple[int, int]]]]:
    """A folder with the logs of some work, in three forms, and what pg_stat_statements saw of it."""
    folder = tmp_path_factory.mktemp("logs")
    with running(pg17) as cluster:
        cluster.stop()
        cluster.start(settings=SETTINGS)
        with database(cluster, "shop") as admin:
            admin.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
            admin.execute("SELECT pg_stat_statements_reset()")
            work(cluster)
            seen = statement_rows(admin)
        cluster.stop()
        for file in (cluster.data_folder.path / "log").iterdir():
            shutil.copyfile(file, folder / file.name)
    yield folder, seen


def work(cluster: Cluster) -> None:
    for number in range(3):
        with cluster.connect("shop") as connection:
            for row in range(20):
                key = 100 * number + row
                connection.execute(
                    "INSERT INTO t VALUES (%s, %s)", (key, f'it\'s\n\t{key} "ü" \\'), prepare=True
                )
                connection.execute("SELECT b FROM t WHERE a = %s", (key,))
            with connection.transaction():
                connection.execute(f"UPDATE t SET b = b || 'x' WHERE a IN ({key}, 5, 7)")
                connection.execute(f"DELETE FROM t WHERE a = {key}")
            with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
                copy.write_row((10_000 + number, "copied"))
            for text, values in (
                ("INSERT INTO t VALUES (%s, %s)", (100 * number, "again")),
                ("SELECT nothing FROM t", None),
                ("SELECT %s::int", ("seven",)),
                ("SELEC 1", None),
            ):
                with pytest.raises(psycopg.Error):
                    connection.execute(text, values)


def sessions(file: Path) -> list[list[Statement]]:
    with Captured(file) as captured:
        return [list(captured.statements(entry)) for entry in captured.sessions()]


def test_all_forms_come_to_the_same(logs: tuple[Path, dict[str, tuple[int, int]]], tmp_path: Path) -> None:
    folder, seen = logs
    headers: list[Header] = []
    for name, prefix in (
        ("postgresql", SETTINGS["log_line_prefix"]),
        ("postgresql.csv", None),
        ("postgresql.json", None),
    ):
        headers.append(capture([folder / name], tmp_path / f"{name}.traffic", prefix=prefix))
    assert [header.source for header in headers] == ["stderr", "csvlog", "jsonlog"]
    first = sessions(tmp_path / "postgresql.traffic")
    for name in ("postgresql.csv", "postgresql.json"):
        assert sessions(tmp_path / f"{name}.traffic") == first, name
    header = headers[1]
    # Three that worked.
    working_sessions = [session for session in first if any(s.text.startswith("INSERT") for s in session)]
    assert len(working_sessions) == 3 and header.most_sessions <= 3
    assert {s.sqlstate for session in working_sessions for s in session if s.sqlstate} == EXPECTED_ERRORS
    inserted = [s.parameters for s in working_sessions[0] if s.text.startswith("INSERT")]
    assert inserted[3] == ("3", 'it\'s\n\t3 "ü" \\') and len(inserted) == 21
    assert {left_out.why: left_out.count for left_out in header.left_out}[ROWS_OF_COPY] == 3
    assert {left_out.why for left_out in header.left_out} <= {
        *(ROWS_OF_COPY, MESSAGES, ENDED),
        *(DEFINITIONS, EMPTY_SESSIONS),  # of the one that made the table
    }
    balances = [captured_header.balance for captured_header in headers if captured_header.balance is not None]
    assert [(b.difference, b.damaged) for b in balances] == [(0, 0)] * 3
    # Statement by statement what the server has counted: those that went well.
    counted: dict[str, int] = {}
    for text, (calls, _) in seen.items():
        counted[shape(text).text] = counted.get(shape(text).text, 0) + calls
    captured: dict[str, int] = {}
    for session in working_sessions:
        for statement in session:
            if not statement.sqlstate:
                name = header.shapes[statement.shape].text
                captured[name] = captured.get(name, 0) + 1
    counted.pop("COPY t FROM STDIN")
    assert captured == {name: calls for name, calls in counted.items() if name in captured}
    missing = {name for name in counted if name not in captured}
    assert not any(re.match("INSERT|UPDATE|DELETE|SELECT b", name) for name in missing), missing


def test_the_command_and_what_it_says(
    logs: tuple[Path, dict[str, tuple[int, int]]], pgstrata: Program, place: Path
) -> None:
    folder, _ = logs
    done = pgstrata("capture", folder / "postgresql.csv", "-o", "a.traffic", "--mask")
    assert done.returncode == 0, done.stderr
    again = pgstrata("capture", "a.traffic")
    assert done.stdout.startswith(again.stdout)
    assert done.stdout.splitlines()[-1].split()[:3] == ["next:", "pgstrata", "upgrade"]
    for expected in (
        r"sessions: +\d+, at most \d",
        r"values: +masked",
        r"read: +csvlog, postgresql.csv",
        r"entries: +[\d,]+ in the log: [\d,]+ replayed, [\d,]+ left out, 0 damaged",
        r"3 +3  COPY … FROM STDIN: its rows are not in a log",
    ):
        assert re.search(expected, done.stdout), done.stdout
    assert '"masked": true' in pgstrata("capture", "a.traffic", "--format", "json").stdout
    for arguments, why in (
        ((folder / "postgresql.csv", folder / "postgresql.json", "-o", "b.traffic"), "several forms"),
        ((folder / "postgresql.csv", "-o", "a.traffic"), "is there already"),
        ((folder / "postgresql.csv",), "no captured file"),
        ((folder / "postgresql.csv", folder / "postgresql.json"), "not said where"),
        ((folder / "postgresql", "-o", "b.traffic", "--prefix", "%u"), "has no time"),
    ):
        refused = pgstrata("capture", *arguments)
        assert refused.returncode in (1, 2) and why in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr
    assert sorted(path.name for path in place.iterdir()) == ["a.traffic"]


@pytest.mark.slow
def test_memory_stays_flat(logs: tuple[Path, dict[str, tuple[int, int]]], tmp_path: Path) -> None:
    """The same log a hundred times longer takes no more memory."""
    folder, _ = logs
    whole = (folder / "postgresql.csv").read_text()
    peaks = []
    for times in (200, 4000):
        file = tmp_path / f"{times}.csv"
        with file.open("w") as out:
            for number in range(times):
                out.write(re.sub(r",[0-9a-f]{8}\.", f",{number:08x}.", whole))
        code = (
            "import resource, sys; from pathlib import Path; from pgstrata.traffic.capture import capture; "
            f"capture([Path({str(file)!r})], Path({str(file) + '.traffic'!r})); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
        file.unlink()
    assert peaks[1] < 1.3 * peaks[0], peaks

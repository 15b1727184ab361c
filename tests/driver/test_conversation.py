"""The conversation with the driver when it does not go as it should.

The programs here stand for a driver that is broken; what a working one says is tested by real runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from pgstrata.driver.client import Driver, driver_failure
from pgstrata.driver.events import Done, Failure, Measuring
from pgstrata.driver.spec import Connection, Spec
from pgstrata.errors import DriverError, PgstrataError

pytestmark = pytest.mark.program

READY = (
    '{"event":"ready","version":1,"driver":"0","engine":"blocking","threads":1,'
    '"connect_seconds":0.1,"roles":[]}'
)

SPEC = Spec(
    step="s",
    seconds=1.0,
    roles=[],
    connection=Connection(host="/nowhere", port=1, user="u", database="d"),
    seed=1,
)

Script = Callable[[str], None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Makes a shell script the driver."""

    def write(body: str) -> None:
        path = tmp_path / "driver"
        path.write_text(f"#!/bin/sh\nread spec\n{body}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PGSTRATA_DRIVER", str(path))

    return write


def test_what_it_wrote_on_stderr_is_said(program: Script) -> None:
    program("echo 'thread main panicked' >&2; exit 101")
    with Driver(SPEC) as driver, pytest.raises(DriverError) as caught:
        driver.ready()
    assert "exit code 101" in caught.value.message
    assert "thread main panicked" in caught.value.hint


def test_a_driver_that_is_killed_is_named_with_its_signal(program: Script) -> None:
    program(f"echo '{READY}'; exec sleep 60")
    with Driver(SPEC) as driver:
        driver.ready()
        driver.start()
        os.kill(driver.pid, signal.SIGKILL)
        with pytest.raises(DriverError, match="killed by SIGKILL"):
            list(driver.events())


def test_silence_ends(program: Script) -> None:
    program(f"echo '{READY}'; exec sleep 60")
    begun = time.monotonic()
    with pytest.raises(DriverError, match=r"silent for 0 s"), Driver(SPEC, silence=0.3) as driver:
        driver.ready()
        driver.start()
        list(driver.events())
    assert time.monotonic() - begun < 30
    assert not psutil.pid_exists(driver.pid)


def test_another_dialect_is_refused(program: Script) -> None:
    program(f"echo '{READY}'".replace('"version":1', '"version":2') + "; exec sleep 60")
    with pytest.raises(DriverError, match="version 2"), Driver(SPEC) as driver:
        driver.ready()


def test_what_is_no_event_is_refused(program: Script) -> None:
    program("echo 'hello'; exec sleep 60")
    with pytest.raises(DriverError, match="no event"), Driver(SPEC) as driver:
        driver.ready()


@pytest.mark.parametrize(
    "line",
    [
        '{"event":"surprise"}',
        READY.replace('"threads":1', '"threads":1,"mood":"fine"'),
        READY.replace('"threads":1', '"threads":"one"'),
        READY.replace('"threads":1,', ""),
        '{"unix_time":1}',
    ],
)
def test_an_event_that_is_unknown_or_not_as_the_schema_says_is_refused(program: Script, line: str) -> None:
    program(f"echo '{line}'; exec sleep 60")
    with pytest.raises(DriverError, match="no event"), Driver(SPEC) as driver:
        driver.ready()


def test_an_error_after_the_clock_started_lets_done_follow(program: Script) -> None:
    lines = [
        READY,
        '{"event":"measuring","unix_time":1}',
        '{"event":"error","kind":"sql","message":"no","sqlstate":"42P01","role":"query","client":3}',
        '{"event":"done","seconds":1,"driver_cpu_seconds":0,"driver_peak_rss_bytes":0,"roles":[]}',
    ]
    program("\n".join(f"echo '{line}'" for line in lines))
    with Driver(SPEC) as driver:
        driver.ready()
        driver.start()
        assert [type(event) for event in driver.events()] == [Measuring, Failure, Done]


def test_an_error_without_done_is_raised(program: Script) -> None:
    lines = [READY, '{"event":"measuring","unix_time":1}', '{"event":"error","kind":"sql","message":"gone"}']
    program("\n".join(f"echo '{line}'" for line in lines))
    with Driver(SPEC) as driver:
        driver.ready()
        with pytest.raises(DriverError, match="gone"):
            list(driver.events())


def test_errors_are_sentences() -> None:
    failure = driver_failure(
        Failure(
            kind="sql",
            message='relation "pi1" does not exist',
            sqlstate="42P01",
            role="query",
            client=2,
            statement="SELECT *\n  FROM pi1",
        )
    )
    assert failure.message == (
        "the server rejected a statement in role query, client 2: "
        'relation "pi1" does not exist (SQLSTATE 42P01)'
    )
    assert failure.hint == "statement: SELECT * FROM pi1"
    script = driver_failure(Failure(kind="script", message="division by zero", file="a.sql", line=3))
    assert script.message == "a.sql:3: division by zero"
    located = Failure(kind="script", message="a.sql:3:7: syntax error", file="a.sql", line=3, column=7)
    assert driver_failure(located).message == "a.sql:3:7: syntax error"


def test_the_driver_ends_with_pgstrata(program: Script, tmp_path: Path) -> None:
    program(f"echo '{READY}'; exec sleep 600")
    code = (
        "import os, sys; from pgstrata.driver.client import Driver\n"
        "from pgstrata.driver.spec import Connection, Spec\n"
        "where = Connection(host='/nowhere', port=1, user='u', database='d')\n"
        "spec = Spec(step='s', seconds=1.0, roles=[], connection=where, seed=1)\n"
        "d = Driver(spec).__enter__(); d.ready(); print(d.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    pid = int(started.stdout)
    for _ in range(100):
        if not psutil.pid_exists(pid):
            break
        time.sleep(0.05)
    assert not psutil.pid_exists(pid)


def test_a_missing_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_DRIVER", "/nowhere/driver")
    with pytest.raises(PgstrataError, match="PGSTRATA_DRIVER"), Driver(SPEC):
        pass


def test_the_real_driver_refuses_another_dialect() -> None:
    with Driver(structs.replace(SPEC, version=99)) as driver, pytest.raises(DriverError) as caught:
        driver.ready()
    assert "version" in caught.value.message

"""Servers that do what no PostgreSQL server would, against the driver, the administrator's session and bench.

Whatever they do ends in a sentence within the time limit, and nothing is left of it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from msgspec import structs

from pgstrata.driver.client import Driver, driver_failure
from pgstrata.driver.events import Failure
from pgstrata.driver.path import find_driver
from pgstrata.driver.spec import Connection, EngineChoice, Mode, Spec, TlsSpec
from pgstrata.errors import PgstrataError
from pgstrata.measure.step import driver_spec
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.session import answering
from pgstrata.workload.core.language import Headline, PgbenchScript, Role, Step
from support.hostile import HUGE, QUERY, START, TLS, Behaviour, Hostile, everything, tls_half
from support.program import environment
from support.tls import Authority

pytestmark = pytest.mark.program

LIMIT = 90.0
"""Seconds after which a client counts as hanging; connecting may take 2, but the machine is shared."""

SCRIPT = "SELECT 1 AS a \\gset\nSELECT :a;\n"

ENGINES: tuple[EngineChoice, ...] = ("auto", "blocking")

_numbers = count()


@contextmanager
def hostile(place: Path, behaviour: Behaviour, decent: int = 0) -> Iterator[Hostile]:
    folder = place / f"h{next(_numbers)}"
    folder.mkdir()
    with Hostile(folder, behaviour, decent) as server:
        yield server


@pytest.fixture
def small_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that dies where it takes more than a gigabyte of address space."""
    path = tmp_path / "driver"
    path.write_text(f'#!/bin/sh\nulimit -v 1000000\nexec "{find_driver()}" "$@"\n')
    path.chmod(0o755)
    monkeypatch.setenv("PGSTRATA_DRIVER", str(path))


def spec_of(
    server: Hostile,
    mode: Mode,
    engine: EngineChoice,
    clients: int,
    connect_seconds: float,
    tls: TlsSpec | None = None,
) -> Spec:
    connection = Connection(
        host="127.0.0.1",
        port=server.port,
        user="me",
        database="d",
        password="canary",
        auth=["none", "password", "md5", "scram-sha-256"],
        connect_timeout_seconds=connect_seconds,
        tls=tls,
    )
    role = Role("q", clients, [PgbenchScript(SCRIPT, "q")], mode=mode, prepare="lazy")
    step = Step("hostile", [role], Headline("q", "operations", "transactions/s"), seconds=0.5)
    return structs.replace(driver_spec(step, connection, 1, engine), overtime_seconds=1.0)


def drive(
    server: Hostile, mode: Mode = "simple", engine: EngineChoice = "auto", tls: TlsSpec | None = None
) -> str:
    """What the driver says of this server; the sentence of its error, or nothing."""
    spec = spec_of(server, mode, engine, 2, 2, tls)
    begun = time.monotonic()
    sentence = ""
    with Driver(spec, silence=LIMIT) as driver:
        pid = driver.pid
        try:
            driver.ready()
            driver.start()
            for event in driver.events():
                sentence = str(driver_failure(event)) if isinstance(event, Failure) else sentence
            driver.close()
        except PgstrataError as error:
            sentence = f"{error.message} {error.hint}"
    assert not psutil.pid_exists(pid)
    assert time.monotonic() - begun < LIMIT
    check(sentence)
    return sentence


def check(text: str) -> None:
    """The rules for every word that a hostile server provokes."""
    for sign in (
        "Traceback",
        "panicked",
        "SIGABRT",
        "SIGSEGV",
        "a defect of pgstrata",
        "silent for",
        "canary",
    ):
        assert sign not in text, text[:2000]
    assert "\x1b" not in text and "\x9b" not in text
    assert len(text) < 20_000


def administer(server: Hostile) -> str:
    """What the administrator's session says of this server."""
    begun = time.monotonic()
    sentence = ""
    try:
        with Conninfo.parse(server.url).connect() as session, answering(session, 2.0):
            session.execute("SELECT 1").fetchall()
    except PgstrataError as error:
        sentence = f"{error.message} {error.hint}"
    assert time.monotonic() - begun < LIMIT
    check(sentence)
    return sentence


def ask(server: Hostile, place: Path, *arguments: str) -> str:
    """What a command that asks this server first of all says of it."""
    command = [sys.executable, "-m", "pgstrata", *arguments]
    begun = time.monotonic()
    done = subprocess.run(
        command, cwd=place, env=environment(), capture_output=True, text=True, errors="replace", timeout=LIMIT
    )
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert time.monotonic() - begun < LIMIT
    check(output)
    return output


def run_on_it(server: Hostile, place: Path) -> str:
    """`pgstrata run` on this server."""
    return ask(server, place, "run", "--server", f"dsn:{server.url}", "--workload", "pgbench", "--no-report")


def capture_statistics(server: Hostile, place: Path) -> str:
    """`pgstrata capture --from-statistics` of this server."""
    return ask(
        server, place, "capture", "--from-statistics", server.url, "-o", str(server.folder / "made.traffic")
    )


def bench(server: Hostile, place: Path) -> tuple[int, str]:
    """`pgstrata bench` for a second against this server; one Ctrl-C ends it where it goes on beyond that."""
    script, output = server.folder / "s.sql", server.folder / "said"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "pgstrata", "bench", "-f", str(script), "-T", "1", "-P", "1", server.url]
    with output.open("wb") as file:
        process = subprocess.Popen(command, cwd=place, env=environment(), stdout=file, stderr=file)
    try:
        ended = _ended(process, lambda: b"progress: 3.0" in output.read_bytes())
        if not ended:
            process.send_signal(signal.SIGINT)
            assert process.wait(LIMIT) == 130
    finally:
        process.kill()
        process.wait()
    text = output.read_bytes().decode(errors="surrogateescape")
    check(text)
    return process.returncode, text


def _ended(process: subprocess.Popen[bytes], until: Callable[[], bool]) -> bool:
    """Whether it ends before something else has happened, which must be one of both."""
    begun = time.monotonic()
    while process.poll() is None:
        if until():
            return False
        assert time.monotonic() - begun < LIMIT
        time.sleep(0.05)
    return True


SOME = [
    "silent",
    "2 GB announced",
    "endless notices",
    "SCRAM with 4 billion rounds",
    "SCRAM with 2 billion rounds",
    "SCRAM that ends early",
    "an error that steers the terminal",
    "an error of 50 MB",
    "a web server",
]


@pytest.mark.usefixtures("small_driver")
@pytest.mark.parametrize("name", [*SOME, "endless rows", "a row of 2 GB", "no answer", "asks for rows"])
def test_the_driver_ends_with_a_sentence(place: Path, name: str) -> None:
    with hostile(place, dict(everything())[name]) as server:
        sentence = drive(server)
    assert sentence


@pytest.mark.parametrize("name", [*SOME, "no answer", "endless rows"])
def test_the_administrators_session_ends_with_a_sentence(place: Path, name: str) -> None:
    with hostile(place, dict(everything())[name]) as server:
        assert administer(server)


@pytest.mark.parametrize(
    "name", ["silent", "an error of 50 MB", "an error that steers the terminal as an answer"]
)
def test_bench_ends_with_a_sentence(place: Path, name: str) -> None:
    # What is asked meets the driver: the administrator's session of bench asks nothing here.
    with hostile(place, dict(everything())[name], decent=int(name in QUERY)) as server:
        code, output = bench(server, place)
    assert code == 1 and output.count("error:") == 1
    assert len(output) < 10_000


@pytest.mark.parametrize("name", ["no answer", "copies both ways", "messages that nobody knows"])
@pytest.mark.parametrize(
    "command", [run_on_it, capture_statistics, lambda server, place: bench(server, place)]
)
def test_what_a_command_asks_first_is_answered_or_it_ends(
    place: Path, name: str, command: Callable[[Hostile, Path], Any]
) -> None:
    """None of them tells the server its application's name, so each has to ask whether it has one."""
    with hostile(place, QUERY[name]) as server:
        command(server, place)


@pytest.mark.parametrize(
    "name", ["endless rows", "endless notices as an answer", "copies out without an end"]
)
@pytest.mark.parametrize("engine", ["auto", "blocking"])
def test_an_answer_without_an_end_does_not_outlast_the_step(
    place: Path, name: str, engine: EngineChoice
) -> None:
    with hostile(place, QUERY[name]) as server:
        spec = structs.replace(
            spec_of(server, "simple", engine, 2, 2), overtime_seconds=600.0, answer_overtime_seconds=0.5
        )
        with Driver(spec, silence=LIMIT) as driver:
            driver.ready()
            driver.start()
            events = list(driver.events())
    failures = [event for event in events if isinstance(event, Failure)]
    assert [failure.kind for failure in failures] == ["overtime"]
    assert "goes on arriving" in failures[0].message


def test_bench_ends_where_an_answer_does_not(place: Path) -> None:
    with hostile(place, QUERY["endless rows"], decent=1) as server:
        script = server.folder / "s.sql"
        script.write_text("SELECT 1;\n")
        command = [sys.executable, "-m", "pgstrata", "bench", "-f", str(script), "-T", "1", server.url]
        done = subprocess.run(
            command, cwd=place, env=environment(), capture_output=True, text=True, timeout=LIMIT
        )
    check(done.stdout + done.stderr)
    assert done.returncode == 1 and "goes on arriving" in done.stderr


def test_short_questions_take_little_memory(place: Path) -> None:
    with (
        hostile(place, QUERY["endless rows"]) as server,
        Conninfo.parse(server.url).connect() as session,
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(PgstrataError, match="takes more than 16 MB"),
    ):
        patch.setattr("pgstrata.server.connect.session.MOST_ANSWER_BYTES", 16 << 20)
        with answering(session, LIMIT):
            session.execute("SELECT 1")


def test_time_limits_and_sizes_are_named(place: Path) -> None:
    wanted = {
        "silent": "not done after 2 s (connect_timeout)",
        "2 GB announced": "message 'R' of impossible length",
        "100 KB before authentication": "message 'N' of 100007 bytes during start-up",
        "SCRAM with 4 billion rounds": "rounds of SCRAM's hash",
        "an error of 50 MB": "cut after 4000 bytes",
    }
    for name, words in wanted.items():
        words = words.replace("impossible length", "2147483647 bytes during start-up")
        with hostile(place, START[name]) as server:
            assert words in drive(server), name


def test_a_driver_that_connects_ends_with_its_standard_input(place: Path) -> None:
    with hostile(place, START["silent"]) as server:
        driver = subprocess.Popen(
            [str(find_driver()), "run"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert driver.stdin
        driver.stdin.write(msgspec.json.encode(spec_of(server, "simple", "auto", 1, 600)) + b"\n")
        driver.stdin.flush()
        until = time.monotonic() + LIMIT
        while not psutil.Process(driver.pid).net_connections() and time.monotonic() < until:
            time.sleep(0.02)
        assert driver.poll() is None
        driver.stdin.close()
        assert driver.wait(LIMIT) == 1


@pytest.mark.usefixtures("small_driver")
@pytest.mark.parametrize("name", [*TLS, "TLS, then half of the server's part"])
def test_a_handshake_of_tls_that_never_ends_is_left(place: Path, name: str) -> None:
    """By the driver with both engines, and by libpq; no byte that arrives begins the time anew."""
    behaviour = TLS.get(name)
    if behaviour is None:
        signed = Authority(place).sign("localhost", "IP:127.0.0.1")
        behaviour = tls_half(signed.certificate, signed.key)
    for engine in ENGINES:
        with hostile(place, behaviour) as server:
            begun = time.monotonic()
            sentence = drive(server, engine=engine, tls=TlsSpec(server_name="localhost", mode="require"))
            assert sentence and time.monotonic() - begun < 30, sentence
    for mode in ("require", "prefer"):
        with hostile(place, behaviour) as server:
            begun = time.monotonic()
            with pytest.raises(PgstrataError) as error:
                Conninfo.parse(f"{server.url}&sslmode={mode}").connect()
            check(f"{error.value.message} {error.value.hint}")
            assert time.monotonic() - begun < 30


def test_the_behaviours_are_many() -> None:
    assert len(dict(everything())) == len(START) + len(QUERY) >= 90
    assert HUGE == 50_000_000


@pytest.mark.slow
@pytest.mark.usefixtures("small_driver")
@pytest.mark.timeout(0)
def test_every_behaviour_against_driver_administrator_and_bench(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them; the driver with both protocols and engines; bench when its first connection and
    when only its second one meets the server."""
    clients: dict[str, Callable[[Hostile], Any]] = {
        "driver, simple, io_uring": lambda server: drive(server, "simple", "auto"),
        "driver, simple, blocking": lambda server: drive(server, "simple", "blocking"),
        "driver, prepared, io_uring": lambda server: drive(server, "prepared", "auto"),
        "driver, prepared, blocking": lambda server: drive(server, "prepared", "blocking"),
        "administrator": administer,
        "bench, first connection": lambda server: bench(server, place),
        "bench, second connection": lambda server: bench(server, place),
        "run, first connection": lambda server: run_on_it(server, place),
        "run, second connection": lambda server: run_on_it(server, place),
        "statistics": lambda server: capture_statistics(server, place),
    }

    def attempt(case: tuple[str, str, Behaviour]) -> str | None:
        client, name, behaviour = case
        try:
            with hostile(place, behaviour, decent=int("second" in client)) as server:
                clients[client](server)
        except Exception as error:
            return f"{client}: {name}: {type(error).__name__}: {error}"
        return None

    cases = [(client, name, behaviour) for client in clients for name, behaviour in everything()]
    with ThreadPoolExecutor(4) as pool:
        failures = [failure for failure in pool.map(attempt, cases) if failure]
    with capsys.disabled():
        print(f"\n{len(dict(everything()))} behaviours, {len(clients)} clients: {len(cases)} meetings, "
              f"{len(failures)} that did not end as they should")  # fmt: skip
    assert not failures, "\n".join(failures)

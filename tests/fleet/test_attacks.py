"""Attacks on a fleet: users without its key get no answer, and its holders get typed tasks only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dask
import psutil
import pytest
from distributed import Client, Worker, WorkerPlugin
from distributed.protocol import pickle as engine_pickle
from distributed.security import Security

from pgstrata.fleet import restricted
from pgstrata.fleet.certificates import certificates_in, make_certificates
from pgstrata.fleet.perform import perform
from pgstrata.fleet.tasks import Look, SeenMachine, decode_answer, encode
from support.fleet import engine_at
from support.needs import needs
from support.program import environment

NOBODY = 65534


HOLDING = """
import sys, time
from pgstrata.fleet.local import local_fleet
if __name__ == "__main__":
    with local_fleet(1) as address:
        print(address, flush=True)
        time.sleep(600)
"""


def holding(place: Path) -> subprocess.Popen[bytes]:
    """A process that keeps a fleet; its temporary files are in `temporary`."""
    (script := place / "holding.py").write_text(HOLDING)
    (place / "work").mkdir()
    (place / "temporary").mkdir()
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=place / "work",
        env=environment(TMPDIR=str(place / "temporary")),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def address_of(client: subprocess.Popen[bytes]) -> str:
    assert client.stdout is not None
    address = client.stdout.readline().decode().strip()
    assert address.startswith("tls://")
    return address


@dataclass
class Fleet:
    """A fleet that another process keeps, and its folder."""

    address: str
    folder: Path
    pid: int


@pytest.fixture(scope="module")
@needs("program")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    place = tmp_path_factory.mktemp("fleet")
    keeper = holding(place)
    try:
        address = address_of(keeper)
        (folder,) = (place / "temporary").iterdir()
        with dask.config.set(certificates_in(folder).settings()):
            yield Fleet(address, folder, keeper.pid)
    finally:
        keeper.terminate()
        keeper.wait(60)


def connected(address: str) -> Client:
    return Client(address, security=Security(), set_as_default=False, timeout=20)


def command_for(marker: Path) -> str:
    """A shell command that notes which process ran it: the attacker's own does not count."""
    return f"echo $PPID >> {marker}"


class _Runs:
    """A pickle that creates a file where it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (command_for(self._path),)


@pytest.mark.program
def test_the_key_is_private(fleet: Fleet) -> None:
    assert stat.S_IMODE(fleet.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((fleet.folder / "fleet.key").stat().st_mode) == 0o600


ATTACK = """
import os, sys
import distributed, distributed.comm.tcp, distributed.deploy, asyncio, concurrent.futures
from distributed import Client
from distributed.security import Security
address, marker, certificate, key = sys.argv[1:]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
secure = None
if certificate:
    secure = Security(require_encryption=True, tls_ca_file=certificate, tls_client_cert=certificate,
                      tls_client_key=key)
for where, security in ((address, secure), (address.replace("tls://", "tcp://"), None)):
    try:
        with Client(where, security=security, timeout=5, set_as_default=False) as client:
            print("connected")
            for attack in (lambda: client.run_on_scheduler(os.system, f"touch {marker}"),
                           lambda: client.run(os.system, f"touch {marker}"),
                           lambda: client.submit(os.system, f"touch {marker}").result(timeout=5)):
                try:
                    attack()
                    print("done")
                except BaseException as error:
                    print("refused", repr(error)[:200])
    except BaseException as error:
        print("no connection", repr(error)[:200])
"""


@pytest.mark.program
@pytest.mark.skipif(os.geteuid() != 0, reason="takes the place of another user")
@pytest.mark.parametrize("certificate", ["none", "its own", "the fleet's"])
def test_another_user_gets_nothing(fleet: Fleet, certificate: str) -> None:
    """Without a certificate, with one of its own making, and with a stolen one, which shows that the others
    failed for lack of it."""
    place = Path(tempfile.mkdtemp(prefix="attacker-", dir="/tmp"))
    try:
        if certificate == "its own":
            make_certificates(place)
        elif certificate == "the fleet's":
            for path in fleet.folder.glob("fleet.*"):
                shutil.copy(path, place)
        for path in (place, *place.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        files = certificates_in(place)
        shown = ("", "") if certificate == "none" else (files.certificate, files.key)
        marker = place / "marker"
        done = subprocess.run(
            [sys.executable, "-c", ATTACK, fleet.address, str(marker), *shown],
            cwd="/",
            env={**environment(), "HOME": "/", "DASK_CONFIG": str(place)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        connections = 1 if certificate == "the fleet's" else 0
        assert done.stdout.count("connected") == connections, done.stdout + done.stderr
        assert done.stdout.count("no connection") == 2 - connections
        assert done.stdout.count("refused") == 3 * connections and "done" not in done.stdout
        assert not marker.exists()
    finally:
        shutil.rmtree(place)


def attempts(client: Client, marker: Path) -> dict[str, Any]:
    command = command_for(marker)

    def run() -> None:
        os.system(command)

    async def ask(op: str, **values: Any) -> None:
        assert client.scheduler is not None
        await getattr(client.scheduler, op)(**values)

    text = engine_pickle.dumps(_Runs(marker))
    return {
        "a lambda": lambda: client.submit(lambda: os.system(command)).result(timeout=15),
        "a function of Python's": lambda: client.submit(os.system, command).result(timeout=15),
        "an argument": lambda: client.submit(perform, _Runs(marker)).result(timeout=15),
        "a graph": lambda: client.get({"x": (os.system, command)}, "x", timeout=15),
        "run": lambda: client.run(os.system, command),
        "run, on the nanny": lambda: client.run(os.system, command, nanny=True),
        "run, a closure": lambda: client.run(run),
        "run_on_scheduler": lambda: client.run_on_scheduler(os.system, command),
        "scatter": lambda: client.scatter(_Runs(marker)),
        "a plug-in": lambda: client.register_plugin(_Plugin(command)),
        "upload_file": lambda: client.upload_file(__file__),
        "feed": lambda: client.sync(ask, "feed", function=text, setup=text),
        "a plug-in of the scheduler": lambda: client.sync(ask, "register_scheduler_plugin", plugin=text),
        "a dump": lambda: client.dump_cluster_state(f"file://{marker}"),
        "a pickle as a value": lambda: client.sync(ask, "set_metadata", keys=["x"], value=_Runs(marker)),
    }


class _Plugin(WorkerPlugin):
    def __init__(self, command: str) -> None:
        self._command = command

    def setup(self, worker: Worker) -> None:
        os.system(self._command)


NAMES = (
    *("a lambda", "a function of Python's", "an argument", "a graph", "run", "run, on the nanny"),
    *("run, a closure", "run_on_scheduler", "scatter", "a plug-in", "upload_file", "feed"),
    *("a plug-in of the scheduler", "a dump", "a pickle as a value"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_holder_of_the_key_executes_nothing(fleet: Fleet, tmp_path: Path, name: str) -> None:
    marker = tmp_path / "marker"
    client = connected(fleet.address)
    try:
        with contextlib.suppress(BaseException):
            ended = attempts(client, marker)[name]()
            # What ends without an error has done nothing: the next lines look.
            del ended
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=5)
    time.sleep(0.3)
    ran_by = {int(pid) for path in tmp_path.glob("marker*") for pid in path.read_text().split()}
    assert ran_by <= {os.getpid()}  # tokens of arguments are made by the attacker itself
    with engine_at(fleet.address, "afterwards", perform) as engine:
        (worker,) = engine.workers()
        call = engine.ask(worker, "look", encode(Look(data_dir=None, servers=())))
        answered = engine.answers.get(timeout=60)
        answer = engine.answer(answered)
        assert answered is call and answer is not None
        assert isinstance(decode_answer(answer), SeenMachine)  # the fleet serves as before


@pytest.mark.parametrize("value", [os.system, partial(os.system, "true"), _Runs, Path("/"), eval, getattr])
def test_what_is_not_unpickled(value: object) -> None:
    with pytest.raises(restricted.RefusedError, match="is no part of a task"):
        restricted.loads(engine_pickle.dumps(value))


def test_a_task_is_done_by_workers_only() -> None:
    """A pickle may call what it names: nothing is looked at where it is unpickled."""
    from pgstrata.fleet.tasks import Unable

    answer = decode_answer(perform(encode(Look(data_dir=None, servers=()))))
    assert isinstance(answer, Unable) and "by a worker" in answer.message


def test_nothing_listens_but_scheduler_and_workers(fleet: Fleet) -> None:
    """No pages: they ask nobody who he is."""
    here = psutil.Process(fleet.pid)
    ports = set()
    for process in (here, *here.children(recursive=True)):
        ports |= {c.laddr.port for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert len(ports) == 3  # scheduler, nanny, worker
    for port in ports:
        assert asyncio.run(_speaks_plain_http(port)) is False, port


async def _speaks_plain_http(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        answer = await asyncio.wait_for(reader.read(10), 10)
        return answer.startswith(b"HTTP")
    return False


@pytest.mark.program
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_behind(tmp_path: Path, number: signal.Signals) -> None:
    keeper = holding(tmp_path)
    address_of(keeper)
    (folder,) = (tmp_path / "temporary").glob("pgstrata-fleet-*")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    keeper.send_signal(number)
    keeper.wait(60)
    until = time.monotonic() + 30
    while _below(tmp_path) and time.monotonic() < until:
        time.sleep(0.1)
    assert _below(tmp_path) == []


def _below(place: Path) -> list[Path]:
    return [*(place / "temporary").iterdir(), *(place / "work").iterdir()]

"""What all tests share: real servers, short folders an unprivileged account can reach, the program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

import pgstrata as package
from pgstrata.errors import PgstrataError
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.source.build import BuiltServer, build
from pgstrata.source.tree import tree_of_archive
from support.built import QUICK, pgvector_source, quick_build, write_hello
from support.disks import ON_DISK, small_disk
from support.forks import run_pgstrata
from support.needs import mark_by_fixtures, missing_mark, needs
from support.order import Durations, place_in_order
from support.program import Program, Running, environment, living_in
from support.schemas import check_printed
from support.sources import debian_archive
from support.templates import copy_templates, forget, make_folder

# Programs that tests start end by SIGHUP, also where the tests were started with nohup.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# Tests run beside each other: what numpy would do in threads of their own waits for CPUs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Programs that tests start import the same code as the tests, whatever folder they are started in.
os.environ["PYTHONPATH"] = str(Path(package.__file__).parents[1])

# how long one example takes says more about what else the machine is doing than about the code
settings.register_profile("pgstrata", deadline=None)
settings.load_profile("pgstrata")


COMPILES = frozenset({"pg17_built", "built_variant"})
"""Fixtures of tests that compile servers: minutes of a CPU, and many beside other tests."""

LONGEST_SECONDS = 1800

_running: list[pytest.Item] = []
"""The test that is set up or runs; none while fixtures end: some of them were made for other tests."""

# What a shell starts in the background ignores Ctrl-C, and so would every program that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Has clusters of tests, and of what they fork, begin as copies, and durations of files told."""
    if (folder := make_folder()) is not None:
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
    copy_templates()
    config.pluginmanager.register(Durations())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_by_fixtures(items)
    items.sort(key=place_in_order)
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if COMPILES.intersection(fixtures) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONGEST_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _answers(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _answers(item):
        return (yield)


@contextmanager
def _answers(item: pytest.Item) -> Iterator[None]:
    """What starts meanwhile is started by this test."""
    _running[:] = [item]
    try:
        yield
    finally:
        _running.clear()


def _starts(event: str, arguments: tuple[Any, ...]) -> None:
    """Fails a test that starts a program without a mark, when it does: `make quick` would run it."""
    if _running and (message := missing_mark(_running[0], event, arguments)):
        pytest.fail(message, pytrace=False)


sys.addaudithook(_starts)


def _server(version: str) -> Server:
    try:
        return acquire(f"pg:{version}")
    except PgstrataError as error:
        pytest.fail(
            f"PostgreSQL {version} is neither in the cache nor can it be fetched ({error.message}): "
            f"run `pgstrata servers fetch {version}` once with a network",
            pytrace=False,
        )


@pytest.fixture(scope="session")
@needs("server")
def pg17() -> Server:
    """A current server, fetched once and then used from the cache."""
    return _server("17")


@pytest.fixture(scope="session")
@needs("server")
def pg13() -> Server:
    """The oldest that tells the parameters of statements that fail."""
    return _server("13")


@pytest.fixture(scope="session")
@needs("server")
def pg12() -> Server:
    """An old server that many still run."""
    return _server("12")


@pytest.fixture(scope="session")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An extension of five lines."""
    return write_hello(tmp_path_factory.mktemp("pgxs") / "hello")


@pytest.fixture(scope="session")
@needs("server")
def pgvector() -> Path:
    """The source of pgvector."""
    return pgvector_source()


@pytest.fixture(scope="session")
@needs("server")
def pg17_built(hello: Path, pgvector: Path) -> BuiltServer:
    """PostgreSQL 17 built from source with a module and two extensions: a minute or two on a new machine, and
    one server for all who need one; then it is in the cache."""
    return build(tree_of_archive(debian_archive(17, "trixie")), quick_build(hello, pgvector))


@pytest.fixture(scope="session")
@needs("server")
def built_variant(hello: Path, pgvector: Path) -> str:
    """The same server as a variant of a campaign, called `built`."""
    return (
        f'[builds.quick]\ncflags = "{QUICK}"\n'
        f'[[variants]]\nserver = "tar:{debian_archive(17, "trixie")}"\nlabel = "built"\nbuild = "quick"\n'
        f'contrib = ["pg_prewarm"]\nextensions = ["{hello}", "{pgvector}"]\n'
    )


@pytest.fixture
def empty_cache(place: Path) -> str:
    """A cache in which nothing lies."""
    return str(place / "cache")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short name (socket paths end at 107 bytes) that every account can enter.

    At its end no process may be left that lives in it.
    """
    with _new_place("/tmp") as folder:
        yield folder


@pytest.fixture
def place_on_disk() -> Iterator[Path]:
    """Another such folder, on no file system in memory where there is a disk."""
    with _new_place(ON_DISK) as folder:
        yield folder


def _words_of(process: psutil.Process) -> str:
    """Returns what a process was started with; empty where it has ended meanwhile."""
    try:
        return f"{process.pid}: {' '.join(process.cmdline())}"
    except psutil.NoSuchProcess:
        return ""


@contextmanager
def _new_place(parent: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pgs", dir=parent))
    folder.chmod(0o755)
    try:
        yield folder
        assert not list(filter(None, map(_words_of, living_in(folder))))
    finally:
        for process in living_in(folder):
            with suppress(psutil.Error):  # it has ended meanwhile
                process.kill()
        forget(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
@needs("program")
def pgstrata(place: Path) -> Program:
    """Runs the program in `place` and returns what it printed and its exit code."""

    def call(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        line = list(map(str, arguments))
        done = run_pgstrata(line, place, environment(**more), LONGEST_SECONDS)
        check_printed(line, done.stdout)
        return done

    return call


@pytest.fixture
@needs("program")
def start(place: Path) -> Iterator[Callable[..., Running]]:
    """Starts pgstrata in `place` and does not wait for it."""
    begun: list[Running] = []

    def begin(*arguments: str | Path) -> Running:
        begun.append(Running(place, [str(a) for a in arguments]))
        return begun[-1]

    yield begin
    for running in begun:
        if running.process.poll() is None:
            os.kill(running.process.pid, signal.SIGTERM)
            running.process.wait(240)


@pytest.fixture(name="small_disk")
@needs("program")
def disk_of_160_mb(place: Path) -> Iterator[Path]:
    """A file system of 160 MB of its own, which can be filled."""
    with small_disk(place / "disk", "160m") as folder:
        yield folder

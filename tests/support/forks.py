"""pgstrata in a process of its own that need not import it first, which takes as long as many a command.

A server, one of each process with tests, has imported what most commands need, and forks for each call. The
fork is a process like any other, with its own arguments, folder, environment and files.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

IMPORTED = (
    *("jinja2", "numpy", "psycopg"),
    *("pgstrata.cli.main", "pgstrata.cli.run", "pgstrata.cli.compare"),
    *("pgstrata.campaign.file.reading", "pgstrata.judge.sides", "pgstrata.measure.campaign"),
    "pgstrata.report.write",
)
"""Modules that are imported before a fork. None starts a thread, which a fork would lose: DuckDB does."""

AT_START = ("LANG", "LC_", "LD_", "PYTHON", "TZ")
"""Beginnings of variables that Python and libraries read when they start: a fork does not see a change."""


def run_pgstrata(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Runs pgstrata to its end; returns its exit code and what it has printed.

    Raises subprocess.TimeoutExpired, after which it runs no more.
    """
    from support.program import environment as usual_environment

    if not _servers:
        _servers.append(_Server(usual_environment()))
    server = _servers[0]
    if server.is_busy or server.at_start != _at_start(environment):
        return subprocess.run(
            [sys.executable, "-m", "pgstrata", *arguments],
            cwd=folder,
            env=environment,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )
    try:
        return server.run(arguments, folder, environment, timeout)
    except BaseException:  # a test that takes too long is ended by an exception, wherever it is
        _servers.remove(server)
        server.end()
        raise


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


def cpu_seconds() -> float:
    """Returns the CPU time of the process that forks and of all that it has forked and waited for."""
    fields = (Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split() for server in _servers)
    return sum(sum(map(int, line[11:15])) for line in fields) / os.sysconf("SC_CLK_TCK")


class _Server:
    """The process that forks, and the one that it has forked."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.at_start = _at_start(environment)
        self.is_busy = False
        self._socket, theirs = socket.socketpair()
        self._line = self._socket.makefile("rwb")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                cwd="/",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._forked = 0

    @property
    def pid(self) -> int:
        """Returns the number of the process that forks."""
        return self._process.pid

    def run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        self.is_busy = True
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.NamedTemporaryFile()) for _ in range(2)]
            asked = [list(arguments), os.fspath(folder), dict(environment), [file.name for file in files]]
            self._line.write(json.dumps(asked).encode() + b"\n")
            self._line.flush()
            self._forked = self._answer()
            self._socket.settimeout(timeout)
            try:
                code = self._answer()
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(arguments), timeout) from None
            self._socket.settimeout(None)
            printed = [Path(file.name).read_text(encoding="utf-8") for file in files]
        self._forked, self.is_busy = 0, False
        return subprocess.CompletedProcess(arguments, code, *printed)

    def _answer(self) -> int:
        line = self._line.readline()
        assert line, "the process that forks has ended"
        return int(line)

    def end(self) -> None:
        """Ends the process that it has forked, if one runs, and itself."""
        if self._forked:
            with suppress(ProcessLookupError):
                os.kill(self._forked, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._socket.close()


_servers: list[_Server] = []


# --- in the process that forks --------------------------------------------------------------------


def _serve(line: socket.socket) -> None:
    """Forks for each line until there is none; returns in each fork, which is pgstrata from then on."""
    with line, line.makefile("rwb") as asked:
        while text := asked.readline():
            pid = os.fork()
            if pid == 0:
                break
            asked.write(b"%d\n" % pid)
            asked.flush()
            _, status = os.waitpid(pid, 0)
            asked.write(b"%d\n" % os.waitstatus_to_exitcode(status))
            asked.flush()
        else:
            sys.exit()
    arguments, folder, environment, files = json.loads(text)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, name in enumerate(files, 1):
        file = os.open(name, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    sys.path.insert(0, folder)  # as `python -m` does
    sys.argv[1:] = arguments


def _main() -> None:
    """What `python -m pgstrata` does, with its modules there already."""
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    for name in IMPORTED:
        importlib.import_module(name)
    sys.path.append(str(Path(__file__).parents[1]))
    from support.templates import copy_templates

    copy_templates()
    sys.path.pop()
    assert len([*Path("/proc/self/task").iterdir()]) == 1
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from pgstrata.__main__ import run

    run()


if __name__ == "__main__":
    _main()

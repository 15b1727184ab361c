"""Runs the commands of a build: without privileges, into its log, niced, with a limit; none outlives
pgstrata."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pgstrata.child_end import ends_within
from pgstrata.errors import BuildError, ServerError
from pgstrata.server.system.account import server_account
from pgstrata.server.system.isolation import becoming
from pgstrata.server.system.process import spawn
from pgstrata.source.failure import FULL, first_errors, log_end

SILENT_SECONDS = 900.0
"""A command that says nothing for so long hangs."""
LIMIT_SECONDS = 7200.0
"""Most time for one command, `PGSTRATA_BUILD_SECONDS` for another limit."""
NICE = 5
POLL_SECONDS = 0.1
GONE_SECONDS = 1.0
"""Most time for killed processes to be gone."""
_LOG_MOST = 64 << 20


def limit_seconds() -> float:
    """Returns the time limit of a single command of a build, in seconds."""
    try:
        return max(1.0, float(os.environ["PGSTRATA_BUILD_SECONDS"]))
    except (KeyError, ValueError):
        return LIMIT_SECONDS


def build_environment(folder: Path) -> dict[str, str]:
    """Returns the environment of a build, small, so that no CFLAGS or MAKEFLAGS of the user's decides the
    result.

    folder: of the build; what a compiler that is killed leaves behind goes with it.
    """
    temporary, home = folder / "tmp", folder / "home"
    temporary.mkdir()
    home.mkdir()
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}
    for name in ("CCACHE_DIR", "LD_LIBRARY_PATH"):
        # As root the compiler's cache is one of the account's own.
        if (value := os.environ.get(name)) and not (name == "CCACHE_DIR" and server_account()):
            env[name] = value
    return {**env, "TMPDIR": str(temporary), "HOME": str(home)}


class Shell:
    """Runs the commands of one build, one after the other, into one log.

    heard gets every new line of the log; check is called several times a second and may raise to end
    the build.
    """

    def __init__(
        self,
        log: Path,
        env: Mapping[str, str],
        heard: Callable[[str], None] = lambda line: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.log, self.env, self.heard, self._check = log, dict(env), heard, check

    def run(self, command: Sequence[str], folder: Path, what: str) -> None:
        """Runs a command in a folder. Raises BuildError with what its log says when it fails or hangs."""
        with self.log.open("ab") as log:
            log.write(f"\n$ {' '.join(command)}\n".encode(errors="surrogateescape"))
            log.flush()
            begin = log.tell()
            try:
                process = spawn(
                    ["nice", "-n", str(NICE), *command],
                    account=None,
                    become=becoming(server_account()),
                    folder=folder,
                    env=self.env,
                    output=log,
                    death_signal=signal.SIGTERM,
                )
            except OSError as error:
                raise BuildError(f"{what}: {command[0]} cannot be started: {error}", lasting=False) from error
        ended = False
        try:
            with _watched(process.pid):
                self._listen(process, begin, what)
                ended = True
        finally:
            if not ended:
                _end_group(process)
        if process.returncode != 0:
            raise self.failure(what, begin, process.returncode)

    def _listen(self, process: subprocess.Popen[bytes], at: int, what: str) -> None:
        begun = heard = time.monotonic()
        limit, rest = limit_seconds(), b""
        with self.log.open("rb") as log, _end_of(process.pid) as end:
            log.seek(at)
            while True:
                over = process.poll() is not None
                if new := log.read():
                    heard = time.monotonic()
                    *lines, rest = (rest + new).split(b"\n")
                    for line in lines:
                        self.heard(line.decode(errors="replace"))
                if over:
                    return
                self._check()
                now = time.monotonic()
                silent = min(SILENT_SECONDS, limit)
                if now - begun > limit or now - heard > silent or log.tell() > _LOG_MOST:
                    raise self._hung(what, now - begun, now - heard, log.tell())
                end.poll(POLL_SECONDS * 1000)

    def _hung(self, what: str, seconds: float, silent: float, size: int) -> BuildError:
        why = f"did not end within {seconds:.0f} s"
        if size > _LOG_MOST:
            why = f"wrote more than {_LOG_MOST >> 20} MB of messages"
        elif silent >= SILENT_SECONDS:
            why = f"said nothing for {silent:.0f} s"
        return BuildError(
            f"{what} {why} and was ended",
            "PGSTRATA_BUILD_SECONDS sets another limit",
            log_end=log_end(self.text(0)),
        )

    def failure(self, what: str, begin: int, code: int) -> BuildError:
        """Returns the error for a failed command, with the reason from its part of the log."""
        text = self.text(begin)
        errors = first_errors(text)
        if FULL in text:
            return BuildError(
                f"no space left on the disk while {what}",
                "make room, or name another place with PGSTRATA_CACHE",
                lasting=False,
                errors=errors,
                log_end=log_end(text),
            )
        killed = code < 0 or "Killed" in text
        return BuildError(
            f"{what} failed: {errors[0] if errors else f'exit code {code}'}",
            lasting=not killed,
            errors=errors,
            log_end=log_end(text),
        )

    def text(self, begin: int) -> str:
        """Returns the log from an offset on, only its end if it is long."""
        try:
            with self.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(begin, size - (4 << 20)))
                return log.read().decode(errors="replace")
        except OSError as error:
            raise ServerError(f"{self.log} cannot be read: {error.strerror}") from error


@contextlib.contextmanager
def _end_of(pid: int) -> Iterator[select.poll]:
    """Wakes up at the end of a process: a build has dozens of commands, and none is waited for in vain."""
    ended = os.pidfd_open(pid)
    try:
        wait = select.poll()
        wait.register(ended, select.POLLIN)
        yield wait
    finally:
        os.close(ended)


@contextlib.contextmanager
def _watched(group: int) -> Iterator[None]:
    """Lets a process group end with pgstrata, however that ends.

    The kernel tells of a parent's death only its own child; a compiler is a child of a child of make's.
    So another process waits at a pipe whose other end dies with us.
    """
    watcher = subprocess.Popen(
        ["sh", "-c", 'read -r over || kill -KILL "-$0"', str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            watcher.communicate(b"over\n", timeout=1)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a command and what it started, which share a session of their own."""
    for number, seconds in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        ends_within(process, seconds)
    # What was killed is gone only when the kernel has come to it; the folder of the build is removed next.
    until = time.monotonic() + GONE_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < until:
            os.killpg(process.pid, 0)
            time.sleep(0.01)


__all__ = ["Shell", "build_environment", "limit_seconds"]

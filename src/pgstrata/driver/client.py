"""Starts `pgstrata-driver` and speaks its two dialects (docs/reference/driver.md); nothing else.

    with Driver(spec) as driver:
        ready = driver.ready()
        driver.start()
        for event in driver.events():
            ...
        driver.close()

Leaving the block ends the driver, whatever happened inside it. Should pgstrata itself die, the
kernel ends the driver (PR_SET_PDEATHSIG), and so does the end of file on its standard input.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO

import msgspec

from pgstrata.child_end import ends_within
from pgstrata.driver.events import Done, Event, Failure, Measuring, Ready
from pgstrata.driver.path import find_driver
from pgstrata.driver.spec import Spec
from pgstrata.errors import DriverError, harmless
from pgstrata.layout import not_randomized

DIALECT = 1
"""Version of both dialects this module speaks."""

READY_SECONDS = 600.0
"""How long connecting, preparing and the roles' `start` statements may take."""

SILENCE_SECONDS = 60.0
"""Longest silence of a measuring driver, which owes one event per second."""

_EVENT: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)

_PR_SET_PDEATHSIG = 1
# Loaded here: between fork and exec nothing may be imported, another thread could hold the lock.
_LIBC = ctypes.CDLL(None, use_errno=True)

__all__ = ["DIALECT", "Driver", "decode", "driver_failure", "find_driver"]


def decode(line: bytes) -> Event:
    """Returns the event of a line. Raises msgspec.MsgspecError where it is none."""
    return _EVENT.decode(line)


def _begin() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # It is the same program on all sides, and no speed of its own may be taken for theirs.
    not_randomized()


def driver_failure(failure: Failure) -> DriverError:
    """Returns the driver's `error` event as an error with a sentence for people."""
    who = f" in role {failure.role}" if failure.role else ""
    if failure.role and failure.client is not None:
        who += f", client {failure.client}"
    message = failure.message
    if failure.sqlstate:
        message += f" (SQLSTATE {failure.sqlstate})"
    match failure.kind:
        case "sql":
            sentence = f"the server rejected a statement{who}: {message}"
        case "connection":
            sentence = f"the connection to the server broke{who}: {message}"
        case "script" | "overtime":
            sentence = message
        case "spec":
            sentence = f"the driver does not accept the step: {message}"
        case "io":
            sentence = f"the driver failed{who}: {message}"
    # A script that does not compile has told its place in its message.
    if failure.file and failure.column is None:
        sentence = f"{failure.file}:{failure.line}: {sentence}"
    named = (("DETAIL", failure.detail), ("HINT", failure.hint))
    details = [f"{name}:  {text}" for name, text in named if text]
    if failure.statement:
        text = " ".join(failure.statement.split())
        details.append(f"statement: {text[:300]}{'…' if len(text) > 300 else ''}")
    return DriverError(
        harmless(sentence),
        harmless("; ".join(details)),
        kind=failure.kind,
        sqlstate=failure.sqlstate,
        server_message=failure.message,
        statement=failure.statement or "",
    )


class Driver:
    """One driver process, which runs one step.

    Raises DriverError wherever the driver is missing, says `error` before the clock has started,
    speaks another dialect, stays silent for longer than it may, or ends without `done`.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        silence: float = SILENCE_SECONDS,
        cpus: Sequence[int] = (),
        stderr: IO[bytes] | None = None,
    ) -> None:
        """Prepares a driver without starting it. stderr: where `debug()` and `\\shell` of a script print;
        None keeps it for messages of ours."""
        self.spec = spec
        self.cpus = tuple(cpus)
        self.silence = silence
        self.others_seconds = 0.0
        """For how long it may be frozen at a time, and has nothing to say."""
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = stderr
        self._own_stderr = stderr is None
        self._buffer = b""
        self._lines: list[bytes] = []

    # --- the process --------------------------------------------------------------------------

    def __enter__(self) -> Driver:
        binary = find_driver()
        if self._own_stderr:
            self._stderr = tempfile.TemporaryFile()  # a file, not a pipe: nobody has to drain it
        try:
            self._process = subprocess.Popen(
                [str(binary), "run"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                # Ctrl-C of a terminal goes to its whole foreground group: pgstrata stops the driver.
                start_new_session=True,
                preexec_fn=_begin,
            )
        except OSError as error:
            self._close_stderr()
            raise DriverError(f"{binary} cannot be started: {error.strerror}") from error
        if self.cpus:
            # It starts threads only once it knows its spec, so all of them inherit this.
            with suppress(ProcessLookupError):
                os.sched_setaffinity(self._process.pid, self.cpus)
        self._send(msgspec.json.encode(self.spec))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        self._close_stdin()
        if not ends_within(process, 5.0 if kind is None else 2.0):
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
        self._close_stderr()

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    # --- what it is told ----------------------------------------------------------------------

    def start(self, at: int | None = None) -> None:
        """Opens the barrier. at: zero of a step in windows, in nanoseconds of the monotonic clock."""
        self._tell(command="start", **({} if at is None else {"at": at}))

    def stretches_are(self, operations: int) -> None:
        """Sets how many operations of a connection make a stretch; `stretch` follows at the end of each. May
        be called from any thread."""
        self._tell(command="stretch", operations=operations)

    def give_slice(self, seconds: float) -> None:
        """Lets transactions begin for so many seconds; `slice` follows when the last of them has ended. From
        any thread."""
        self._tell(command="slice", seconds=seconds)

    def stop(self, within: float | None = None) -> None:
        """Ends the step as if its time were over; `done` follows.

        within: seconds that statements under way may still take; what takes longer is cancelled and not
        counted. None: as long as at the end of a step.
        """
        self._tell(command="stop", **({} if within is None else {"within": within}))

    def close(self) -> None:
        """Lets the driver close its connections and exit."""
        self._tell(command="close")

    def kill(self) -> None:
        """Ends the process at once; whoever reads its events finds that out. From any thread."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def _tell(self, **command: str | float) -> None:
        self._send(msgspec.json.encode(command))

    def _send(self, line: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # it has ended; why is said where its output is read

    def _close_stderr(self) -> None:
        if self._own_stderr and self._stderr is not None:
            self._stderr.close()

    def _close_stdin(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    # --- what it says -------------------------------------------------------------------------

    def ready(self) -> Ready:
        """Waits for `ready`: connections open, with the backend pids of each role."""
        event = self._next(READY_SECONDS)
        if event is None:
            raise self._ended()
        if isinstance(event, Failure):
            raise driver_failure(event)
        if not isinstance(event, Ready):
            raise DriverError(f"the driver said `{type(event).__name__}` where `ready` was due")
        if event.version != DIALECT:
            raise DriverError(
                f"the driver speaks version {event.version} of its dialect, pgstrata speaks {DIALECT}",
                "build and install the driver of this checkout: make setup",
            )
        return event

    def events(self) -> Iterator[Event]:
        """Yields all events from `start` to `done`, in order.

        An `error` after the clock has started is yielded and `done` with what was measured until
        then follows; an `error` before it is raised.
        """
        measuring, failed = False, None
        # Where drivers work in windows, a second of one takes as many as there are drivers.
        participants = self.spec.windows.participants if self.spec.windows else 1
        silence = self.silence + self.others_seconds
        patience = silence + participants * 1.5 * self.spec.warmup_seconds
        while True:
            event = self._next(patience)
            if event is None:
                raise failed or self._ended()
            match event:
                case Measuring():
                    measuring, patience = True, silence
                case Failure():
                    failed = driver_failure(event)
                    if not measuring:
                        raise failed
            yield event
            if isinstance(event, Done):
                return

    def _next(self, patience: float) -> Event | None:
        """Returns the next event, None at the end of the driver's output."""
        line = self._line(time.monotonic() + patience, patience)
        if line is None:
            return None
        try:
            return decode(line)
        except msgspec.MsgspecError as error:
            raise DriverError(f"the driver said what is no event: {line[:200]!r}", str(error)) from error

    def _line(self, until: float, patience: float) -> bytes | None:
        assert self._process is not None and self._process.stdout is not None
        fd = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN | select.POLLHUP)
        while not self._lines:
            left = until - time.monotonic()
            if left <= 0:
                raise DriverError(f"the driver has been silent for {patience:.0f} s", self._said_on_stderr())
            if not poll.poll(left * 1000):
                continue
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                return None
            *lines, self._buffer = (self._buffer + chunk).split(b"\n")
            self._lines = [line for line in lines if line.strip()]
        return self._lines.pop(0)

    def _ended(self) -> DriverError:
        assert self._process is not None
        if not ends_within(self._process, 5.0):
            return DriverError(
                "the driver closed its output before the step was done", self._said_on_stderr()
            )
        code = self._process.returncode
        if code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code} before the step was done"
        return DriverError(f"the driver {how}", self._said_on_stderr())

    def _said_on_stderr(self) -> str:
        if not self._own_stderr or self._stderr is None:
            return ""  # it was read there
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 2000))
        text = self._stderr.read().decode(errors="replace").strip()
        return f"it wrote: {text}" if text else ""

"""Where the backends of each role spend their CPU time: `perf record` in the middle of a step.

The product is the text of `perf script` per role, which stack collapsers read. Nothing here ends a run:
where perf cannot work, `Profile.note` says what is missing and how to mend it.

Stacks are unwound with DWARF tables (`.eh_frame`) by default, because the usual builds of PostgreSQL
have no frame pointers: with `fp` their stacks end after one or two frames (docs/explanation/observations.md).
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgstrata.observe.backends import cpu_seconds

# Every backend is one more ring buffer and file; the backends of a role do the same work.
_BACKENDS = 8
_PATIENCE = 20.0  # seconds perf gets to end after it was told to


@dataclass(frozen=True)
class ProfileOptions:
    """seconds: how long to record. frequency: samples per second and busy backend; 99 keeps out of step
    with what happens every 10 ms. event: of perf, `auto` takes `cycles` where the hardware counts them
    and `cpu-clock` elsewhere. call_graph: how stacks are found; `fp` is cheaper and right only for
    servers built with frame pointers. stack_bytes: of the stack copied per sample for `dwarf`.
    """

    seconds: float = 10.0
    frequency: int = 99
    event: str = "auto"
    call_graph: Literal["dwarf", "fp"] = "dwarf"
    stack_bytes: int = 16384


@dataclass(frozen=True)
class Profile:
    """One role's profile. script: file with the text of `perf script`, None where there is none.

    backends: how many processes were recorded. samples: in the file. event: what was counted.
    seconds: recorded. perf_cpu_seconds: of perf itself while it recorded (None where not known).
    note: what is missing, empty if nothing is.
    """

    role: str
    script: Path | None
    backends: int
    samples: int = 0
    event: str = ""
    seconds: float = 0.0
    perf_cpu_seconds: float | None = None
    note: str = ""


def unavailable(perf: str | None = None) -> str:
    """Returns why no profile can be taken on this machine, as a sentence with the fix; empty if one can."""
    if perf is None and shutil.which("perf") is None:
        return "perf is not installed: install linux-perf (Debian) or linux-tools (Ubuntu)."
    return ""


def default_event(perf: str = "perf") -> str:
    """Returns `cycles` if the hardware counts them, else `cpu-clock`, a timer of the kernel."""
    probe = [perf, "stat", "-x,", "-e", "cycles", "--", "true"]
    try:
        stderr = subprocess.run(probe, capture_output=True, text=True, timeout=10, env=_env()).stderr
    except (OSError, subprocess.SubprocessError):
        return "cpu-clock"
    return "cycles" if re.search(r"^\d+,", stderr, re.MULTILINE) else "cpu-clock"


class Profiler:
    """Records the roles of one step, all at once. Call `prepare`, `start`, `stop`, `finish` in this order.

    pids: the backends of each role. folder: receives `<role>.perf.txt`. step_seconds: length of the step, in
    whose middle the recording lies; None (not known) lets it begin after a second.
    """

    def __init__(
        self,
        pids: Mapping[str, Sequence[int]],
        folder: Path,
        options: ProfileOptions | None = None,
        step_seconds: float | None = None,
        perf: str = "perf",
    ) -> None:
        self._options = options or ProfileOptions()
        self._folder = folder
        self._perf = perf
        self._missing = unavailable(None if perf == "perf" else perf)
        self._event = self._options.event
        if self._event == "auto" and not self._missing:
            self._event = default_event(perf)
        self._delay = 1.0
        if step_seconds is not None:
            self._delay = max(0.0, (step_seconds - self._options.seconds) / 2)
        self._recordings = [
            _Recording(role, list(members)[:_BACKENDS], folder / f".{_file_name(role)}.perf.data")
            for role, members in pids.items()
            if members
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgstrata-profile", daemon=True)

    def prepare(self) -> None:
        """Starts perf, which does not count yet. Before the step: it takes up to a second."""
        if not self._missing:
            for recording in self._recordings:
                recording.open(self._command(recording))
            for recording in self._recordings:
                recording.await_start()

    def start(self) -> None:
        """Starts the profiler at the begin of a step: counting begins later, when its time has come."""
        if not self._missing:
            self._thread.start()

    @property
    def done(self) -> bool:
        """Whether the recording has had its time, or there will be none."""
        return bool(self._missing) or (self._thread.ident is not None and not self._thread.is_alive())

    def stop(self) -> None:
        """Stops the profiler at the end of a step, and a recording that is still going on. May be called
        again."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        for recording in self._recordings:
            recording.end()

    def finish(self) -> list[Profile]:
        """Turns the recordings into text, a few seconds for each role; run it when nothing is measured."""
        if self._missing:
            return [Profile(r.role, None, len(r.pids), note=self._missing) for r in self._recordings]
        return [self._finish(recording) for recording in self._recordings]

    # --- recording ---

    def _run(self) -> None:
        if self._stop.wait(self._delay):
            return
        for recording in self._recordings:
            recording.enable()
        self._stop.wait(self._options.seconds)
        for recording in self._recordings:
            recording.end()

    def _command(self, recording: _Recording) -> list[str]:
        graph: str = self._options.call_graph
        if graph == "dwarf":
            graph = f"dwarf,{self._options.stack_bytes}"
        return [
            self._perf,
            "record",
            *("--freq", str(self._options.frequency)),
            *("--event", self._event),
            *("--call-graph", graph),
            *("--pid", ",".join(map(str, recording.pids))),
            *("--output", str(recording.data)),
            # No copies of binaries into a cache below the home folder.
            "--no-buildid",
            "--no-buildid-cache",
        ]

    # --- text ---

    def _finish(self, recording: _Recording) -> Profile:
        try:
            return self._written(recording)
        except (OSError, subprocess.SubprocessError) as error:
            return Profile(recording.role, None, len(recording.pids), note=f"perf script failed: {error}")
        finally:
            recording.data.unlink(missing_ok=True)
            recording.data.with_name(recording.data.name + ".old").unlink(missing_ok=True)

    def _written(self, recording: _Recording) -> Profile:
        count = len(recording.pids)
        if recording.failure:
            return Profile(recording.role, None, count, note=recording.failure)
        if recording.gave_up:
            return Profile(recording.role, None, count, note=explain(recording.stderr_text))
        if not recording.enabled:
            return Profile(recording.role, None, count, note="the step ended before the recording began")
        if not recording.data.exists():
            return Profile(recording.role, None, count, note=explain(recording.stderr_text))
        target = self._folder / f"{_file_name(recording.role)}.perf.txt"
        # --no-inline: names of inlined functions would be asked of a debugger, for seconds per sample.
        command = [self._perf, "script", "--no-inline", "--force", "--input", str(recording.data)]
        with target.open("wb") as text:
            done = subprocess.run(
                command,
                stdout=text,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                env=_env(),
                timeout=300,
            )
        samples, event = _count(target)
        note = ""
        if done.returncode != 0:
            note = explain(done.stderr.decode("utf-8", "replace"))
        elif samples == 0:
            note = "no samples: the backends did not use the CPU while perf recorded"
        return Profile(
            recording.role,
            target,
            count,
            samples,
            event or self._event,
            recording.seconds,
            recording.cpu_seconds,
            note,
        )


class _Recording:
    """One `perf record` over the backends of a role, that waits for `enable`.

    perf takes up to a second to start; so it is started before the step, and told through a pipe when
    to count (`--control`, perf 5.10 and newer).
    """

    def __init__(self, role: str, pids: list[int], data: Path) -> None:
        self.role, self.pids, self.data = role, pids, data
        self.process: subprocess.Popen[bytes] | None = None
        self.enabled = self.gave_up = False
        self.stderr_text = self.failure = ""
        self.seconds = 0.0
        self.cpu_seconds: float | None = None
        self._began = self._starting = 0.0
        self._pipes: list[int] = []

    def open(self, command: list[str]) -> None:
        orders, self._control = os.pipe()
        self._answer, answers = os.pipe()
        self._pipes = [self._control, self._answer]
        try:
            self.process = subprocess.Popen(
                [*command, "--delay", "-1", "--control", f"fd:{orders},{answers}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=_env(),
                pass_fds=(orders, answers),
                # Ctrl-C in the terminal is for pgstrata, which then ends the recording itself.
                start_new_session=True,
            )
        except OSError as error:
            self.failure = f"perf cannot be started: {error}"
        os.close(orders)
        os.close(answers)

    def await_start(self) -> None:
        """Waits until perf obeys: a short step would be over before. Switches off counting, which is off
        already."""
        if self.process is not None:
            self._told(b"disable\n")

    def enable(self) -> None:
        """Begins counting. perf answers when it has happened; no answer if it has ended."""
        if self.process is None:
            return
        self.enabled = self._told(b"enable\n")
        # What perf used until now was for its start.
        self._starting = cpu_seconds(self.process.pid) or 0.0
        self._began = time.monotonic()

    def _told(self, order: bytes) -> bool:
        """Sends an order to perf. Returns whether perf has carried it out."""
        with contextlib.suppress(OSError):
            os.write(self._control, order)
            ready, _, _ = select.select([self._answer], [], [], _PATIENCE)
            return bool(ready) and os.read(self._answer, 16).startswith(b"ack")
        return False

    def end(self) -> None:
        """Ends counting and lets perf write the file. May be called again."""
        process, pipes, self._pipes = self.process, self._pipes, []
        if process is not None and pipes:
            if self.enabled:
                self.seconds = time.monotonic() - self._began
                self.cpu_seconds = (cpu_seconds(process.pid) or self._starting) - self._starting
            self.gave_up = process.poll() is not None
            process.send_signal(signal.SIGINT)
            try:
                _, stderr = process.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                _, stderr = process.communicate()
            self.stderr_text = stderr.decode("utf-8", "replace")
        for pipe in pipes:
            os.close(pipe)


def _env() -> dict[str, str]:
    """Returns an environment with English messages, no user's perf settings, no symbols from the network, no
    pager."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PERF_", "DEBUGINFOD"))}
    return {**clean, "LC_ALL": "C", "PERF_CONFIG": os.devnull, "DEBUGINFOD_URLS": "", "PERF_PAGER": "cat"}


def _file_name(role: str) -> str:
    """Returns a role's name in a form that a file may have; a role may be called anything."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", role)[:100] or "role"


_HEAD = re.compile(rb"\S.*\s\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?\d+\.\d+:\s+\d*\s*(\S+?):")


def _count(script: Path) -> tuple[int, str]:
    """Returns the number of samples in a text of `perf script`, and the event of the first."""
    samples, event = 0, ""
    with script.open("rb") as lines:
        for line in lines:
            if not line.startswith((b"\t", b" ", b"\n", b"#")):
                samples += 1
                if not event and (match := _HEAD.match(line)):
                    event = match[1].decode("utf-8", "replace")
    return samples, event


def explain(stderr: str) -> str:
    """Explains perf's complaint as a sentence with the fix."""
    text = " ".join(stderr.split())
    if "perf_event_paranoid" in text or "Permission denied" in text or "Operation not permitted" in text:
        return (
            "perf may not look at the server's processes: run pgstrata as root, or set "
            "kernel.perf_event_paranoid to 1 and run it as the server's account."
        )
    if "unknown option" in text:
        return "perf is too old: version 5.10 or newer is needed."
    if "mlock" in text or "Permission error mapping pages" in text:
        return "perf has too little locked memory: raise kernel.perf_event_mlock_kb."
    if "not found for kernel" in text:
        return "perf is a wrapper and its program for this kernel is missing: install linux-tools for it."
    if "not supported" in text or "No such device" in text or "ENOENT" in text or "Bad event" in text:
        return "the event is not known on this machine: set the profile's event to cpu-clock."
    return f"perf did not record: {text[-300:] or 'it said nothing'}"

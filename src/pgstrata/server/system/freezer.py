"""Stopping every process of a cluster for a while, and letting them go on: what frozen turns are made of.

A control group of version 2 or 1 stops all its processes at once, whatever they are about to start. Where
none can be had each process is stopped by a signal, parents first, so that none starts another meanwhile.
Nothing may stay frozen: a guard, a process of its own, lets everything go on when pgstrata has ended in
whatever way, and then the signals arrive that the kernel has sent to server and driver. Should the guard be
gone, too, the next start does it (`pgstrata.server.system.guard`).

Sources: Documentation/admin-guide/cgroup-v2.rst (cgroup.freeze, cgroup.events) and
cgroup-v1/freezer-subsystem.rst of the kernel; signal(7), of what a stop interrupts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from pgstrata.errors import ServerError
from pgstrata.server.system import control_groups
from pgstrata.server.system.control_groups import Hierarchy
from pgstrata.server.system.process import children

FreezerKind = Literal["cgroup2", "cgroup1", "signals"]
"""What stops the processes."""

FREEZE_SECONDS = 60.0
"""How long a process may take to stop: what waits for its disk stops when the disk has answered."""

POLL_SECONDS = 0.0002

# `read` fails where pgstrata, which holds the other end, is gone.
_GUARD = {
    "cgroup2": 'while read -r _; do :; done; echo 0 > "$1/cgroup.freeze"',
    "cgroup1": 'while read -r _; do :; done; echo THAWED > "$1/freezer.state"',
    "signals": "while read -r now; do last=$now; done; kill -CONT $last 2> /dev/null",
}


class Freezer:
    """Stops the processes of one cluster and whatever else is given to it, say its driver.

    name: of the cluster's folder. within: a group of version 2 that its processes are in already, for they
    can be in one only. kinds: those that may be tried, in their order.
    """

    def __init__(
        self,
        name: str,
        within: Callable[[], Path | None] = lambda: None,
        kinds: Sequence[FreezerKind] = get_args(FreezerKind),
    ) -> None:
        self._name, self._within, self._kinds = control_groups.new_name(f"{name}-turns"), within, kinds
        self.kind: FreezerKind | None = None
        """Known once it has processes."""
        self._group: Path | None = None
        self._roots: list[int] = []
        self._frozen = False
        self._guard: subprocess.Popen[bytes] | None = None

    def candidates(self) -> list[Path]:
        """Returns the groups that it tries to make, so that they can be written down before they are
        there."""
        return [group for _, group in self._groups()]

    def _groups(self) -> list[tuple[FreezerKind, Path]]:
        places: dict[FreezerKind, list[Hierarchy]] = {
            "cgroup2": control_groups.version_2(),
            "cgroup1": control_groups.version_1("freezer"),
            "signals": [],
        }
        return [(kind, place.parent / self._name) for kind in self._kinds for place in places[kind]]

    def take(self, pid: int) -> None:
        """Takes a process, with what it has started and will start. The first one decides the kind."""
        assert not self._frozen
        if self.kind is None:
            self._choose(pid)
        elif self._group is not None:
            try:
                control_groups.take(self._group, pid, lambda: children(pid))
            except OSError as error:
                raise ServerError(
                    f"process {pid} cannot be put into {self._group}: {error.strerror}",
                    'run as root, or take whole rounds: turns = "rounds"',
                ) from error
        self._roots.append(pid)

    def _choose(self, pid: int) -> None:
        within = self._within()
        groups = self._groups()
        if within is not None:
            groups = [("cgroup2", within)] if "cgroup2" in self._kinds else []
        for kind, group in groups:
            with contextlib.suppress(OSError):
                if within is None:
                    group.mkdir(exist_ok=True)
                state = group / ("cgroup.freeze" if kind == "cgroup2" else "freezer.state")
                if state.exists() and os.access(state, os.W_OK):
                    control_groups.take(group, pid, lambda: children(pid))
                    self.kind, self._group = kind, group
                    break
            if within is None:
                with contextlib.suppress(OSError):
                    group.rmdir()
        else:
            self.kind = "signals"
        # Neither pgstrata's end nor a Ctrl-C ends it: it waits for the end of what it reads.
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD[self.kind], "sh", str(self._group or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def give_up(self, pid: int) -> None:
        """Drops a process that was taken and is about to end: its number may soon belong to another
        process."""
        if pid in self._roots:
            self._roots.remove(pid)

    def freeze(self) -> None:
        """Returns when every process has stopped. Raises ServerError where one does not."""
        if self._frozen or self.kind is None:
            return
        self._frozen = True
        self._ask(frozen=True)
        end = time.monotonic() + FREEZE_SECONDS
        while not self._all_stopped():
            if time.monotonic() > end:
                self.thaw()
                raise ServerError(
                    f"a process of the cluster did not stop within {FREEZE_SECONDS:.0f} s",
                    'its disk may not answer; or take whole rounds: turns = "rounds"',
                )
            time.sleep(POLL_SECONDS)

    def thaw(self) -> None:
        """Lets every process go on; nothing happens where none is stopped."""
        if self._frozen:
            self._ask(frozen=False)
            self._frozen = False

    def end(self) -> None:
        """Lets every process go on and gives them up; the group goes with the last of them."""
        self.thaw()
        if self._guard is not None:
            assert self._guard.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.close()
            self._guard.wait()
        self.kind = self._group = self._guard = None
        self._roots = []

    def _ask(self, *, frozen: bool) -> None:
        if self._group is not None and self.kind is not None:
            _ask_group(self._group, frozen=frozen)
        elif frozen:
            self._stop_all()
        else:
            for pid in self._members():
                _send(pid, signal.SIGCONT)

    def _all_stopped(self) -> bool:
        if self._group is None:
            return self._stop_all()
        if self.kind == "cgroup2":
            return "frozen 1" in (self._group / "cgroup.events").read_text()
        state = self._group / "freezer.state"
        if state.read_text().strip() == "FROZEN":
            return True
        # A process that was starting another one is met again.
        state.write_text("FROZEN")
        return False

    def _members(self) -> list[int]:
        pids = list(self._roots)
        for pid in pids:
            pids += [child for child in children(pid) if child not in pids]
        return pids

    def _stop_all(self) -> bool:
        """Stops what is not stopped yet; whether everything was. Who is stopped starts and buries nobody, so
        that the numbers of its children stay theirs."""
        members = self._members()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.write(f"{' '.join(map(str, members))}\n".encode())
            self._guard.stdin.flush()
        running = [pid for pid in members if not _stopped(pid)]
        for pid in running:
            _send(pid, signal.SIGSTOP)
        return not running


def thaw_group(group: Path) -> None:
    """Lets the processes of a group go on, as a killed pgstrata may have left it."""
    if control_groups.is_own(group):
        with contextlib.suppress(OSError):
            _ask_group(group, frozen=False)


def _ask_group(group: Path, *, frozen: bool) -> None:
    second = group / "cgroup.freeze"
    if second.exists():
        second.write_text("1" if frozen else "0")
    else:
        (group / "freezer.state").write_text("FROZEN" if frozen else "THAWED")


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _stopped(pid: int) -> bool:
    """Returns whether all threads of a process are stopped, or ended and not yet reaped."""
    states = []
    with contextlib.suppress(OSError, IndexError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            states.append((thread / "stat").read_text(errors="replace").rpartition(")")[2].split()[0])
    return all(state in "TtZX" for state in states)


__all__ = ["Freezer", "FreezerKind", "thaw_group"]

"""The processes of a cluster, found by what they are: a recorded number might by now be somebody else's.

A process belongs to a cluster when it works in its data folder, runs as the account that owns that folder,
and either its program is one of the cluster's server or its environment names the folder as PGDATA, as
`server_env` and initdb do. So a shell that somebody has left in the folder is none, but one that initdb
or an archive command has started is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from pgstrata.server.system.account import account_of, seeing_as

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ServerProcess:
    """One process. started: clock ticks after boot, which with the number makes it unique; program: the
    path of its executable."""

    pid: int
    started: int
    program: str

    @property
    def is_initdb(self) -> bool:
        return Path(self.program).name == "initdb"

    def send(self, number: signal.Signals) -> None:
        """Signals this process and no other that has got its number since; nothing where it has ended."""
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(self.pid)
            try:
                if started_at(self.pid) == self.started:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def processes_of(data: Path, programs: Path | None) -> list[ServerProcess]:
    """Returns the processes of the cluster in the data folder `data`.

    programs: the folder of its server's programs (bin), None where that is not known.
    """
    try:
        about = data.lstat()
    except OSError:
        return []
    if not stat.S_ISDIR(about.st_mode):
        return []
    path = os.path.realpath(data)
    processes = []
    with seeing_as(account_of(about.st_uid)):
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if process := _one(int(entry.name), about, path, programs):
                        processes.append(process)
    return processes


def _one(pid: int, data: os.stat_result, path: str, programs: Path | None) -> ServerProcess | None:
    place = f"/proc/{pid}"
    # First what costs least: this looks at all processes of a machine that may be busy.
    if os.stat(place).st_uid != data.st_uid:  # noqa: PTH116
        return None
    started = started_at(pid)
    if started is None:
        return None
    works_in = os.readlink(f"{place}/cwd")  # noqa: PTH115
    if works_in != f"{path} (deleted)" and not os.path.samestat(Path(f"{place}/cwd").stat(), data):
        return None
    program = os.readlink(f"{place}/exe").removesuffix(" (deleted)")  # noqa: PTH115
    its_own = programs is not None and Path(program).is_relative_to(programs)
    if its_own or f"PGDATA={path}".encode() in Path(f"{place}/environ").read_bytes().split(b"\0"):
        return ServerProcess(pid, started, program)
    return None


def started_at(pid: int) -> int | None:
    """Returns the start of a process in clock ticks after boot (field 22 of /proc/PID/stat); None if it is
    gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def wait_until_none(data: Path, programs: Path | None, seconds: float) -> bool:
    """Waits until the cluster has no process; False when it still has some after `seconds`."""
    end = time.monotonic() + seconds
    while processes_of(data, programs):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True

"""Who owns a folder that holds a cluster, and clearing what a killed pgstrata left.

A folder belongs to pgstrata when it holds the marker `.pgstrata-cluster.json`, which is written
before anything else. Its owner keeps the marker locked (`flock`); the kernel gives the lock back
when the owner ends, in whatever way. So: no marker, not ours, never touched; marker locked, in
use; marker unlocked, a leftover that may be cleared, unless it says that it was kept on purpose.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgstrata.errors import ServerError
from pgstrata.server import ipc, memory
from pgstrata.server.process import working_in

MARKER = ".pgstrata-cluster.json"
QUIT_SECONDS = 8.0
"""How long a server may take to end after SIGQUIT; its postmaster kills the others after 5 s."""

Json = dict[str, Any]


class Place:
    """A folder claimed for a cluster. `facts` is what the marker says."""

    def __init__(self, folder: Path, lock: int, facts: Json) -> None:
        self.folder, self._lock, self.facts = folder, lock, facts

    @classmethod
    def claim(cls, folder: Path) -> Place:
        """Makes `folder`, or takes it when it is empty or holds only a leftover, which is cleared.

        Raises ServerError when it is not empty and not pgstrata's, in use, kept, or not writable.
        """
        try:
            created = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            if created:
                folder.chmod(0o755)  # whatever the umask: the account of servers has to pass
            if not created and not (folder / MARKER).exists() and any(folder.iterdir()):
                raise ServerError(
                    f"the data folder {folder} is not empty and pgstrata did not make it",
                    "name an empty folder, or one that does not exist yet",
                )
            lock = _lock(folder / MARKER)
        except OSError as error:
            raise unwritable(folder, error) from error
        if lock is None:
            owner = _read(folder / MARKER).get("owner", "unknown")
            raise ServerError(
                f"the data folder {folder} is in use by pgstrata, process {owner}",
                "wait for it to end, or name another folder",
            )
        facts = _read(folder / MARKER)
        place = cls(folder, lock, {"created": created or facts.get("created", False), "owner": os.getpid()})
        try:
            if facts.get("kept"):
                raise ServerError(
                    f"the data folder {folder} holds a cluster that was kept",
                    "delete the folder if nobody needs it, or name another one",
                )
            if facts:
                end_server(folder, facts)
                place._empty()
            place.record()
        except BaseException:
            place.release()
            raise
        return place

    def record(self, **facts: Any) -> None:
        """Adds facts to the marker: what a later pgstrata needs to clear up."""
        self.facts.update(facts)
        try:
            # In place and not by a rename: the lock is on this file.
            (self.folder / MARKER).write_text(json.dumps(self.facts))
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def release(self) -> None:
        """Gives the folder up without changing it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def clear(self) -> None:
        """Deletes what was put there, the marker last, and the folder itself if pgstrata made it."""
        self._empty()
        with contextlib.suppress(OSError):
            (self.folder / MARKER).unlink()
            if self.facts.get("created"):
                self.folder.rmdir()
        self.release()

    def _empty(self) -> None:
        for entry in self.folder.iterdir():
            if entry.name == MARKER:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        if sockets := self.facts.get("sockets"):
            shutil.rmtree(sockets, ignore_errors=True)


def unwritable(folder: Path, error: OSError) -> ServerError:
    """The sentence for a folder that cannot be written."""
    reason = "no space left on its disk" if error.errno == 28 else (error.strerror or str(error))
    return ServerError(
        f"the data folder {folder} cannot be written: {reason}",
        "name another place for it: data_dir in the campaign, or --data-dir",
    )


def end_server(folder: Path, facts: Json) -> None:
    """Ends whatever still runs in a claimed folder and removes its shared memory.

    Processes are found by their working folder, so that none is hit that only has the same number.
    """
    data = Path(str(facts.get("data", folder / "data")))
    running = working_in(data)
    postmaster = int(facts.get("postmaster", 0))
    if postmaster in running:
        _signal(postmaster, signal.SIGQUIT)
    if running and not wait_until_empty(data, QUIT_SECONDS if postmaster in running else 1.0):
        for pid in working_in(data):
            _signal(pid, signal.SIGKILL)
        wait_until_empty(data, QUIT_SECONDS)
    if group := facts.get("group"):
        memory.remove_group(Path(str(group)))
    # A server that could end by itself has removed its pid file and its shared memory.
    if (data / "postmaster.pid").exists():
        segments = [str(name) for name in facts.get("segments", [])]
        ipc.remove_left(data / "postmaster.pid", postmaster, segments)


def wait_until_empty(data: Path, seconds: float) -> bool:
    """Waits until no process works in a data folder; False when some still does after `seconds`."""
    end = time.monotonic() + seconds
    while working_in(data):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def clear_leftovers(root: Path) -> list[str]:
    """Clears clusters below `root` whose owner is gone, as after kill -9; one sentence for each.

    Clusters in use, kept ones, and folders without a marker are left alone.
    """
    said = []
    for marker in list(_markers(root)):
        folder = marker.parent
        with contextlib.suppress(OSError):
            lock = _lock(marker)
            if lock is None:
                continue
            facts = _read(marker)
            place = Place(folder, lock, facts)
            if facts.get("kept"):
                place.release()
                continue
            running = len(working_in(Path(str(facts.get("data", folder / "data")))))
            end_server(folder, facts)
            elsewhere = facts.get("elsewhere")
            place.clear()
            ended = f", {running} processes ended" if running else ""
            said.append(f"the cluster in {folder}, left by process {facts.get('owner', 'unknown')}{ended}")
            if elsewhere:
                said += clear_leftovers(Path(str(elsewhere)))
    return said


def _markers(root: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(root):
        if MARKER in files:
            folders.clear()  # what is below belongs to that cluster
            yield Path(path) / MARKER


def _lock(marker: Path) -> int | None:
    """Locks a marker, making it if need be. None when somebody else holds it."""
    while True:
        lock = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        # It may have been deleted by its last owner between open and lock; then it guards nothing.
        try:
            if os.path.samestat(os.fstat(lock), marker.stat()):
                return lock
        except FileNotFoundError:
            pass
        os.close(lock)


def _read(marker: Path) -> Json:
    try:
        facts = json.loads(marker.read_text())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)

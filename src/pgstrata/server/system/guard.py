"""Who owns a folder that holds a cluster, and clearing what a killed pgstrata left.

A folder belongs to pgstrata when it holds the marker `.pgstrata-cluster.json`, which is written
before anything else. Its owner keeps the marker locked (`flock`); the kernel gives the lock back
when the owner ends, in whatever way. So: no marker, not ours, never touched; marker locked, in
use; marker unlocked, a leftover that may be cleared, unless it says that it was kept on purpose.

A marker is believed only where nobody else can have made it: in a folder of one's own
(`pgstrata.files.ownership`), a regular file of one's own, small, not writable by others. And it is believed
only about what pgstrata makes: the data lie in the folder of the marker, the socket in a folder with the
name of such folders, a process is one of the cluster's (`pgstrata.server.system.running`).

The marker is a journal, a JSON object in each line, later ones over earlier ones: a line that was being
written when pgstrata was killed is left out, and what was known before stays known.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import threading
import time
from pathlib import Path
from typing import Any

from pgstrata.errors import OwnershipError, PgstrataError, ServerError
from pgstrata.files.bounded import json_any
from pgstrata.files.locks import alone_in, lock_file
from pgstrata.files.ownership import own_file, own_folder
from pgstrata.server.system import ipc
from pgstrata.server.system.account import Account, server_account
from pgstrata.server.system.control_groups import remove_group
from pgstrata.server.system.freezer import thaw_group
from pgstrata.server.system.running import ServerProcess, processes_of, wait_until_none

MARKER = ".pgstrata-cluster.json"
DATA = "data"
SOCKETS = re.compile(r"pgs-[0-9a-f]{8}")
"""Names of folders for sockets that found no room in the folder of their cluster."""

QUIT_SECONDS = 2.0
"""How long a server may take to end after SIGQUIT. Its data are not needed any more, so it is killed then."""
KILL_SECONDS = 2.0
"""How long killed processes may take to be gone."""
GONE_SECONDS = 0.2
"""The same for all servers together, where this process has no time left."""
INITDB_SECONDS = 5.0
"""How long a server that initdb has started may take to end when initdb is gone and says no more."""

ADVICE = "name another place for it: data_dir in the campaign, or --data-dir"

_RUN = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}(-replica)?")
"""Names that runs give the folders of their clusters."""
_MARKER_BYTES = 1 << 16

Json = dict[str, Any]

_claimed: set[ClaimedFolder] = set()
"""Folders that this process has claimed and not given up."""


class ClaimedFolder:
    """A folder for a cluster, claimed or about to be. `facts` is what the marker says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: Json = {}
        self._lock = -1
        self._begun = False

    def claim(self) -> None:
        """Makes the folder, or takes it when it is empty or holds only a leftover, which is cleared.

        Raises ServerError when it is not empty and not pgstrata's, in use, kept, or not writable, and
        OwnershipError when another user could change what is in it.
        """
        _claimed.add(self)
        try:
            with alone_in(self.folder.parent):
                self._begun = not os.path.lexists(self.folder)
                self._make_or_take()
        except OSError as error:
            raise unwritable(self.folder, error) from error
        except PgstrataError:
            self._begun = False
            self.release()
            raise
        self._begun = False

    def _make_or_take(self) -> None:
        created = own_folder(self.folder, "the data folder", advice=ADVICE, mode=folder_mode())
        if not created and not (self.folder / MARKER).exists() and any(self.folder.iterdir()):
            raise ServerError(
                f"the data folder {self.folder} is not empty and pgstrata did not make it",
                "name an empty folder, or one that does not exist yet",
            )
        lock = _lock(self.folder, make=True)
        if lock is None:
            owner = _facts(self.folder).get("owner", "unknown")
            raise ServerError(
                f"the data folder {self.folder} is in use by pgstrata, process {owner}",
                "wait for it to end, or name another folder",
            )
        self._lock, former = lock, _read(lock)
        if former.get("kept"):
            raise ServerError(
                f"the data folder {self.folder} holds a cluster that was kept",
                "delete the folder if nobody needs it, or name another one",
            )
        if former:
            end_server(self.folder, former)
            _empty(self.folder, former)
            created = former.get("created", False)
            os.ftruncate(lock, 0)
        self.record(created=created, owner=os.getpid())

    @classmethod
    def left(cls, folder: Path, lock: int, facts: Json) -> ClaimedFolder:
        """Returns a claimed folder whose owner is gone and whose marker is locked now, to be cleared."""
        claimed = cls(folder)
        claimed._lock, claimed.facts = lock, facts
        return claimed

    def record(self, **facts: Any) -> None:
        """Adds facts to the marker: what a later pgstrata needs to clear up."""
        self.facts.update(facts)
        try:
            # In place and not by a rename: the lock is on this file.
            os.write(self._lock, f"{json.dumps(facts)}\n".encode())
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def release(self) -> None:
        """Gives the folder up without changing it."""
        _claimed.discard(self)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def clear(self) -> None:
        """Deletes what was put there, the marker last, and the folder itself if pgstrata made it.

        Where something cannot be deleted the marker stays, and a later pgstrata tries again.
        """
        if self._begun:
            self._unmake()
        elif self._lock >= 0 and _empty(self.folder, self.facts):
            with contextlib.suppress(OSError):
                (self.folder / MARKER).unlink()
                if self.facts.get("created"):
                    self.folder.rmdir()
        self.release()

    def _unmake(self) -> None:
        """Takes back a claim that an exception has cut short: the folder was not there before."""
        with contextlib.suppress(OSError):
            if _facts(self.folder).get("owner") in (None, os.getpid()):
                (self.folder / MARKER).unlink(missing_ok=True)
                self.folder.rmdir()


def folder_mode() -> int:
    """Returns the mode of folders that pgstrata makes for clusters: closed to all but this user; the account
    of servers, if it is another, can pass to its own files in them."""
    return 0o711 if server_account() else 0o700


def unwritable(folder: Path, error: OSError) -> ServerError:
    """Returns the error for a folder that cannot be written."""
    reason = "no space left on its disk" if error.errno == 28 else (error.strerror or str(error))
    return ServerError(f"the data folder {folder} cannot be written: {reason}", ADVICE)


def socket_folder(facts: Json, account: Account | None) -> Path | None:
    """Returns the folder elsewhere that the sockets of a cluster lie in; None if there is none, or if the
    folder that is there now cannot be the one pgstrata made."""
    path = Path(str(facts.get("sockets", "")))
    if not path.is_absolute() or ".." in path.parts or not SOCKETS.fullmatch(path.name):
        return None
    with contextlib.suppress(OSError):
        about = path.lstat()
        if stat.S_ISDIR(about.st_mode) and about.st_uid in {os.geteuid(), account.uid if account else None}:
            return path
    return None


def end_server(
    folder: Path, facts: Json, *, at_once: bool = False, kill_seconds: float = KILL_SECONDS
) -> int:
    """Ends whatever still runs in a claimed folder and removes its shared memory; how many processes ran.

    A server that initdb has started ends by itself, and tidily, when initdb is gone; other servers end by
    SIGQUIT. What does not end in time is killed, and its shared memory removed. Frozen ones go on, to end.
    at_once: everything is killed; a server that valgrind executes takes half a minute to end by itself.
    kill_seconds: how long it is waited until killed processes are gone.
    """
    data = folder / DATA
    programs = Path(str(facts["programs"])) if facts.get("programs") else None
    running = processes_of(data, programs)
    segments = _segments(data, running)
    groups = [Path(str(group)) for group in facts.get("groups", [])]
    if running:
        patience = 0.0 if at_once else 1.0
        for process in running:
            if at_once:
                process.send(signal.SIGKILL)
            elif process.is_initdb:
                process.send(signal.SIGKILL)
                patience = max(patience, INITDB_SECONDS)
            elif [process.pid, process.started] == facts.get("postmaster"):
                process.send(signal.SIGQUIT)
                patience = QUIT_SECONDS
        # Now that the signals wait for them.
        for process in running:
            process.send(signal.SIGCONT)
    for group in groups:
        thaw_group(group)
    if running and not wait_until_none(data, programs, patience):
        segments |= _kill_all(data, programs, kill_seconds)
    for group in groups:
        remove_group(group)
    ipc.remove_left(data, segments)
    return len(running)


def _kill_all(data: Path, programs: Path | None, seconds: float) -> set[str]:
    """Kills the processes of a cluster until there are none; the names of the segments that they had."""
    segments: set[str] = set()
    end = time.monotonic() + seconds
    while running := processes_of(data, programs):
        segments |= _segments(data, running)
        for process in running:
            process.send(signal.SIGKILL)
        if time.monotonic() > end or wait_until_none(data, programs, 0.1):
            break
    return segments


def end_claimed(clear_seconds: float) -> None:
    """Kills the servers in all folders that this process has claimed, and clears as many of the folders as
    the time allows. Afterwards this process has to end: the next one clears the rest."""
    folders = [claimed for claimed in _claimed if claimed.facts]
    # First all are killed, then it is waited: the time is that of all folders together.
    for seconds in (0.0, GONE_SECONDS / max(1, len(folders))):
        for claimed in folders:
            with contextlib.suppress(OSError):
                end_server(claimed.folder, claimed.facts, at_once=True, kill_seconds=seconds)

    def clear() -> None:
        for claimed in folders:
            if not claimed.facts.get("kept"):
                with contextlib.suppress(OSError):
                    claimed.clear()

    clearing = threading.Thread(target=clear, daemon=True)
    clearing.start()
    clearing.join(clear_seconds)


def _segments(data: Path, running: list[ServerProcess]) -> set[str]:
    if not running:
        return set()
    owner = data.lstat().st_uid
    return {name for process in running for name in ipc.posix_segments(process.pid, owner)}


def clear_leftovers(root: Path) -> list[str]:
    """Clears clusters in `root` whose owner is gone, as after kill -9; one sentence for each.

    Clusters in use, kept ones, and folders without a marker of one's own are left alone.
    """
    sentences = []
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        with contextlib.suppress(OSError):
            if not _is_own(folder):
                continue
            with alone_in(root) as alone:
                lock = _lock(folder, make=False)
                facts = {} if lock is None else _read(lock)
                if lock is None or not facts:
                    if alone:
                        _clear_torn(folder, lock)
                    continue
            claimed = ClaimedFolder.left(folder, lock, facts)
            if facts.get("kept"):
                claimed.release()
                continue
            running = end_server(folder, facts)
            claimed.clear()
            ended = f", {running} processes ended" if running else ""
            sentences.append(
                f"the cluster in {folder}, left by process {facts.get('owner', 'unknown')}{ended}"
            )
    return sentences


def _clear_torn(folder: Path, lock: int | None) -> None:
    """Removes a folder whose owner was killed while it claimed it: there is nothing in it yet."""
    if lock is not None:
        os.close(lock)
        (folder / MARKER).unlink()
    if _RUN.fullmatch(folder.name) and not any(folder.iterdir()):
        folder.rmdir()


def _empty(folder: Path, facts: Json) -> bool:
    """Deletes all that was put into a folder, its marker apart; False where something of it stays."""
    for entry in folder.iterdir():
        if entry.name == MARKER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            # Never through a symbolic link, also where one is put there meanwhile (avoids_symlink_attacks).
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    if sockets := socket_folder(facts, server_account()):
        shutil.rmtree(sockets, ignore_errors=True)
    return [entry.name for entry in folder.iterdir()] in ([], [MARKER])


def _is_own(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        return False
    try:
        own_folder(folder, "the data folder", advice=ADVICE, linked=False)
    except OwnershipError:
        return False
    return True


def _lock(folder: Path, *, make: bool) -> int | None:
    """Locks the marker of a folder. None when somebody else holds it, or there is none that can be believed.

    Raises OSError, and OwnershipError where a marker is to be made and a false one is there.
    """

    def accept(about: os.stat_result) -> bool:
        if own_file(about, _MARKER_BYTES):
            return True
        if make:
            raise OwnershipError(f"{folder / MARKER} is no marker that pgstrata has made", ADVICE)
        return False

    try:
        return lock_file(folder / MARKER, make=make, accept=accept)
    except FileNotFoundError:
        if make:
            raise
        return None


def _read(lock: int) -> Json:
    facts: Json = {}
    for line in os.pread(lock, _MARKER_BYTES, 0).decode(errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            entry = json_any(line)
            facts |= entry if isinstance(entry, dict) else {}
    return facts


def _facts(folder: Path) -> Json:
    """Returns the facts in the marker of a folder that another process holds."""
    with contextlib.suppress(OSError):
        file = os.open(folder / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _read(file)
        finally:
            os.close(file)
    return {}

"""The folders of a cluster on disk: claimed, made, copied, kept and deleted."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

from pgstrata.errors import OwnershipError, ServerError
from pgstrata.files.disk import write_into
from pgstrata.files.ownership import hand_over, own_folder
from pgstrata.server.cluster.snapshot import copy_data, copy_folder, remove_folder
from pgstrata.server.cluster.sockets import no_short_folder, short_folders
from pgstrata.server.cluster.storage import Storage, wal_folder
from pgstrata.server.system.account import Account, check_reachable
from pgstrata.server.system.guard import DATA, ClaimedFolder, end_server
from pgstrata.server.system.process import settle

WAL = "wal"
"""Folder of the write-ahead log in the folder that is claimed for it."""

HELD = "held"
"""Folder in a write-ahead log of segments that its server is not to see yet."""

_SEGMENT = re.compile(r"[0-9A-F]{24}")

PATH_BYTES = 900
"""Longest path of a data folder: PostgreSQL cuts paths at 1023 bytes, those of its files included."""


class DataFolder:
    """The data of a cluster in `folder`, which pgstrata claims for it, and its write-ahead log, perhaps on
    another disk."""

    def __init__(self, folder: Path, storage: Storage, account: Account | None) -> None:
        self.folder, self._account = folder, account
        self._owner = (account.uid, account.gid) if account else None
        self.path = folder / DATA
        """Where the server has its data."""
        self.snapshot = folder / "snapshot"
        """Where `save` keeps the data."""
        self._place = ClaimedFolder(folder)
        self._wal_place = ClaimedFolder(storage.wal / folder.name) if storage.wal is not None else None

    @property
    def wal(self) -> Path | None:
        """The folder of the write-ahead log, where that lies outside the data folder."""
        return self._wal_place.folder / WAL if self._wal_place is not None else None

    # --- claimed folders ----------------------------------------------------------------------

    def claim(self, programs: Path) -> None:
        """Claims the folders for a server with these programs.

        Raises ServerError where a folder is not empty and not pgstrata's, is in use, or cannot be written or
        reached by the server's account.
        """
        if len(os.fsencode(self.path)) > PATH_BYTES:
            raise ServerError(
                f"the path of the data folder has more than {PATH_BYTES} bytes: {self.path}",
                "name a shorter one: data_dir in the campaign, or --data-dir",
            )
        check_reachable(programs, self._account, "the server")
        self._place.claim()
        self._place.record(programs=os.path.realpath(programs))
        check_reachable(self.folder, self._account, "the data folder")
        if self._wal_place is None:
            return
        if self._wal_place.folder == self.folder:
            raise ServerError(
                f"the write-ahead log would lie in {self.folder}, where the data lies anyway",
                "leave wal_dir out, or name a folder of another disk",
            )
        self._wal_place.claim()
        check_reachable(self._wal_place.folder, self._account, "the folder of the write-ahead log")

    def record(self, **facts: Any) -> None:
        """Writes down what a later pgstrata needs to clear up. Raises ServerError."""
        self._place.record(**facts)

    def end_processes(self, *, at_once: bool = False) -> None:
        """Ends all processes that work in the folder, known or not. at_once: kills them, and waits for none
        that are being started. Raises OSError where the folder goes meanwhile."""
        if self._place.facts:
            if not at_once:
                settle()
            end_server(self.folder, self._place.facts, at_once=at_once)

    def clear(self) -> None:
        """Deletes all folders; they may be claimed again."""
        self._place.clear()
        self._place = ClaimedFolder(self.folder)
        if self._wal_place is not None:
            self._wal_place.clear()
            self._wal_place = ClaimedFolder(self._wal_place.folder)

    def keep(self) -> None:
        """Leaves all folders for people to look at: nothing will clear them."""
        if self._place.facts:
            self._place.record(kept=True)
        self._place.release()
        self._place = ClaimedFolder(self.folder)
        if self._wal_place is not None:
            if self._wal_place.facts:
                self._wal_place.record(kept=True)
            self._wal_place.release()
            self._wal_place = ClaimedFolder(self._wal_place.folder)

    # --- folders in them ----------------------------------------------------------------------

    def private_folder(self, name: str) -> Path:
        """Makes a folder beside the data, into which the server may write; it goes with the cluster."""
        path = self.folder / name
        self.make_private(path)
        return path

    def make_private(self, path: Path) -> None:
        """Makes a folder that only the server's account may enter. Raises OSError."""
        path.mkdir(0o700)
        hand_over(path, 0o700, self._owner)

    def write(self, name: str, text: str, *, mode: int = 0o600) -> None:
        """Writes a file of the server's account into the data folder. Raises OSError."""
        write_into(self.path, name, text, mode=mode, owner=self._owner)

    def short_folder(self) -> Path:
        """Makes a folder for the socket elsewhere; its name is written down before it is there."""
        for folder in short_folders(private_too=self._account is None):
            with contextlib.suppress(OSError, OwnershipError):
                self._place.record(sockets=str(folder))
                own_folder(folder, "the folder for sockets", advice="name another TMPDIR", mode=0o700)
                hand_over(folder, 0o700, self._owner)
                return folder
        raise no_short_folder(self.folder)

    # --- the data of a stopped server ---------------------------------------------------------

    def copy_of(self, other: Path) -> None:
        """Copies the data of another stopped server of the same version. Raises ServerError."""
        copy_data(other, self.path, self._account)

    def move_wal(self) -> None:
        """Puts the write-ahead log where it is to lie, and a link to it. Raises ServerError, OSError."""
        target, inside = self.wal, wal_folder(self.path)
        if target is None:
            return
        assert inside is not None
        remove_folder(target)
        copy_folder(inside, target, self._account)
        remove_folder(inside)
        inside.symlink_to(target)

    def save(self) -> None:
        """Copies the data, in place of an earlier copy. Raises ServerError."""
        remove_folder(self.snapshot)
        copy_data(self.path, self.snapshot, self._account)

    def restore(self) -> None:
        """Puts the data back as `save` copied it. Raises ServerError."""
        remove_folder(self.path)
        copy_data(self.snapshot, self.path, self._account)
        self.move_wal()

    def hold_log(self) -> None:
        """Adds the write-ahead log of the data to the snapshot, where a server does not look for it. Raises
        ServerError."""
        log_folder, kept = wal_folder(self.path), wal_folder(self.snapshot)
        assert log_folder is not None and kept is not None
        copy_folder(log_folder.resolve(), kept / HELD, self._account)

    def release_log(self) -> None:
        """Gives a standby the log that was held back: the segment that it waits for last, so that all of it
        is there at once. Raises OSError."""
        log = wal_folder(self.path)
        assert log is not None
        for segment in sorted((log / HELD).iterdir(), reverse=True):
            if _SEGMENT.fullmatch(segment.name):
                segment.replace(log / segment.name)

    def drop_snapshot(self) -> None:
        """Frees the space of the copy."""
        remove_folder(self.snapshot)


__all__ = ["DataFolder"]

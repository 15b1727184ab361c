"""The data of a stopped server: copied, kept and put back, its write-ahead log elsewhere."""

from __future__ import annotations

from pathlib import Path

from pgstrata.server.cluster.snapshot import copy_data, copy_folder, remove_folder
from pgstrata.server.cluster.storage import wal_folder
from pgstrata.server.system.account import Account


class DataFolder:
    """A data folder. wal: where its write-ahead log lies, where that is outside; snapshot: where `save` keeps
    a copy."""

    def __init__(self, path: Path, wal: Path | None, snapshot: Path, account: Account | None) -> None:
        self._path, self._wal, self._snapshot, self._account = path, wal, snapshot, account

    def copy_of(self, other: Path) -> None:
        """Copies the data of another stopped server of the same version. Raises ServerError."""
        copy_data(other, self._path, self._account)

    def move_wal(self) -> None:
        """Puts the write-ahead log where it is to lie, and a link to it. Raises ServerError, OSError."""
        target, inside = self._wal, wal_folder(self._path)
        if target is None:
            return
        assert inside is not None
        remove_folder(target)
        copy_folder(inside, target, self._account)
        remove_folder(inside)
        inside.symlink_to(target)

    def save(self) -> None:
        """Copies the data, in place of an earlier copy. Raises ServerError."""
        remove_folder(self._snapshot)
        copy_data(self._path, self._snapshot, self._account)

    def restore(self) -> None:
        """Puts the data back as `save` copied it. Raises ServerError."""
        remove_folder(self._path)
        copy_data(self._snapshot, self._path, self._account)
        self.move_wal()

    def drop_snapshot(self) -> None:
        """Frees the space of the copy."""
        remove_folder(self._snapshot)


__all__ = ["DataFolder"]

"""Where the data of a variant's clusters lies, and what makes that storage answer later."""

from __future__ import annotations

import os
import pwd
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import UsageError, is_disk_full
from pgstrata.files.ownership import hand_over, own_folder
from pgstrata.files.user_files import is_folder, shown, user_path
from pgstrata.server.cluster.delay import Delay, delay_seconds, find_delay
from pgstrata.server.cluster.snapshot import WAL_FOLDERS
from pgstrata.server.system.account import check_reachable, server_account
from pgstrata.server.system.guard import ADVICE, folder_mode

LEAST_WAL_BYTES = 64 << 20
"""Free on the disk of the write-ahead log: four segments of the usual size."""


@dataclass(frozen=True)
class Storage:
    """data: folder below which the data folders of a variant's clusters are made, None for the campaign's;
    wal: the same for their write-ahead logs, None for the data folder itself."""

    data: Path | None = None
    wal: Path | None = None
    delay: Delay | None = None

    @property
    def label(self) -> str:
        """What it adds to the label of a variant; empty for nothing."""
        parts = [self.data.name or "root"] if self.data is not None else []
        parts += [f"wal-{self.wal.name or 'root'}"] if self.wal is not None else []
        parts += [f"delay-{self.delay.written}".replace(" ", "")] if self.delay is not None else []
        return ".".join(parts)


def default_data_dir() -> Path:
    """Returns the usual folder for clusters, on a disk: /tmp is memory on many systems, /var/tmp is not."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run as a user that has no name
        user = str(os.geteuid())
    return Path(os.environ.get("TMPDIR") or "/var/tmp") / f"pgstrata-{user}"


def cluster_root(named: str | None, *, make: bool = True) -> Path:
    """Returns the folder that a user has named for clusters, or the usual folder, made if need be. make:
    False where it is only planned.

    Raises OwnershipError where another user could prepare or change what is in it, UsageError if it cannot be
    written to.
    """
    root = user_path(named) if named else default_data_dir()
    if not is_folder(root.parent):
        # Made here it would lie on the disk that its own was to be mounted on.
        raise UsageError(
            f"the data folder {shown(root)} cannot be made: there is no folder {shown(root.parent)}",
            f"mount its disk, or {ADVICE}",
        )
    place = root if make or root.exists() else root.parent
    try:
        # A name that everybody can foresee: a link of that name was made to lead somewhere.
        if place == root:
            own_folder(root, "the folder for clusters", advice=ADVICE, mode=folder_mode(), linked=bool(named))
        if make and not named:
            hand_over(root, folder_mode(), None)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise UsageError(
            f"the data folder {root} cannot be written to: {error.strerror}",
            ADVICE,
        ) from error
    return root.resolve()


def check_storage(data_dir: str | None, wal_dir: str | None, io_delay: str | None) -> None:
    """Raises UsageError for what is written wrong; looks at neither disk nor kernel."""
    for key, text in (("data_dir", data_dir), ("wal_dir", wal_dir)):
        if text is not None and "\0" in text:
            raise UsageError(f"`{key}` holds a NUL")
    if io_delay is not None:
        delay_seconds(io_delay)


def find_storage(data_dir: str | None, wal_dir: str | None, io_delay: str | None) -> Storage:
    """Returns the checked folders and the delay.

    Raises UsageError where a folder is not there or cannot be written, OwnershipError where another user
    could change what is in it, ServerError where the account of servers cannot reach it.
    """
    return Storage(_folder(data_dir, "data_dir"), _folder(wal_dir, "wal_dir"), find_delay(io_delay))


def _folder(text: str | None, key: str) -> Path | None:
    if text is None:
        return None
    folder = Path(os.path.abspath(user_path(text)))  # noqa: PTH100 - keeps the names the user gave
    advice = f"name another folder as {key} of the variant"
    if not folder.is_dir():
        # Made here it would lie on the disk that its own was to be mounted on.
        raise UsageError(
            f"`{key}`: there is no folder {folder}",
            f"mount its disk and make it (mkdir {folder}), or {advice}",
        )
    own_folder(folder, f"the {key}", advice=advice, mode=folder_mode())
    check_reachable(folder, server_account(), f"the {key}")
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
    except OSError as error:
        why = "its disk is full" if is_disk_full(error) else error.strerror
        raise UsageError(f"`{key}`: nothing can be written into {folder}: {why}", advice) from error
    return folder.resolve()


def wal_folder(data: Path) -> Path | None:
    """Returns the folder of the write-ahead log within a data folder, or the link that leads to it."""
    return next((data / name for name in WAL_FOLDERS if os.path.lexists(data / name)), None)


__all__ = [
    "LEAST_WAL_BYTES",
    "Storage",
    "check_storage",
    "cluster_root",
    "default_data_dir",
    "find_storage",
    "wal_folder",
]

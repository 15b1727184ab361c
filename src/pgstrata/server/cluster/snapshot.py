"""Copies of the data folder of a stopped server: shared blocks where the file system can, plain ones else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from pgstrata import numbers
from pgstrata.errors import ServerError
from pgstrata.files.disk import folder_bytes
from pgstrata.files.ownership import hand_over
from pgstrata.server.system.account import Account
from pgstrata.server.system.process import die_with_parent

WAL_FOLDERS = ("pg_wal", "pg_xlog")
"""What the folder of the write-ahead log is called within a data folder: since 10, and before."""

_HINT = "make room, or name another disk: data_dir in the campaign, or --data-dir"


def copy_folder(source: Path, target: Path, account: Account | None) -> None:
    """Copies a folder with its modes, as the account that owns it; `target` must not exist.

    cp shares the blocks of both copies on file systems that can (XFS, btrfs), and copies them elsewhere; it
    keeps holes. It works in the copy, so that what ends the processes of a data folder ends it, too. Raises
    ServerError, also where the space is not enough; then nothing is left of the copy.
    """
    program = shutil.which("cp")
    if program is None:
        raise ServerError("a snapshot needs the program cp, which is not in PATH")
    who: dict[str, Any] = {}
    if account:
        who = {"user": account.uid, "group": account.gid, "extra_groups": account.groups}
    try:
        target.mkdir(0o700)
        hand_over(target, 0o700, (account.uid, account.gid) if account else None)
    except OSError as error:
        raise ServerError(f"a snapshot of {source} cannot be made: {error.strerror}", _HINT) from error
    try:
        done = subprocess.run(
            [program, "-a", "--reflink=auto", "--sparse=auto", f"{source}/.", str(target)],
            cwd=target,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"LC_ALL": "C", "PGDATA": str(target)},
            preexec_fn=die_with_parent,
            **who,
        )
    except BaseException:
        remove_folder(target)
        raise
    if done.returncode:
        remove_folder(target)
        complaint = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        if "No space left" in done.stderr:
            free = shutil.disk_usage(target.parent).free
            raise ServerError(
                f"no space for a snapshot of {source}: {numbers.size(folder_bytes(source))}, "
                f"{numbers.size(free)} are free",
                _HINT,
            )
        raise ServerError(f"a snapshot of {source} cannot be made: {complaint}", _HINT)


def copy_data(source: Path, target: Path, account: Account | None) -> None:
    """Copies a data folder; its write-ahead log, which may lie elsewhere, comes to lie within the copy.

    As `copy_folder`.
    """
    copy_folder(source, target, account)
    link = next((target / name for name in WAL_FOLDERS if (target / name).is_symlink()), None)
    if link is None:
        return
    try:
        lies_in = Path(os.readlink(link))  # noqa: PTH115
        link.unlink()
        copy_folder(lies_in, link, account)
    except BaseException as error:
        remove_folder(target)
        if isinstance(error, OSError):
            raise ServerError(f"a snapshot of {source} cannot be made: {error.strerror}", _HINT) from error
        raise


def remove_folder(folder: Path) -> None:
    """Deletes a folder if it is there. Raises ServerError where something of it stays."""
    if not folder.exists():
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise ServerError(f"{folder} cannot be removed: {error.strerror}") from error

"""Where the Unix socket of a server lies: its path has a longest length."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pgstrata.errors import ServerError

SOCKET_BYTES = 107
"""Longest path of a Unix socket (sun_path of Linux, less its final NUL)."""

_PLAIN_PATH = re.compile(r"[\w./+-]+", re.ASCII)


def fits(folder: Path) -> bool:
    """Returns whether a socket can lie in a folder: its path is short, and libpq reads it as written."""
    longest = f"{folder}/.s.PGSQL.{65535}"
    return len(os.fsencode(longest)) <= SOCKET_BYTES and bool(_PLAIN_PATH.fullmatch(str(folder)))


def short_folders(*, private_too: bool) -> Iterator[Path]:
    """Yields new names of folders in which a socket can lie.

    private_too: also in the folder of this user's session, which other accounts cannot enter.
    """
    bases = [os.environ.get("XDG_RUNTIME_DIR", "")] if private_too else []
    for base in (*bases, tempfile.gettempdir(), "/tmp"):
        folder = Path(base) / f"pgs-{secrets.token_hex(4)}"
        if base and fits(folder):
            yield folder


def no_short_folder(folder: Path) -> ServerError:
    """Returns the error for a cluster whose socket can lie nowhere."""
    return ServerError(
        f"the path of the Unix socket would be longer than {SOCKET_BYTES} bytes in {folder}, and "
        "no shorter place can be written",
        "name a shorter data folder, or a short TMPDIR",
    )


__all__ = ["fits", "no_short_folder", "short_folders"]

"""Disks in memory that can be filled, and one that is no memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ON_DISK = os.environ.get("PGSTRATA_TESTS_DISK", "/tmp")
"""A folder on a disk with a short name, also where all else that tests write is in memory (in_memory.sh)."""


@contextmanager
def small_disk(folder: Path, room: str) -> Iterator[Path]:
    """A new folder on a file system of its own, of so much room ("16m"); skips where none can be mounted."""
    folder.mkdir()
    options = f"size={room},mode=0755"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "pgstrata-tests", folder], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)

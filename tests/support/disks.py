"""Disks in memory that can be filled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


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

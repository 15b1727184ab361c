"""What a server is to everything that uses one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server that can be run, or is run by somebody else (`dsn:`).

    spec: resolved, `pg:17.11`; label: short, `pg17.11`; version_num: as the server counts, 170011;
    build: the configure flags it was built with, or nothing where they are not known; bin_dir: its
    programs, None for `dsn:`.
    """

    spec: str
    label: str
    version: str
    version_num: int
    build: str = ""
    bin_dir: Path | None = None
    dsn: str | None = None

    @property
    def managed(self) -> bool:
        """Whether pgstrata starts and stops it."""
        return self.bin_dir is not None

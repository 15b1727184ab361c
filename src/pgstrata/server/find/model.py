"""What a server is to everything that uses one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from pgstrata.server.capabilities import Programs, programs_of
from pgstrata.server.features import Feature, Features
from pgstrata.store.record import BuiltRecord, ServerRecord


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server that can be run, or is run by somebody else (`dsn:`).

    spec: resolved, `pg:17.11`, a DSN's secrets hidden; label: short, `pg17.11`; version_num: as the
    server counts, 170011; build: the configure flags it was built with, or nothing where they are not
    known; bin_dir: its programs, None for `dsn:`; dsn: with its secrets;
    built: what it was built from and with, where pgstrata built it.
    """

    spec: str
    label: str
    version: str
    version_num: int
    build: str = ""
    bin_dir: Path | None = None
    dsn: str | None = field(default=None, repr=False)
    built: BuiltRecord | None = field(default=None, hash=False)
    asked: frozenset[Feature] | None = field(default=None, repr=False)
    """The features of a server that pgstrata does not start, asked when it was connected to."""
    settings: frozenset[str] | None = field(default=None, repr=False)
    """The names of its settings, asked then, too."""

    @property
    def managed(self) -> bool:
        """Whether pgstrata starts and stops it."""
        return self.bin_dir is not None

    @property
    def programs(self) -> Programs | None:
        """What its programs can do; None where they are not on this machine, or not yet."""
        return programs_of(self.bin_dir)

    @property
    def features(self) -> Features:
        """What workloads and checks decide by before it runs."""
        return Features(self.version_num, self.programs, self.asked, self.settings)

    def record(self) -> ServerRecord:
        """Returns the server as runs record it: without secrets and places of this machine."""
        return ServerRecord(
            spec=self.spec,
            label=self.label,
            version=self.version,
            version_num=self.version_num,
            build=self.build,
            managed=self.managed,
            built=self.built,
        )


def version_number(version: str) -> int:
    """Returns the version as the server's number: 17.11 → 170011, 9.6.24 → 90624, 18beta1 → 180000."""
    numbers = [int(part) for part in re.sub(r"(devel|alpha|beta|rc).*", "", version).split(".")]
    first, second, third = (*numbers, 0, 0)[:3]
    return first * 10000 + second if first >= 10 else first * 10000 + second * 100 + third

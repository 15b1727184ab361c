"""Makes settings.csv: which settings each major version has, asked of the servers themselves.

    python -m pgstrata.server.learn_settings > src/pgstrata/server/config/settings.csv

Needs every version from 9.6 on (they are fetched). A row holds for the majors from `first` to
`last`; a setting whose type, unit or limits changed has several. Run it when a version appears.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

from pgstrata.server.acquire import acquire, available
from pgstrata.server.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.config.settings import COLUMNS

_QUERY = """
    SELECT name, vartype, coalesce(unit, ''), coalesce(min_val, ''), coalesce(max_val, ''),
           coalesce(array_to_string(enumvals, '|'), '')
    FROM pg_settings WHERE context <> 'internal' AND name NOT LIKE '%.%' ORDER BY lower(name)
"""
# Values that a build without the library does not list.
_OPTIONAL = {
    "wal_compression": ["lz4", "zstd"],
    "default_toast_compression": ["lz4"],
    "io_method": ["io_uring"],
}

Row = tuple[str, str, str, str, str]


def main() -> None:
    """Starts one server per major version and writes the table to standard output."""
    seen: dict[str, list[tuple[int, Row]]] = {}
    majors: list[int] = []
    for version in available():
        server = acquire(f"pg:{version}")
        majors.append(major := server.version_num // 10000 if server.version_num >= 100000 else 9)
        with (
            tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
            Cluster(server, Resolved("", (), {}, (), ()), Path(folder) / "c") as cluster,
        ):
            Path(folder).chmod(0o755)
            cluster.create()
            cluster.start()
            with cluster.connect() as session:
                for name, vartype, unit, low, high, values in session.execute(_QUERY).fetchall():
                    every = values.split("|") if values else []
                    if vartype == "enum":
                        every += [v for v in _OPTIONAL.get(name, []) if v not in every]
                    row = (vartype, unit, low, high, "|".join(sorted(every)))
                    seen.setdefault(name.lower(), []).append((major, row))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name in sorted(seen):
        first, previous = seen[name][0][0], seen[name][0]
        for major, row in [*seen[name][1:], (0, previous[1])]:
            if major == 0 or row != previous[1]:
                last = "" if major == 0 and previous[0] == majors[-1] else previous[0]
                writer.writerow([name, first, last, *previous[1]])
                first = major
            previous = (major, row)


if __name__ == "__main__":
    main()

"""Makes settings.csv: which settings each major version has, asked of the servers themselves.

    python -m pgstrata.server.learn_settings > src/pgstrata/server/config/settings.csv

Needs every version from 9.6 on (they are fetched). Rows of older ones, read out of guc.c of their last
releases, stay as they are in the table. A row holds for the majors from `first` to
`last`; a setting whose type, unit or limits changed has several. Run it when a version appears.
"""

from __future__ import annotations

import csv
import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.config.settings import COLUMNS, major_name, major_of, names, written
from pgstrata.server.find.acquire import acquire, available
from pgstrata.server.find.model import version_number

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

READ_FROM_SOURCE = ["7.4", "8.0", "8.1", "8.2", "8.3", "8.4", "9.0", "9.1", "9.2", "9.3", "9.4", "9.5"]

Row = tuple[str, str, str, str, str]


def main() -> None:
    """Starts one server per major version and writes the table to standard output."""
    majors = [major_of(version_number(old)) for old in READ_FROM_SOURCE]
    seen = {name: rows for name in names() if (rows := _known(name, majors))}
    for version in available():
        server = acquire(f"pg:{version}")
        majors.append(major := major_of(server.version_num))
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
                    seen.setdefault(name.lower(), {})[major] = row
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name in sorted(seen):
        for first, last, row in _stretches(seen[name], majors):
            end = "" if last == majors[-1] else major_name(last)
            writer.writerow([name, major_name(first), end, *row])


def _known(name: str, majors: Sequence[int]) -> dict[int, Row]:
    """Returns the rows that the table has of a setting in these versions."""
    return {major: row for major in majors if (row := written(name, major))}


def _stretches(rows: Mapping[int, Row], majors: Sequence[int]) -> Iterator[tuple[int, int, Row]]:
    """Yields first and last of the versions next to each other that have the same row."""
    for row, group in itertools.groupby(majors, key=rows.get):
        same = list(group)
        if row is not None:
            yield same[0], same[-1], row


if __name__ == "__main__":
    main()

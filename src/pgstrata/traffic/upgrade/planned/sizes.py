"""Gives tables and indexes without rows the size that they had.

The planner asks the file system for the size of a table, and scales the number of rows in pg_class by it
(plancat.c, estimate_rel_size). So the files of a stopped server are made longer without being written: they
are sparse, and take no place on the disk.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import ServerError
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.traffic.upgrade.schema import DATABASE

MOST_SEGMENTS = 100_000
"""Files of all tables and indexes together: of 1 GiB, this is 100 TB."""

_FILE = re.compile(r"base/([0-9]+)/([0-9]+)")

_RELATIONS = """
SELECT pg_catalog.pg_relation_filepath(c.oid), c.relpages FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm', 'i') AND c.relpages > 0 AND c.reltablespace = 0
AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""
_UNITS = """
SELECT pg_catalog.current_setting('block_size')::int,
    (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'segment_size')
"""


@dataclass(frozen=True)
class Sizes:
    """Files and their sizes in blocks. segment_blocks: after which a file is continued by another one."""

    files: Sequence[tuple[str, int]]
    block_bytes: int
    segment_blocks: int


def wanted_sizes(cluster: Cluster) -> Sizes:
    """Returns the sizes that pg_class tells of. Raises ServerError where they are too large."""
    with cluster.connect(DATABASE) as session:
        files = [(str(path), int(blocks)) for path, blocks in session.execute(_RELATIONS.encode()).fetchall()]
        block_bytes, segment_blocks = session.execute(_UNITS.encode()).fetchall()[0]
    if sum(1 + blocks // segment_blocks for _, blocks in files) > MOST_SEGMENTS:
        raise ServerError(
            f"the tables have more than {MOST_SEGMENTS:,} files of {segment_blocks * block_bytes >> 20} MiB",
            "export the schemas that matter: pg_dump --statistics-only -n NAME",
        )
    return Sizes(files, block_bytes, segment_blocks)


def stretch(cluster: Cluster, sizes: Sizes, check: Callable[[], None]) -> None:
    """Makes the files of a stopped server as long as they are wanted; none is made shorter.

    Links within the data folder, which belongs to another account, are not followed. Raises ServerError.
    """
    assert cluster.postmaster.pid is None
    try:
        with _folder(None, cluster.data_folder.path) as data, _folder(data, "base") as base:
            for path, blocks in sizes.files:
                check()
                if (names := _FILE.fullmatch(path)) is None:
                    raise ServerError(f"{path} is no file of a table")
                with _folder(base, names[1]) as database:
                    _stretch(database, names[2], blocks, sizes)
    except OSError as error:
        raise ServerError(
            f"the files of the tables cannot be made sparse: {error.strerror}",
            "name a folder on another file system: --data-dir",
        ) from error


@contextmanager
def _folder(within: int | None, name: str | Path) -> Iterator[int]:
    opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        yield opened
    finally:
        os.close(opened)


def _stretch(folder: int, name: str, blocks: int, sizes: Sizes) -> None:
    """Makes one relation as long as `blocks`: whole segments, and a last one."""
    first = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(first.st_mode):
        raise ServerError(f"{name} in the data folder is no regular file")
    for number in range(1 + (blocks - 1) // sizes.segment_blocks):
        here = min(sizes.segment_blocks, blocks - number * sizes.segment_blocks)
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if number else 0)
        opened = os.open(f"{name}.{number}" if number else name, flags, 0o600, dir_fd=folder)
        try:
            if number:
                os.fchown(opened, first.st_uid, first.st_gid)
            if (wanted := here * sizes.block_bytes) > os.fstat(opened).st_size:
                os.ftruncate(opened, wanted)
        finally:
            os.close(opened)


__all__ = ["MOST_SEGMENTS", "Sizes", "stretch", "wanted_sizes"]

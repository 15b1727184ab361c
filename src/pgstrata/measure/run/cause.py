"""The cause behind what the driver or psycopg saw of a failure."""

from __future__ import annotations

from pgstrata import numbers
from pgstrata.errors import DriverError, PgstrataError, ServerError, StoreError
from pgstrata.server.cluster.served import Served
from pgstrata.server.cluster.snapshot import WAL_FOLDERS
from pgstrata.server.system.log_end import last_words

DISK_FULL = "the disk of the data folder is full"
"""How the sentence begins that says why such a run failed."""


def cause(error: PgstrataError, cluster: Served, *, started: bool, log: str) -> tuple[PgstrataError, str]:
    """Returns the cause of an error (a full disk, a server that died), and the end of the server's log.

    started: whether the server was up when it happened; log: where people find its last words.
    """
    log_tail = cluster.log_tail()
    if isinstance(error, StoreError):
        return error, log_tail
    full = isinstance(error, DriverError) and error.sqlstate == "53100"
    if (failure := cluster.standbys.failure) is not None:
        return failure, log_tail
    if cluster.data_folder is not None and cluster.data_folder.wal is not None and _no_room_for_wal(log_tail):
        return ServerError(
            f"the disk of the write-ahead log is full: {error.message}",
            "its space has been freed; make room, a smaller max_wal_size, or another wal_dir",
        ), log_tail
    if full or "No space left on device" in f"{error.message} {log_tail}":
        return ServerError(
            f"{DISK_FULL}: {error.message}",
            "its space has been freed; make room, take fewer rows, or name another disk with --data-dir",
        ), log_tail
    if (limit := cluster.exceeded_memory) is not None:
        return ServerError(
            f"the kernel killed a process of the server, which needed more than its memory = "
            f"{numbers.size(limit)}: {error.message}",
            "raise `memory`, or lower what takes it: work_mem, clients, the statement",
        ), log_tail
    # Its sockets are gone a moment before the process is.
    if started and cluster.postmaster.ended(within=1.0):
        words = last_words(log_tail)
        return ServerError(
            f"the server died{f' ({words})' if words else ''}: {error.message}",
            f"its last words are in {log}",
        ), log_tail
    if started and cluster.pooler is not None and cluster.pooler.pid is None:
        return ServerError(
            f"{cluster.pooler.through.name} died: {error.message}",
            f"its last words:\n{cluster.pooler.log_tail(8)}",
        ), log_tail
    return error, log_tail


def _no_room_for_wal(log: str) -> bool:
    lines = [line for line in log.splitlines() if "No space left on device" in line]
    return any(name in line for line in lines for name in WAL_FOLDERS)


__all__ = ["DISK_FULL", "cause"]

"""Work of DuckDB that Ctrl-C ends at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import duckdb

HEAR_SECONDS = 0.1
"""How often the waiting thread wakes up to hear signals."""

END_SECONDS = 5.0
"""How long interrupted work may take to notice."""

T = TypeVar("T")


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Returns what `work` does with DuckDB on another thread; its exceptions are raised here.

    This thread stays free to hear signals, which DuckDB looks for between its tasks only, and of which it
    makes exceptions of its own.
    """
    answer: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="pgstrata-query", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(HEAR_SECONDS)
    except BaseException:
        for _ in range(int(END_SECONDS / 0.1)):
            connection.interrupt()  # again: one that comes before the query begins is forgotten
            thread.join(0.1)
            if not thread.is_alive():
                break
        raise
    if failure:
        raise failure[0]
    return answer[0]


__all__ = ["interruptible"]

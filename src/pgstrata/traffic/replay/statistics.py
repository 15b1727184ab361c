"""A captured file of a server's statistics, wherever these are: on the server, or in files that it wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown, user_path
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.session import answering
from pgstrata.traffic.captured import Header
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.synthetic.files import of_folder
from pgstrata.traffic.synthetic.statistics import MARK, Statistics, of_server

if TYPE_CHECKING:
    from pgstrata.traffic.synthetic.make import TypesOf
    from pgstrata.traffic.synthetic.questions import Questions
    from pgstrata.traffic.synthetic.rows import RowsOf

T = TypeVar("T")

STATISTICS_SECONDS, QUESTION_SECONDS = 600.0, 120.0
"""How long a server may take to list its statistics, and to answer a question about one statement."""

MOST_STATISTICS_BYTES = 1 << 30
"""Memory that the statistics of a server may take."""


def capture_statistics(
    source: str,
    to: Path,
    *,
    calls: int | None = None,
    sessions: int | None = None,
    mask: Mask | None = None,
    reads_only: bool = False,
    seed: int = 1,
    sample: bool = True,
) -> Header:
    """Writes a synthetic file to `to`. source: a folder, or how to connect to a server; sample: reads rows of
    its tables; the others as for `synthetic`. Raises UsageError for what is neither and without the parser,
    and what reading statistics and connecting raises."""
    if find_spec("pglast") is None:
        raise UsageError(
            "statements of pg_stat_statements need PostgreSQL's parser, which is not installed",
            "pip install 'pgstrata[statistics]'",
        )
    from pgstrata.traffic.synthetic.make import CALLS, synthetic
    from pgstrata.traffic.synthetic.prepared import types_by
    from pgstrata.traffic.synthetic.questions import ServerQuestions
    from pgstrata.traffic.synthetic.rows import rows_by

    def make(
        statistics: Statistics,
        types_of: TypesOf | None = None,
        rows_of: RowsOf | None = None,
        questions: Questions | None = None,
    ) -> Header:
        return synthetic(
            statistics,
            to,
            calls=calls or CALLS,
            sessions=sessions,
            mask=mask,
            reads_only=reads_only,
            seed=seed,
            types_of=types_of,
            rows_of=rows_of,
            questions=questions,
        )

    if (folder := _folder_of(source)) is not None:
        return make(of_folder(folder))
    conninfo = Conninfo.parse(source.removeprefix("dsn:"))
    with conninfo.connect() as connection:
        with _asked(connection, conninfo) as statistics:
            types_of, rows_of = types_by(connection), rows_by(connection)

        def bounded(ask: Callable[..., T], *what: Any) -> T:
            with answering(connection, QUESTION_SECONDS):
                return ask(*what)

        bounded_types = partial(bounded, types_of)
        if not sample:
            return make(statistics, bounded_types)
        return make(
            statistics, bounded_types, partial(bounded, rows_of), ServerQuestions(connection, bounded)
        )


def read_statements(source: str) -> Statistics:
    """Returns what pg_stat_statements has counted. source: a folder, or how to connect to a server.

    Raises UsageError for what is neither, and what reading statistics and connecting raises.
    """
    if (folder := _folder_of(source)) is not None:
        return of_folder(folder)
    conninfo = Conninfo.parse(source.removeprefix("dsn:"))
    with conninfo.connect() as connection, _asked(connection, conninfo) as statistics:
        return statistics


def _folder_of(source: str) -> Path | None:
    """Returns the folder that is meant; None for a connection string of a server. Raises UsageError for
    neither."""
    if "=" in source or "://" in source:
        return None
    folder = user_path(source)
    if not folder.is_dir():
        raise UsageError(
            f"{shown(source)} is no folder, and no way to connect to a server",
            "postgresql://user@host/database, or a folder with what --export-script has written",
        )
    return folder


@contextmanager
def _asked(connection: psycopg.Connection[Any], conninfo: Conninfo) -> Iterator[Statistics]:
    """Yields the statistics of a server; the limits of the answer, time and bytes, hold for the block as
    well."""
    with answering(connection, conninfo.seconds):
        connection.execute(f"SELECT {MARK} 1".encode()).fetchone()
    with answering(connection, STATISTICS_SECONDS, MOST_STATISTICS_BYTES):
        yield of_server(connection)


__all__ = ["capture_statistics", "read_statements"]

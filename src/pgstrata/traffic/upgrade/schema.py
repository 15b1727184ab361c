"""The definitions of the dumps on a server, without rows: what every question about them needs."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from pgstrata.errors import ServerError, server_said
from pgstrata.files import digests
from pgstrata.server.cluster.cluster import Cluster, new_database
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server
from pgstrata.workload.core.language import WorkContext
from pgstrata.workload.custom.confined import beginning
from pgstrata.workload.custom.options import CustomOptions
from pgstrata.workload.custom.setup import definitions
from pgstrata.workload.custom.sql import SqlStatement

DATABASE = "pgstrata"

OF_THE_SERVER = ("53", "57P", "58", "XX")
"""How codes begin of errors that say nothing of a statement: no space, a shutdown, a defect."""

STATEMENT_SECONDS = 30
"""`statement_timeout` of a definition: of a script it may be anything."""

_SEARCH_PATH = """
SELECT pg_catalog.set_config('search_path', pg_catalog.string_agg(pg_catalog.quote_ident(nspname), ', '
    ORDER BY nspname <> 'public', nspname), false) FROM pg_catalog.pg_namespace
WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'pgstrata_guard')"""


@dataclass(frozen=True)
class Schema:
    """A running cluster with the definitions. confined: a role of its own owns and asks; texts: beginnings of
    the statements by their keys; refused: what the server said of those it does not take."""

    cluster: Cluster
    confined: bool
    texts: dict[str, str]
    refused: dict[str, str]

    def connect(self) -> psycopg.Connection[Any]:
        """Returns a connection of the role that owns the definitions."""
        return self.cluster.connect(DATABASE, confined=self.confined)


@contextlib.contextmanager
def defined_schema(
    server: Server,
    config: Resolved,
    options: CustomOptions,
    root: Path,
    say: Callable[[str], None],
    check: Callable[[], None],
    settings: Mapping[str, str] | None = None,
) -> Iterator[Schema]:
    """Starts a cluster below `root` and executes all definitions. settings: win over those of the config.

    Raises UsageError for dumps that cannot be read, ServerError where the server does not start.
    """
    say(f"  the schema on PostgreSQL {server.version}")
    confinement, files = definitions(options, server.features)
    folder = Path(tempfile.mkdtemp(prefix="checklist-", dir=root))
    folder.chmod(0o755)
    try:
        with _said_of(server), Cluster(server, config, folder / "cluster") as cluster:
            cluster.create()
            cluster.start(settings=settings)
            with cluster.connect() as admin:
                admin.execute(new_database(DATABASE).encode())
            context = WorkContext(partial(cluster.connect, DATABASE), lambda _: None, check)
            confinement.begin().do(context)
            texts, refused = _define(cluster, files, check, confined=confinement.has_role)
            for admin_phase in confinement.end():
                with contextlib.suppress(psycopg.Error), cluster.connect(DATABASE) as superuser:
                    for statement in admin_phase.statements:
                        superuser.execute(statement.encode())
            yield Schema(cluster, confinement.has_role, texts, refused)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _define(
    cluster: Cluster, files: Sequence[Sequence[SqlStatement]], check: Callable[[], None], *, confined: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Executes all definitions. Returns their beginnings, and what the server said of refused ones."""
    texts: dict[str, str] = {}
    refused: dict[str, str] = {}
    met: Counter[str] = Counter()
    for statements in files:
        with cluster.connect(DATABASE, confined=confined) as connection:
            connection.execute(f"SET statement_timeout = {STATEMENT_SECONDS * 1000}".encode())
            for statement in statements:
                check()
                # Not its number: a setting that one server lacks is left out there.
                written = statement.written or statement.text
                key = digests.of(written)[:12]
                met[key] += 1
                key = f"{key}.{met[key]}"
                texts[key] = beginning(written, 300)
                try:
                    connection.execute(statement.text.encode())
                except psycopg.Error as error:
                    if connection.closed or (error.sqlstate or "").startswith(OF_THE_SERVER):
                        problem = f"PostgreSQL {cluster.server.version} cannot define the schema"
                        raise ServerError(f"{problem}: {server_said(error)}", f"at: {texts[key]}") from error
                    if error.sqlstate == "25P02":
                        connection.rollback()
                    refused[key] = said_plainly(error)
    return texts, refused


def find_names_anywhere(connection: psycopg.Connection[Any]) -> None:
    """Sets the search path to all schemas: names without a schema are found wherever they are, and every
    server gets the same."""
    connection.execute(_SEARCH_PATH.encode())


def said_plainly(error: psycopg.Error) -> str:
    """Returns a server's message without the text that it quotes, which may hold values."""
    parts = (error.diag.message_primary or str(error), error.diag.message_detail or "")
    return server_said(" ".join(part for part in parts if part))


@contextlib.contextmanager
def _said_of(server: Server) -> Iterator[None]:
    """Raises ServerError where a server fails at what every server takes, as without space."""
    try:
        yield
    except psycopg.Error as error:
        raise ServerError(f"PostgreSQL {server.version} does not serve: {server_said(error)}") from error


__all__ = [
    "DATABASE",
    "OF_THE_SERVER",
    "STATEMENT_SECONDS",
    "Schema",
    "defined_schema",
    "find_names_anywhere",
    "said_plainly",
]

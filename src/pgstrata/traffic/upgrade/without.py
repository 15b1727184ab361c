"""What of a dump depends on extensions that are left out: tried on a server that has none of them.

An extension that only a cloud has cannot be created here and dropped with CASCADE. So the dump's schema
is loaded, without rows, into a cluster of its own: what the server rejects because something does not
exist needs what is left out, or something that needs it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server
from pgstrata.sql_text import identifier
from pgstrata.workload.core.language import WorkContext
from pgstrata.workload.custom.options import CustomOptions
from pgstrata.workload.custom.setup import (
    DATABASE,
    executed,
    extension_of,
    is_transaction,
    key_of,
    table_filled,
)
from pgstrata.workload.custom.source import CopyBlock
from pgstrata.workload.custom.sql import SqlStatement

NOT_THERE = frozenset(("42704", "42883", "42P01", "42703", "3F000"))
"""SQLSTATEs of objects, functions, tables, columns and schemas that do not exist."""

STATEMENT_SECONDS = 600


def dependents(
    server: Server,
    options: CustomOptions,
    names: Sequence[str],
    *,
    folder: Path | None,
    say: Callable[[str], None],
    check: Callable[[], None],
) -> dict[str, str]:
    """Returns by key why a statement of the setup cannot be executed without these extensions.

    folder: where the cluster is made for as long as it takes. Raises UsageError for an extension that the
    setup does not create, ServerError where the server cannot be started.
    """
    confinement, files = executed(options, server.features)
    items = [item for of_file in files for item in of_file]
    created = {name for item in items if (name := extension_of(item))}
    if missing := [name for name in names if name not in created]:
        there = ", ".join(sorted(created)) or "none"
        raise UsageError(
            f"--without-extension {shown(missing[0])}: the dump does not create it", f"it creates: {there}"
        )
    say(f"loading the schema without {', '.join(names)}, to see what depends on it")
    why = {}
    with (
        tempfile.TemporaryDirectory(dir=folder or "/var/tmp", prefix="pgstrata-") as place,
        Cluster(server, Resolved("", (), {}, (), ()), Path(place) / "c") as cluster,
    ):
        Path(place).chmod(0o755)
        cluster.create()
        cluster.start()
        with cluster.connect() as admin:
            admin.execute(f"CREATE DATABASE {identifier(DATABASE)}".encode())
        context = WorkContext(partial(cluster.connect, DATABASE), lambda text: None, check)
        confinement.begin().do(context)
        with cluster.connect(DATABASE, confined=confinement.has_role) as session:
            session.execute(f"SET statement_timeout = '{STATEMENT_SECONDS}s'".encode())
            for item in items:
                check()
                if extension_of(item) in names:
                    why[key_of(item)] = "left out by --without-extension"
                elif not is_transaction(item) and (rejected := _rejected(session, item)):
                    why[key_of(item)] = f"needs what is left out with {', '.join(names)}: {rejected}"
    return why


def _rejected(session: psycopg.Connection[Any], item: SqlStatement | CopyBlock) -> str:
    """Returns what the server says where something that a statement needs does not exist, else empty."""
    table = table_filled(item)
    try:
        session.execute((f"SELECT 1 FROM {table} LIMIT 0" if table else item.text).encode())
    except psycopg.Error as error:
        if error.sqlstate in NOT_THERE:
            return error.diag.message_primary or str(error)
    return ""


__all__ = ["dependents"]

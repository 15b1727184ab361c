"""Where a bench connects to, as libpq finds it out."""

from __future__ import annotations

from typing import Any

import psycopg

from pgstrata.errors import ServerError, UsageError
from pgstrata.workload.core.language import Json


def connect(url: str) -> psycopg.Connection[Any]:
    """A connection as libpq makes it: URL, key=value words, a database's name, PG… variables."""
    plain = "=" not in url and "://" not in url
    try:
        return psycopg.connect(f"dbname='{_quoted(url)}'" if plain and url else url, autocommit=True)
    except psycopg.ProgrammingError as error:
        raise UsageError(f"{url!r} is no connection URL: {error}", "example: postgresql:///mydb") from error
    except psycopg.OperationalError as error:
        raise ServerError(f"cannot connect: {' '.join(str(error).split())}") from error


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def where(connection: psycopg.Connection[Any]) -> Json:
    """The driver's `connection` for the place that libpq has found."""
    info = connection.info
    parameters = info.get_parameters()
    if parameters.get("sslmode") in ("require", "verify-ca", "verify-full"):
        raise UsageError(
            f"the driver speaks no TLS, and sslmode is {parameters['sslmode']}",
            "use a Unix socket or a tunnel, or leave sslmode out",
        )
    place = {"host": info.hostaddr or info.host or "/tmp", "port": info.port, "user": info.user}
    if info.host.startswith("/"):
        place["host"] = info.host
    place |= {"database": info.dbname, "application_name": "pgstrata bench"}
    return place | ({"password": info.password} if info.password else {})

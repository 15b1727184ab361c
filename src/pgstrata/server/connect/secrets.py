"""What of a connection may be shown: everything but its secrets, which are known by name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import structs

from pgstrata.driver.spec import Connection

SECRETS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
"""Parameters of libpq whose values are nobody's business: those it marks as passwords, and SCRAM's keys."""

HIDDEN = "***"

_NAMED = re.compile(
    rf"\b({'|'.join(sorted(SECRETS))})(\s*(?:=|%3D)\s*)(?:'(?:\\.|[^'\\])*'?|[^\s&]+)", re.IGNORECASE
)
# A password may hold @ and /: up to the last @ of the word.
# One slash: what has been taken for the name of a file.
_IN_URI = re.compile(r"(\w:/{1,2}[^\s:/@]*):[^\s]*@")


def conninfo_without_secrets(conninfo: str) -> str:
    """Returns a connection string with its secrets hidden; nothing of one that is not valid."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        parts = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        # Where a quote is missing, anything may be part of a password.
        return HIDDEN
    return make_conninfo("", **{name: HIDDEN if name in SECRETS else text for name, text in parts.items()})


def spec_without_secrets(spec: str) -> str:
    """Returns a server's spec (`pg:17`, `dsn:…`) with its secrets hidden."""
    kind, colon, rest = spec.partition(":")
    return f"{kind}{colon}{conninfo_without_secrets(rest)}" if kind == "dsn" else spec


def without_secrets(text: str) -> str:
    """Returns any text that may quote a connection string, with everything hidden that looks like a secret of
    the string."""
    return _IN_URI.sub(rf"\1:{HIDDEN}@", _NAMED.sub(rf"\1\2{HIDDEN}", text))


def words_without_secrets(words: Iterable[str]) -> list[str]:
    """Returns the words of a command, with the secrets of connection strings among them hidden."""
    safe_words = []
    for word in words:
        before, dsn, conninfo = word.partition("dsn:")
        safe_words.append(
            f"{before}{dsn}{conninfo_without_secrets(conninfo)}" if dsn else without_secrets(word)
        )
    return safe_words


def public(connection: Connection) -> Connection:
    """Returns the driver's connection as it is kept with a run, without secrets."""
    tls = structs.replace(connection.tls, key_password=None) if connection.tls else None
    return structs.replace(connection, password=None, tls=tls)

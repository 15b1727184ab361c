"""TLS of the driver's sessions: as libpq has made it for the administrator's.

Which files count, and what they make of `sslmode`, is libpq's (documentation, "SSL Support"; `initialize_SSL`
in `fe-secure-openssl.c`). What of it the driver cannot do is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pgstrata.driver.spec import ChannelBinding, TlsMode, TlsSpec, TlsVersion
from pgstrata.errors import UsageError

if TYPE_CHECKING:
    import psycopg

SYSTEM = "system"
"""`sslrootcert` for the authorities that the system believes."""

_FOLDER = ".postgresql"

_LEGACY_PEM = re.compile(rb"^Proc-Type: 4,ENCRYPTED", re.MULTILINE)
"""Begins a key that is encrypted in the legacy format of PEM (RFC 1421), as by `openssl ec -aes256`."""

Named = Callable[[str], str]


def check(values: Mapping[str, str], named: Named) -> None:
    """Raises UsageError for what libpq would do with these parameters and the driver cannot.

    named: a parameter as it is told to people.
    """
    if values.get("sslcertmode") == "require":
        raise UsageError(
            "the driver does not see whether a server asks for its certificate, and "
            f"{named('sslcertmode')} is require",
            "leave it out: where there is a certificate, a server that asks gets it",
        )
    if values.get("sslcrldir"):
        raise UsageError(
            f"the driver reads no folder of revoked certificates ({named('sslcrldir')})",
            "name a file with sslcrl",
        )
    if values.get("sslkeylogfile"):
        raise UsageError("the driver tells nobody the keys of its sessions: leave sslkeylogfile out")
    most = values.get("ssl_max_protocol_version", "")
    if most and most.upper() not in (version.upper() for version in get_args(TlsVersion)):
        raise UsageError(
            f"the driver speaks TLSv1.2 and TLSv1.3, and {named('ssl_max_protocol_version')} is {most}"
        )
    if (revoked := values.get("sslcrl")) and not Path(revoked).is_file():
        raise UsageError(
            f"{named('sslcrl')}: {revoked} is not there",
            "libpq would go on without: leave sslcrl out for that",
        )
    if (key := values.get("sslkey", "")) and not Path(key).exists() and ":" in key.partition("/")[0]:
        raise UsageError(f"{named('sslkey')} = {key}: the driver reads keys from files only")
    if values.get("sslcertmode") != "disable" and (own_certificate := _own_certificate(values)):
        _check_key(own_certificate[1], values.get("sslpassword", ""))


def of_session(session: psycopg.Connection[Any], values: Mapping[str, str]) -> TlsSpec | None:
    """Returns how the driver encrypts its sessions with the place where this one is; None: not at all, as
    here.

    values: all parameters of the session.
    """
    if not session.pgconn.ssl_in_use:
        return None
    return of_values(values, session.info.host or session.info.hostaddr)


def of_values(values: Mapping[str, str], server_name: str) -> TlsSpec:
    """Returns how sessions with a server of this name are encrypted, by the parameters of a connection."""
    roots = _roots(values)
    mode: TlsMode = "require"
    if values.get("sslmode") == "verify-full":
        mode = "verify-full"
    elif roots is not None:
        # Whatever sslmode says: where there are authorities, libpq asks them.
        mode = "verify-ca"
    own_certificate = None if values.get("sslcertmode") == "disable" else _own_certificate(values)
    revoked = Path(values["sslcrl"]) if values.get("sslcrl") else _home("root.crl")
    binding: dict[str, ChannelBinding] = {name: name for name in get_args(ChannelBinding)}
    versions: dict[str, TlsVersion] = {name.upper(): name for name in get_args(TlsVersion)}
    return TlsSpec(
        server_name=server_name,
        mode=mode,
        negotiation="direct" if values.get("sslnegotiation") == "direct" else "postgres",
        root_certificates=roots,
        revocation_list=str(revoked.absolute()) if roots and revoked.is_file() else None,
        certificate=str(own_certificate[0].absolute()) if own_certificate else None,
        key=str(own_certificate[1].absolute()) if own_certificate else None,
        key_password=(values.get("sslpassword") or None) if own_certificate else None,
        channel_binding=binding[values.get("channel_binding") or "prefer"],
        sni=values.get("sslsni") != "0",
        least_version=versions.get(values.get("ssl_min_protocol_version", "").upper(), "TLSv1.2"),
        most_version=versions.get(values.get("ssl_max_protocol_version", "").upper(), "TLSv1.3"),
    )


def _home(name: str) -> Path:
    """Returns the path of a file in the home folder where libpq looks for it."""
    return Path("~").expanduser() / _FOLDER / name


def _roots(values: Mapping[str, str]) -> str | None:
    """Returns the authorities whose certificates are believed: a file, `system`, or None if no authority is
    asked."""
    given = values.get("sslrootcert")
    if given == SYSTEM:
        return SYSTEM
    file = Path(given) if given else _home("root.crt")
    return str(file.absolute()) if file.exists() else None


def _own_certificate(values: Mapping[str, str]) -> tuple[Path, Path] | None:
    """Returns the client's certificate and its key; None if there is no certificate."""
    given, key = values.get("sslcert"), values.get("sslkey")
    certificate = Path(given) if given else _home("postgresql.crt")
    if not certificate.exists():
        return None
    return certificate, Path(key) if key else _home("postgresql.key")


def _check_key(key: Path, password: str) -> None:
    """Raises UsageError for an encrypted key without its password, or encrypted as the driver cannot read it;
    not for one that cannot be opened, which libpq says better."""
    try:
        with key.open("rb") as file:
            begin = file.read(1000)
    except OSError:
        return
    if _LEGACY_PEM.search(begin):
        raise UsageError(
            f"the key {key} is encrypted in the legacy format of PEM (Proc-Type: 4,ENCRYPTED), which the "
            "driver does not read",
            f"openssl pkcs8 -topk8 -v2 aes256 -in {key} -out FILE writes it as PKCS #8, with its password; "
            "then sslkey=FILE",
        )
    if b"ENCRYPTED" in begin and not password:
        raise UsageError(
            f"the key {key} is encrypted, and no password was given",
            "put it as sslpassword into a service file (~/.pg_service.conf), or into the connection string",
        )

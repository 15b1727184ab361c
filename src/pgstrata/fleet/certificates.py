"""Certificates that are made for one fleet: whoever holds its key takes part, and nobody else is answered."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgstrata.errors import UsageError

CERTIFICATE, KEY = "fleet.pem", "fleet.key"

VALID_DAYS = 3650
"""A fleet ends long before; a clock that is wrong by years does not end it."""


@dataclass(frozen=True)
class Certificates:
    """Paths of a fleet's certificate, which is its own authority, and of its key."""

    certificate: str
    key: str

    def settings(self) -> dict[str, Any]:
        """Returns the engine's configuration that uses these certificates for every side."""
        tls = "distributed.comm.tls"
        sides = {
            f"{tls}.{role}.{part}": path
            for role in ("scheduler", "worker", "client")
            for part, path in (("cert", self.certificate), ("key", self.key))
        }
        return {
            "distributed.comm.require-encryption": True,
            f"{tls}.ca-file": self.certificate,
            f"{tls}.min-version": 1.3,
            **sides,
        }


def certificates_in(folder: Path | str) -> Certificates:
    """Returns the certificates that lie, or will lie, in a folder."""
    return Certificates(f"{folder}/{CERTIFICATE}", f"{folder}/{KEY}")


def make_certificates(folder: Path) -> Certificates:
    """Makes a key and a certificate in a private folder, mode 0600. Raises UsageError without `cryptography`,
    OSError where they cannot be written."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError as error:
        raise UsageError(
            "certificates for the fleet need the package cryptography, which is not installed",
            "pip install 'pgstrata[fleet]'",
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pgstrata fleet")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=VALID_DAYS))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("pgstrata-fleet")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificates = certificates_in(folder)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for path, content in (
        (certificates.key, secret),
        (certificates.certificate, certificate.public_bytes(serialization.Encoding.PEM)),
    ):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(content)
    return certificates


__all__ = ["CERTIFICATE", "KEY", "Certificates", "certificates_in", "make_certificates"]

"""Certificates, and servers that speak TLS with them."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgstrata.server.cluster.cluster import Cluster

VALID = ("20200101000000Z", "20990101000000Z")
PAST = ("20200101000000Z", "20210101000000Z")


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _key(file: Path, *, rsa: bool = False) -> Path:
    how = ("RSA", "rsa_keygen_bits:2048") if rsa else ("EC", "ec_paramgen_curve:P-256")
    _openssl("genpkey", "-algorithm", how[0], "-pkeyopt", how[1], "-out", file)
    file.chmod(0o600)
    return file


def encrypted_key(file: Path, password: str, *how: str) -> Path:
    """A copy of a key that needs a password; how: a command of openssl and its options."""
    locked = file.with_suffix(".locked")
    _openssl(*how, "-in", file, "-out", locked, "-passout", f"pass:{password}")
    locked.chmod(0o600)
    return locked


@dataclass(frozen=True)
class Signed:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """One that signs; everything it makes lies in its folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder / name
        self.folder.mkdir()
        (self.folder / "index").touch()
        # Without a number it would be a list of version 1.
        (self.folder / "number").write_text("01\n")
        (self.folder / "settings").write_text(
            "[ca]\ndefault_ca = it\n[it]\npolicy = any\ndefault_md = sha256\nrand_serial = yes\n"
            f"unique_subject = no\ndatabase = {self.folder}/index\ndefault_crl_days = 3650\n"
            f"crlnumber = {self.folder}/number\n"
            "[any]\ncommonName = supplied\n[req]\ndistinguished_name = dn\n[dn]\n"
            "[authority]\nbasicConstraints = critical,CA:TRUE\nsubjectKeyIdentifier = hash\n"
        )
        self.settings = self.folder / "settings"
        self._key = _key(self.folder / "root.key")
        self.certificate = self.folder / "root.crt"
        _openssl("req", "-x509", "-new", "-key", self._key, "-subj", f"/CN={name}", "-days", "20000",
                 "-config", self.settings, "-extensions", "authority", "-out", self.certificate)  # fmt: skip

    def sign(
        self,
        name: str,
        alternative: str = "",
        valid: tuple[str, str] = VALID,
        extensions: bool = True,
        file: str = "",
        rsa: bool = False,
    ) -> Signed:
        """name: the common name. alternative: `DNS:…,IP:…`. extensions False: X.509's first version."""
        base = self.folder / (file or name)
        key, request, certificate = (base.with_suffix(end) for end in (".key", ".csr", ".crt"))
        _key(key, rsa=rsa)
        _openssl(
            "req", "-new", "-key", key, "-subj", f"/CN={name}", "-config", self.settings, "-out", request
        )
        if extensions:
            more = base.with_suffix(".ext")
            names = f"subjectAltName = {alternative}\n" if alternative else ""
            more.write_text(f"[it]\nbasicConstraints = CA:FALSE\n{names}")
            _openssl("ca", "-batch", "-notext", "-config", self.settings, "-cert", self.certificate,
                     "-keyfile", self._key, "-startdate", valid[0], "-enddate", valid[1],
                     "-outdir", self.folder, "-extfile", more, "-extensions", "it",
                     "-in", request, "-out", certificate)  # fmt: skip
        else:
            _openssl("x509", "-req", "-in", request, "-days", "3650", "-CA", self.certificate,
                     "-CAkey", self._key, "-set_serial", "7", "-out", certificate)  # fmt: skip
        return Signed(certificate, key)

    def revoke(self, signed: Signed) -> Path:
        """The list of what it has revoked, this one included."""
        base = ("ca", "-config", self.settings, "-cert", self.certificate, "-keyfile", self._key)
        _openssl(*base, "-revoke", signed.certificate)
        return self.revoked()

    def revoked(self) -> Path:
        """The list of what it has revoked."""
        file = self.folder / "root.crl"
        base = ("ca", "-config", self.settings, "-cert", self.certificate, "-keyfile", self._key)
        _openssl(*base, "-gencrl", "-out", file)
        return file


def own_authority(folder: Path, name: str) -> Signed:
    """A certificate that nobody else has signed."""
    key, certificate = _key(folder / f"{name}.key"), folder / f"{name}.crt"
    _openssl(
        "req", "-x509", "-new", "-key", key, "-subj", f"/CN={name}", "-days", "20000", "-out", certificate
    )
    return Signed(certificate, key)


def speak_tls(cluster: Cluster, signed: Signed, authority: Path, hba: str, more: str = "") -> None:
    """Gives a cluster that has been made and not started, or runs already, TLS; hba: lines of pg_hba.conf."""
    give_certificate(cluster, signed)
    _own(cluster, authority, "clients.crt")
    with (cluster.data_folder.path / "postgresql.conf").open("a") as file:
        file.write(f"\nssl = on\nssl_ca_file = 'clients.crt'\n{more}\n")
    (cluster.data_folder.path / "pg_hba.conf").write_text(f"local all all trust\n{hba}\n")


def give_certificate(cluster: Cluster, signed: Signed) -> None:
    """Another one; a server that runs takes it when it reads its configuration again."""
    _own(cluster, signed.certificate, "server.crt")
    _own(cluster, signed.key, "server.key")


def _own(cluster: Cluster, file: Path, name: str) -> None:
    there = cluster.data_folder.path / name
    shutil.copyfile(file, there)
    owner = cluster.data_folder.path.stat()
    os.chown(there, owner.st_uid, owner.st_gid)
    there.chmod(0o600)

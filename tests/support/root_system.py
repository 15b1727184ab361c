"""Fresh Debian systems in folders, in which commands run as root or as an account without rights."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

SUITES = {"bookworm": "3.11", "trixie": "3.13", "sid": "3.14"}
"""The Python of Debian's suites. None has 3.12."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_ENTER = """
set -e
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
cd "$1"
exec chroot --userspec="$2" "$1" /bin/sh -c 'cd "$1"; shift; exec "$@"' sh "${@:3}"
"""
"""Arguments: folder of the system, account, working directory, command. Mounts end with the command."""


class RootSystem:
    """A fresh system of a Debian suite with some packages.

    It uses the network of this one and trusts the same certificates.
    """

    def __init__(self, place: Path, suite: str, packages: Sequence[str]) -> None:
        """Makes it in `place`, or skips the test where that is impossible."""
        if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
            pytest.skip("needs root and mmdebstrap")
        self.place = place
        # A mirror that is no longer updated will do: what it has is signed.
        options = ["--quiet", "--variant=minbase", '--aptopt=Acquire::Check-Valid-Until "false"']
        include = f"--include={','.join(packages)}"
        subprocess.run(["mmdebstrap", *options, include, suite, str(place)], check=True)
        shutil.copy("/etc/resolv.conf", place / "etc/resolv.conf")
        (place / "etc/hosts").write_text("127.0.0.1 localhost\n")
        shutil.copy(CERTIFICATES, place / CERTIFICATES.relative_to("/"))

    def run(
        self,
        *command: str,
        account: str = "root",
        folder: str = "/",
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end and returns its output; fails the test where it fails."""
        environment = {"PATH": PATH, "PIP_CERT": str(CERTIFICATES), "LC_ALL": "C.UTF-8", **(env or {})}
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", _ENTER, "bash"]
        done = subprocess.run(
            [*unshare, str(self.place), account, folder, *command],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done

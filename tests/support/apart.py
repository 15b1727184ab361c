"""A room apart from the machine, for commands of one account beside an attacker of another one."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pgstrata
from support import attacker
from support.kills import Room
from support.program import environment
from support.users import STRANGER

GUESSES = (
    *("pgstrata", "pgstrata-root", "pgstrata-nobody", "pgstrata-postgres", "pgstrata-fleet", "pgstrata.log"),
    *("dask-scratch-space", "dask-worker-space", ".s.PGSQL.5432", ".s.PGSQL.5432.lock", "results", "data"),
    *("callgrind.out", "perf.data", "core", "duckdb", "matplotlib", "ccache-tmp"),
)
"""Names of temporary files that programs like this use, and that it may still use."""


class Apart(Room):
    """A room with temporary folders of its own, open to all, and a network with nothing but loopback.

    account: who runs pgstrata there, root without.
    """

    NAMESPACES = ("--ipc", "--mount", "--net")

    def __init__(self, place: Path, account: str | None = None) -> None:
        super().__init__(place)
        self.account = pwd.getpwnam(account) if account else None
        self.temporary.chmod(0o1777)
        (place / "home").mkdir(mode=0o700, exist_ok=True)
        if self.account:
            for path in (place, *place.rglob("*")):
                if "c" not in path.relative_to(place).parts[:1]:
                    os.chown(path, self.account.pw_uid, self.account.pw_gid, follow_symlinks=False)

    def mounts(self) -> str:
        steps = [
            super().mounts(),
            f"mount --bind {self.place} /mnt",
            "mount -t tmpfs -o mode=1777 tmpfs /tmp",
            "mount -t tmpfs -o mode=1777 tmpfs /var/tmp",
            f"mkdir {self.place}",
            f"mount --bind /mnt {self.place}",
            "umount /mnt",
            f"{sys.executable} -c {_LOOPBACK!r}",
        ]
        return " && ".join(steps)

    def interpreter(self) -> list[str]:
        if self.account is None:
            return [sys.executable]
        ids = (f"--reuid={self.account.pw_uid}", f"--regid={self.account.pw_gid}", "--clear-groups")
        return ["setpriv", *ids, interpreter_of_all()]

    def environment(self) -> dict[str, str]:
        """Variables that pgstrata gets besides."""
        more = {"HOME": str(self.place / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
        if self.account is not None:
            source = Path(pgstrata.__file__).parents[1]
            more["PYTHONPATH"] = f"{source}:{sysconfig.get_path('purelib')}"
        return more


_LOOPBACK = "import pgstrata.server.system.network as n; n._bring_up_loopback()"


def interpreter_of_all() -> str:
    """A Python of this version that every account can run. Skips where there is none."""
    for program in (sys.executable, "/usr/bin/python3", shutil.which("python3") or ""):
        command = ["setpriv", f"--reuid={STRANGER}", "--clear-groups", program, "-c"]
        command += ["import sys; print(*sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", env={"PATH": "/usr/bin:/bin"})
        if done.stdout.split() == list(map(str, sys.version_info[:2])):
            return program
    pytest.skip("no Python of this version can be run by another account")


class Attack:
    """What the attacker has reached. names: that it has seen in folders open to all, and tries next time."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.faults: list[str] = []
        self.names: set[str] = set()

    def add(self, command: str, tally: dict[str, Any]) -> None:
        faults = [f"{command}: read {secret} in {where}" for where, secret in tally["secrets"].items()]
        faults += [f"{command}: {answer}" for answer in tally["answers"]]
        self.take(tally["count"], faults, tally["names"])

    def take(self, count: Mapping[str, int], faults: Sequence[str], names: Sequence[str]) -> None:
        """Adds what came of one attack."""
        for what, number in count.items():
            self.count[what] = self.count.get(what, 0) + number
        self.faults += faults
        for name in names:
            if len(self.names) < 1000:
                self.names.add(name)

    def table(self) -> str:
        return "\n".join(f"{number:>9,} {what}" for what, number in sorted(self.count.items()))


@contextmanager
def attacked(
    room: Apart, attack: Attack, command: str, secrets: Sequence[str], roots: Sequence[str]
) -> Iterator[None]:
    """Keeps an attacker at work in the room, and judges what it has reached."""
    den = room.place / "den"
    shutil.rmtree(den, ignore_errors=True)
    den.mkdir(mode=0o700)
    os.chown(den, STRANGER, STRANGER)
    precious = {room.place / "precious.txt": "mine\n", room.place / "precious.new": None}
    for path, text in precious.items():
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
            path.chmod(0o644)
    plan = {
        "uid": STRANGER,
        "roots": list(roots),
        "guesses": GUESSES,
        "precious": [*map(str, precious), str(room.place / "home")],
        "secrets": list(secrets),
        "marker": str(den / "marker"),
        "known": sorted(attack.names),
        "out": str(den / "tally.json"),
    }
    (den / "plan.json").write_text(json.dumps(plan))
    (den / "plan.json").chmod(0o644)
    process = subprocess.Popen(
        [*room.inside(), sys.executable, attacker.__file__, str(den / "plan.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        cwd="/",
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.stdin.close()
        code = process.wait(120)
        process.stdout.close()
    assert code == 0
    attack.add(command, json.loads((den / "tally.json").read_text()))
    if (den / "marker").exists():
        attack.faults.append(f"{command}: ran {(den / 'marker').read_text()[:200]}")
    for path, text in precious.items():
        if (path.read_text() if path.exists() else None) != text:
            attack.faults.append(f"{command}: followed a link to {path.name}")
    home = [path.name for path in (room.place / "home").iterdir() if not path.name.startswith(".")]
    if home:
        attack.faults.append(f"{command}: put {home} into the folder that links lead to")

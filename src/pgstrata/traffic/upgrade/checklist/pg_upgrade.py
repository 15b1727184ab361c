"""`pg_upgrade --check` between two servers that have the programs for it."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from pgstrata.errors import harmless
from pgstrata.files.disk import remove_tree
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.startup import programs_of
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server
from pgstrata.server.system.account import server_account
from pgstrata.server.system.isolation import becoming
from pgstrata.server.system.process import server_env

OF_NEW = (
    "pg_upgrade",
    "pg_controldata",
    "pg_resetwal",
    "pg_dump",
    "pg_dumpall",
    "pg_restore",
    "psql",
    "vacuumdb",
)
"""Programs that pg_upgrade looks for in the new installation, beside the server's own."""

OF_OLD = ("pg_controldata", "pg_ctl", "postgres")

SECONDS = 300.0

MOST_LETTERS = 20_000


class CheckedUpgrade(msgspec.Struct, frozen=True):
    """What `pg_upgrade --check` printed, with the lists that it wrote; passed: it found nothing."""

    passed: bool
    command: str
    output: str


def has_pg_upgrade(old: Server, new: Server) -> bool:
    """Returns whether both installations have what `pg_upgrade --check` needs."""
    if old.bin_dir is None or new.bin_dir is None:
        return False
    return all((new.bin_dir / name).is_file() for name in OF_NEW) and all(
        (old.bin_dir / name).is_file() for name in OF_OLD
    )


def pg_upgrade_check(
    old: Cluster,
    server: Server,
    config: Resolved,
    root: Path,
    check: Callable[[], None],
    *,
    checksums: bool = False,
) -> CheckedUpgrade:
    """Runs it on the data of a stopped cluster and on a new, empty one, as the account of servers.

    checksums: the old cluster has them; the new one gets the same, as a person would make it.
    Raises ServerError where the new cluster cannot be made.
    """
    assert old.server.bin_dir is not None and server.bin_dir is not None
    folder = Path(tempfile.mkdtemp(prefix="checklist-", dir=root))
    folder.chmod(0o755)
    try:
        programs = programs_of(server)
        word = "--data-checksums" if checksums else "--no-data-checksums"
        initdb = [word] if programs.initdb_takes(word) else []
        with Cluster(server, config, folder / "cluster", initdb=initdb) as new:
            new.create()
            new.data_folder.make_private(folder / "work")
            command = [
                str(server.bin_dir / "pg_upgrade"),
                "--check",
                *("--old-bindir", str(old.server.bin_dir), "--new-bindir", str(server.bin_dir)),
                *("--old-datadir", str(old.data_folder.path), "--new-datadir", str(new.data_folder.path)),
                *("--username", Cluster.user, "--socketdir", str(folder / "work")),
            ]
            output, passed = _run(command, folder / "work", check)
            lists = [
                f"{file.name}:\n{file.read_text(errors='replace')}"
                for place in (folder / "work", new.data_folder.path / "pg_upgrade_output.d")
                for file in sorted(place.rglob("*.txt"))
            ]
            shown_command = "pg_upgrade --check -b OLD/bin -B NEW/bin -d OLD/data -D NEW/data"
            return CheckedUpgrade(passed, shown_command, harmless("\n".join([output, *lists]))[:MOST_LETTERS])
    finally:
        remove_tree(folder)


def _run(command: list[str], folder: Path, check: Callable[[], None]) -> tuple[str, bool]:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=server_env(),
            preexec_fn=becoming(server_account()),
        )
        end = time.monotonic() + SECONDS
        try:
            while process.poll() is None and time.monotonic() < end:
                check()
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        output.seek(0)
        return output.read(MOST_LETTERS).decode(errors="replace"), process.returncode == 0


__all__ = ["CheckedUpgrade", "has_pg_upgrade", "pg_upgrade_check"]

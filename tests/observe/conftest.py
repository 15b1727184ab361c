"""A running server per test session, and one psycopg connection to it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

BIN = Path("/usr/lib/postgresql/15/bin")
CONF = """
listen_addresses = ''
unix_socket_directories = '{folder}'
fsync = off
log_line_prefix = '%m [%p] '
log_timezone = 'UTC'
lc_messages = 'C'
log_checkpoints = on
log_autovacuum_min_duration = 0
autovacuum_naptime = 1
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0
autovacuum_analyze_threshold = 50
autovacuum_analyze_scale_factor = 0
shared_buffers = '32MB'
"""


class LocalCluster:
    """What observe needs of a cluster, over an installed server."""

    def __init__(self, bin_dir: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pgo"))
        self.data_dir: Path | None = self.folder / "data"
        self.log_file: Path | None = self.folder / "log"
        self._account = pwd.getpwnam("postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
        os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
        self._run(
            [
                bin_dir / "initdb",
                "-D",
                self.data_dir,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
            ]
        )
        with (self.data_dir / "postgresql.conf").open("a") as conf:
            conf.write(CONF.format(folder=self.folder))
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [bin_dir / "postgres", "-D", self.data_dir],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._who(),
                start_new_session=True,
            )
        self.pid: int | None = self._process.pid
        deadline = time.monotonic() + 20
        while True:
            try:
                with self.connect() as session:
                    session.execute("CREATE DATABASE pgstrata")
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _who(self) -> dict[str, Any]:
        return (
            {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
            if os.geteuid() == 0
            else {}
        )

    def _run(self, command: list[Any]) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **self._who())

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(host=str(self.folder), user="postgres", dbname=database, autocommit=True)

    def wait(self) -> None:
        self._process.wait(20)

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self.wait()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    running = LocalCluster(BIN)
    yield running
    running.close()


@pytest.fixture
def new_cluster() -> Iterator[LocalCluster]:
    """One that the test may destroy."""
    running = LocalCluster(BIN)
    yield running
    running.close()

"""A recording proxy before a server, and what it has recorded."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured, Header, Statement
from support.program import Running

PORT = re.compile(r"listening on 127\.0\.0\.1:(\d+) ")


class Proxy:
    """One that runs; its recording lies in `folder`."""

    def __init__(self, place: Path, cluster: Cluster, *more: str, to: str | None = None) -> None:
        self.place, self.folder = place, place / "recording"
        target = to or f"host={cluster.socket_dir} port={cluster.port}"
        local = () if to else ("--allow-peer",)
        arguments = ["record", "--to", target, "--listen", "127.0.0.1:0", "-o", str(self.folder)]
        self.running = Running(place, [*arguments, *local, *more])
        self.running.wait_for_text("listening on")
        match = PORT.search(self.running.printed)
        assert match is not None, self.running.printed
        self.port = int(match[1])

    @property
    def process(self) -> psutil.Process:
        """The proxy's process, which pgstrata has become."""
        return psutil.Process(self.running.process.pid)

    def url(self, database: str = "postgres", user: str = "postgres", **more: Any) -> str:
        words = " ".join(f"{name}={value}" for name, value in more.items())
        return f"host=127.0.0.1 port={self.port} user={user} dbname={database} {words}"

    def connect(self, database: str = "postgres", **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url(database), autocommit=True, **more)

    def end(self, number: int = signal.SIGINT) -> int:
        """Ends it, and returns its exit code."""
        if self.running.process.poll() is None:
            self.running.process.send_signal(number)
        return self.running.end()

    def captured(self, name: str = "traffic") -> tuple[Header, list[Statement]]:
        """What was recorded, as a captured file has it."""
        file = self.place / name
        header = capture([self.folder], file)
        return header, statements(file)


def statements(file: Path) -> list[Statement]:
    """All statements of a captured file by their start."""
    with Captured(file) as captured:
        all_statements = [
            statement for entry in captured.sessions() for statement in captured.statements(entry)
        ]
    return sorted(all_statements, key=lambda statement: statement.start)


@contextmanager
def recording(place: Path, cluster: Cluster, *more: str, to: str | None = None) -> Iterator[Proxy]:
    """A proxy before the server, which has ended afterwards."""
    proxy = Proxy(place, cluster, *more, to=to)
    try:
        yield proxy
    finally:
        proxy.end()

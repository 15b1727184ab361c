"""A Unix socket in front of a server that notes what clients prepare and how they execute it."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PORT = 5432


class Tap:
    """`folder`: where clients connect, with port `PORT`. `types`: statement → OIDs of its parameters, as
    Parse messages declare them. `formats`: statement → the format codes of its parameters and of its results
    in the last Bind message (source of both: PostgreSQL's documentation, "Message Formats")."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder = folder
        self.types: dict[str, list[int]] = {}
        self.formats: dict[str, tuple[list[int], list[int]]] = {}
        self._server = server
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(folder / f".s.PGSQL.{PORT}"))
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._server))
            for pair in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, to: socket.socket, listen: bool) -> None:
        held, begun = b"", False
        names: dict[bytes, str] = {}
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                to.sendall(data)
                if not listen:
                    continue
                held += data
                # The first message has no type byte.
                while len(held) >= (at := 1 if begun else 0) + 4:
                    size = at + int.from_bytes(held[at : at + 4], "big")
                    if len(held) < size:
                        break
                    if begun and held[:1] == b"P":
                        self._parse(held[5:size], names)
                    elif begun and held[:1] == b"B":
                        self._bind(held[5:size], names)
                    held, begun = held[size:], True
        for end in (source, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _parse(self, message: bytes, names: dict[bytes, str]) -> None:
        name, text, rest = message.split(b"\0", 2)
        count = int.from_bytes(rest[:2], "big")
        oids = [int.from_bytes(rest[2 + 4 * i : 6 + 4 * i], "big") for i in range(count)]
        names[name] = " ".join(text.decode().split())
        self.types[names[name]] = oids

    def _bind(self, message: bytes, names: dict[bytes, str]) -> None:
        _, name, rest = message.split(b"\0", 2)
        parameters, rest = _codes(rest)
        values, rest = int.from_bytes(rest[:2], "big"), rest[2:]
        for _ in range(values):
            size = int.from_bytes(rest[:4], "big", signed=True)
            rest = rest[4 + max(size, 0) :]
        self.formats[names[name]] = parameters, _codes(rest)[0]


def _codes(data: bytes) -> tuple[list[int], bytes]:
    """16-bit numbers with their count in front, and what follows."""
    end = 2 + 2 * int.from_bytes(data[:2], "big")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(2, end, 2)], data[end:]


@contextmanager
def tap(server: Path) -> Iterator[Tap]:
    """server: the socket of the server."""
    with tempfile.TemporaryDirectory(prefix="pgs", dir="/tmp") as folder:
        result = Tap(Path(folder), server)
        try:
            yield result
        finally:
            result.close()

"""Another user of the machine who tries everything at once; a program of its own: `python attacker.py FILE`.

It polls folders for what appears there and for what it may write to, plants symbolic links and programs under
names that it saw or guesses, connects to every socket and port, and reads every file, command line and
environment that it is allowed to. It ends when its standard input does. Standard library only.

FILE is JSON: `uid` (who it is), `roots` (folders it looks into), `guesses` (names it plants in folders that
it may write to), `precious` (where links lead), `secrets` (texts to look for), `marker` (where programs note
who ran them), `known` (names it remembers from last time) and `out` (where it writes its tally).
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  # used by connect
import json
import os
import re
import select
import socket
import stat
import struct
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

MOST_BYTES = 4 << 20
"""Of a file that is read at once."""

PROGRAMS = (
    "sitecustomize.py",
    "usercustomize.py",
    "conftest.py",
    "postgres",
    "initdb",
    "git",
    "cc",
    "configure",
)
LIBRARIES = (
    "psycopg.py",
    "duckdb.py",
    "liburing.so",
    "postgresql.conf",
    "pg_service.conf",
    ".pgpass",
    "Makefile",
)


class Attacker:
    """What it knows, and what came of it."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.count: Counter[str] = Counter()
        self.secrets: dict[str, str] = {}
        self.answers: list[str] = []
        self.names: set[str] = set()
        self.writable: set[str] = set()
        self._seen: dict[str, tuple[int, int]] = {}
        self._asked: set[str] = set()
        self._mine: set[str] = set()
        self._texts = [text.encode() for text in plan["secrets"]]

    def round(self) -> None:
        """Looks at everything once."""
        for root in self.plan["roots"]:
            self._walk(root, 0)
        self._processes()
        self._ports()

    # --- files ------------------------------------------------------------------------------------

    def _walk(self, folder: str, depth: int) -> None:
        with contextlib.suppress(OSError):
            if os.access(folder, os.W_OK | os.X_OK):
                self._plant(folder)
        try:
            with os.scandir(folder) as entries:
                all_entries = list(entries)
        except OSError:
            # A folder that is closed may still let its content be guessed.
            self.count["closed folders"] += 1
            return
        for entry in all_entries:
            if entry.path in self._mine:
                continue
            with contextlib.suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                if about.st_uid == os.getuid():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if depth < 12:
                        self._walk(entry.path, depth + 1)
                elif stat.S_ISSOCK(about.st_mode):
                    self._socket(entry.path)
                else:
                    self._file(entry.path, about)

    def _file(self, path: str, about: os.stat_result) -> None:
        state = (about.st_mtime_ns, about.st_size)
        if self._seen.get(path) == state:
            return
        self._seen[path] = state
        self.count["files tried"] += 1
        if not stat.S_ISREG(about.st_mode):
            return
        if os.access(path, os.W_OK):
            self.answers.append(f"may write to {path}")
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                text = file.read(MOST_BYTES)
        except OSError:
            return
        self.count["files opened"] += 1
        self._judge(text, path)

    def _judge(self, text: bytes, where: str) -> None:
        for secret in self._texts:
            if secret in text:
                self.secrets[where] = secret.decode()

    def _plant(self, folder: str) -> None:
        """Puts links and programs into a folder that it may write to."""
        self.writable.add(folder)
        with os.scandir(folder) as entries:
            there = {entry.name for entry in entries}
        self.names |= {os.path.join(folder, name) for name in there} - self._mine  # noqa: PTH118
        sticky = bool(os.stat(folder).st_mode & stat.S_ISVTX)  # noqa: PTH116
        precious = self.plan["precious"]
        known = [os.path.basename(path) for path in self.plan["known"]]  # noqa: PTH119
        for name in {*known, *self.plan["guesses"], *(there if not sticky else ())}:
            path = os.path.join(folder, name)  # noqa: PTH118
            if path in self._mine:
                continue
            with contextlib.suppress(OSError):
                if name in there and not sticky:
                    os.rename(path, f"{path}.taken")  # noqa: PTH104
                os.symlink(precious[len(self._mine) % len(precious)], path)  # noqa: PTH211
                self._mine.add(path)
                self.count["links planted"] += 1
        for name in (*PROGRAMS, *LIBRARIES):
            path = os.path.join(folder, name)  # noqa: PTH118
            with contextlib.suppress(OSError):
                file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o755)
                self._mine.add(path)
                os.write(file, self._program(name))
                os.close(file)
                os.chmod(path, 0o755)  # noqa: PTH101
                self.count["programs planted"] += 1

    def _program(self, name: str) -> bytes:
        marker = self.plan["marker"]
        if name.endswith(".py"):
            return f"import os\nopen({marker!r}, 'a').write(f'{{os.getuid()}} {name}\\n')\n".encode()
        if name == "Makefile":
            return f"all:\n\tid -u >> {marker}\n".encode()
        return f"#!/bin/sh\necho $(id -u) {name} >> {marker}\n".encode()

    # --- processes --------------------------------------------------------------------------------

    def _processes(self) -> None:
        for name in os.listdir("/proc"):  # noqa: PTH208
            if not name.isdigit() or name == str(os.getpid()):
                continue
            for what in ("cmdline", "environ", "maps", "stack"):
                with contextlib.suppress(OSError), open(f"/proc/{name}/{what}", "rb") as file:  # noqa: PTH123
                    text = file.read(1 << 16)
                    if what == "cmdline":
                        line = text.replace(b"\0", b" ").decode(errors="replace").strip()
                        # What a user types stands in the list of processes: that is of its own making.
                        if " -m pgstrata " in f" {line} ":
                            continue
                        self._judge(text, f"command line of {line[:80]}")
                    elif text:
                        self._judge(text, f"/proc/{name}/{what}")
            with contextlib.suppress(OSError):
                for number in os.listdir(f"/proc/{name}/fd"):  # noqa: PTH208
                    with open(f"/proc/{name}/fd/{number}", "rb") as file:  # noqa: PTH123
                        self._judge(file.read(4096), f"/proc/{name}/fd/{number}")

    # --- sockets ----------------------------------------------------------------------------------

    def _ports(self) -> None:
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError), open(f"/proc/net/{table}") as file:  # noqa: PTH123
                for line in file.readlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A":
                        self._port(int(fields[1].rpartition(":")[2], 16), table, fields[9])
        with contextlib.suppress(OSError), open("/proc/net/unix") as file:  # noqa: PTH123
            for line in file.readlines()[1:]:
                words = line.split()
                if len(words) == 8 and words[7].startswith("@"):
                    self._socket("\0" + words[7][1:])

    def _port(self, port: int, table: str, inode: str) -> None:
        if (name := f"port {port} {inode}") in self._asked:
            return
        self._asked.add(name)
        host = "127.0.0.1" if table == "tcp" else "::1"
        family = socket.AF_INET if table == "tcp" else socket.AF_INET6
        for probe in PROBES:
            with contextlib.suppress(OSError), socket.socket(family) as connection:
                connection.settimeout(1)
                connection.connect((host, port))
                self.count["ports connected"] += probe == "postgres"
                self._probe(connection, f"port {port}", probe)

    def _socket(self, path: str) -> None:
        if path in self._asked:
            return
        self._asked.add(path)
        self.count["sockets tried"] += 1
        for probe in PROBES:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(path)
                self.count["sockets connected"] += 1
                self._probe(connection, path, probe)

    def _probe(self, connection: socket.socket, where: str, probe: str) -> None:
        connection.sendall(PROBES[probe])
        answer = b""
        with contextlib.suppress(OSError):
            answer = connection.recv(512)
        if GRANTED[probe].search(answer):
            self.answers.append(f"{where} answers {probe}: {answer[:60]!r}")
        self._judge(answer, f"answer of {where}")


def _startup(user: str) -> bytes:
    body = struct.pack("!i", 196608) + f"user\0{user}\0database\0postgres\0\0".encode()
    return struct.pack("!i", len(body) + 4) + body


PROBES = {
    "postgres": _startup("postgres"),
    "http": b"GET / HTTP/1.0\r\n\r\n",
    "plain": b"\n{}\n" * 4,
}
GRANTED = {
    # AuthenticationOk, without a question for a password.
    "postgres": re.compile(rb"^R\0\0\0\x08\0\0\0\0"),
    "http": re.compile(rb"^HTTP/1.. 200"),
    # The engine's scheduler greets by its version in plain text where it speaks without TLS.
    "plain": re.compile(rb"compression|python|\{\""),
}


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    # Started as root: the interpreter may lie where only root can read. All modules are loaded by now.
    os.setgroups([])
    os.setresgid(plan["uid"], plan["uid"], plan["uid"])
    os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    attacker = Attacker(plan)
    print("ready", flush=True)
    rounds = 0
    while not select.select([sys.stdin], [], [], 0.03)[0]:
        attacker.round()
        rounds += 1
    attacker.count["rounds"] = rounds
    tally = {
        "count": attacker.count,
        "secrets": attacker.secrets,
        "answers": sorted(set(attacker.answers)),
        "names": sorted(attacker.names),
        "writable": sorted(attacker.writable),
        "at": time.time(),
    }
    Path(plan["out"]).write_text(json.dumps(tally))


if __name__ == "__main__":
    main()

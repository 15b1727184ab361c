"""What a long study has found so far, in a file, so that it can be done in pieces.

`make slow STATE=FOLDER HOURS=1` goes on where the last piece ended, each study for an hour at most.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HOURS = float(os.environ.get("PGSTRATA_STUDY_HOURS", "10"))
FOLDER = os.environ.get("PGSTRATA_STUDY_STATE", "")


class Ledger:
    """A file of JSON lines: what each piece was, then what it found, one line each, durable at once."""

    def __init__(self, path: Path | None, hours: float = HOURS) -> None:
        """path: the file, which is made; None keeps nothing."""
        self.path = path
        self.until = time.monotonic() + hours * 3600
        self.before: list[dict[str, Any]] = []
        """What earlier pieces have found."""
        self.pieces = 0
        if path is not None and path.exists():
            lines = list(_whole(path.read_text()))
            self.before = [line["found"] for line in lines if "found" in line]
            self.pieces = sum("piece" in line for line in lines)

    @classmethod
    def of(cls, study: str) -> Ledger:
        """Returns that of a study, in the folder that the environment names."""
        if not FOLDER:
            return cls(None)
        Path(FOLDER).mkdir(parents=True, exist_ok=True)
        return cls(Path(FOLDER) / f"{study}.jsonl")

    def begin(self, **about: object) -> None:
        """Notes that a piece begins, and what holds for all of it."""
        revision = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
        done = subprocess.run(revision, cwd=Path(__file__).parent, capture_output=True, text=True)
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        load = os.getloadavg()[0]
        self._write({"piece": {"begun": at, "revision": done.stdout.strip(), "load": load, **about}})

    def add(self, entry: dict[str, Any]) -> None:
        """Notes something that was found."""
        self._write({"found": entry})

    def over(self) -> bool:
        """Returns whether the piece has had its hours."""
        return time.monotonic() > self.until

    def _write(self, line: dict[str, Any]) -> None:
        if self.path is None:
            return
        with self.path.open("ab+") as file:
            # A cut line is left out, not joined with the next.
            if file.tell() and self._last_byte() != b"\n":
                file.write(b"\n")
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _last_byte(self) -> bytes:
        assert self.path is not None
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1)


def _whole(text: str) -> Iterator[dict[str, Any]]:
    """The lines but those that a restart of the machine has cut."""
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue

"""The end of a server's log, and what in it went wrong."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path


def tail(file: Path, lines: int, begin: int = 0) -> str:
    """Returns the last lines of a log, none from before `begin` (bytes); empty if there is no log."""
    try:
        with file.open("rb") as log:
            log.seek(max(begin, log.seek(0, os.SEEK_END) - 65536))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def loader_complaint(file: Path, begin: int) -> str:
    """Returns the dynamic loader's complaint about a library it left out; empty if there is none.

    begin: byte of the log at which the server was started. glibc's wording; musl's loader does not start.
    """
    return next((line for line in _since(file, begin) if line.startswith("ERROR: ld.so: object")), "")


def without_statistics(file: Path, begin: int) -> str:
    """Returns why a server before 15 runs without its statistics collector; empty if it has one.

    begin: byte of the log at which the server was started. The reason is the line before the collector's end.
    """
    lines = _since(file, begin)
    for before, line in pairwise(["", *lines]):
        if "disabling statistics collector" in line:
            return before.partition("LOG:  ")[2] or line.partition("LOG:  ")[2] or line
    return ""


def _since(file: Path, begin: int) -> list[str]:
    """Returns the first lines of a log from a byte on; none where it cannot be read."""
    try:
        with file.open("rb") as log:
            log.seek(begin)
            return log.read(65536).decode(errors="replace").splitlines()
    except OSError:
        return []


def problem(text: str) -> str:
    """Returns the line of a log that says what went wrong; empty if there is none."""
    for mark in ("PANIC: ", "FATAL: ", "error: ", "ERROR: ", "could not"):
        for line in reversed(text.splitlines()):
            if mark in line:
                return line[line.index(mark) :].removeprefix(mark).strip() if mark != "could not" else line
    return ""


def last_words(text: str) -> str:
    """Returns the line of a log that says what ended a server: a failed assertion, or the signal that ended
    one of its processes; empty if there is none."""
    for mark in (r"TRAP: .*", r"server process \(PID \d+\) was terminated by signal .*"):
        if match := re.search(mark, text):
            return match[0].strip()
    return ""

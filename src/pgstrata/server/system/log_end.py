"""The end of a server's log, and what in it went wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path


def tail(file: Path, lines: int, begin: int = 0) -> str:
    """The last lines of a log, none from before `begin` (bytes); empty where there is no log."""
    try:
        with file.open("rb") as log:
            log.seek(max(begin, log.seek(0, os.SEEK_END) - 65536))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def loader_complaint(file: Path, begin: int) -> str:
    """What the dynamic loader said of a library it left out, empty where it said nothing.

    begin: byte of the log at which the server was started. glibc's wording; musl's loader does not start.
    """
    try:
        with file.open("rb") as log:
            log.seek(begin)
            text = log.read(65536).decode(errors="replace")
    except OSError:
        return ""
    return next((line for line in text.splitlines() if line.startswith("ERROR: ld.so: object")), "")


def problem(text: str) -> str:
    """The line of a log that says what went wrong."""
    for mark in ("PANIC: ", "FATAL: ", "error: ", "ERROR: ", "could not"):
        for line in reversed(text.splitlines()):
            if mark in line:
                return line[line.index(mark) :].removeprefix(mark).strip() if mark != "could not" else line
    return ""


def last_words(text: str) -> str:
    """The line of a log that says what ended a server: a failed assertion, or the signal that ended one of
    its processes; empty where none does."""
    for mark in (r"TRAP: .*", r"server process \(PID \d+\) was terminated by signal .*"):
        if found := re.search(mark, text):
            return found[0].strip()
    return ""

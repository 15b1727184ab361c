"""The end of a server's log, and what in it went wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
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


def loader_complaint(lines: Iterable[str]) -> str:
    """Returns the dynamic loader's complaint about a library it left out; empty if there is none.

    lines: of the log since the start. glibc's wording; musl's loader does not start.
    """
    return next((line for line in lines if line.startswith("ERROR: ld.so: object")), "")


def without_statistics(lines: Iterable[str]) -> str:
    """Returns why a server before 15 runs without its statistics collector; empty if it has one.

    lines: of the log since the start. The reason is the line before the collector's end.
    """
    for before, line in pairwise(["", *lines]):
        if "disabling statistics collector" in line:
            return before.partition("LOG:  ")[2] or line.partition("LOG:  ")[2] or line
    return ""


def lines_since(file: Path, begin: int) -> list[str]:
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

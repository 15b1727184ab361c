"""A build that failed, and what its log says about why."""

from __future__ import annotations

import re

END_LINES = 40
"""How much of the end of a log is kept with a failure."""

_FIRST = re.compile(
    r"(?i)(\berror\b[: ]|\*\*\* \[|undefined reference|no such file|not found|configure: error|fatal:"
    r"|multiple definition|FAILED:|cannot |Segmentation fault|Killed|No space left)"
)
_NOISE = re.compile(r"(?i)(-W(no-)?error|checking |error\.[cho]|elog|warning:)")
FULL = "No space left on device"


def first_errors(log: str, most: int = 6) -> list[str]:
    """Returns the first lines of a log that say what is wrong, the line that names the file before them."""
    errors: list[str] = []
    for line in log.splitlines():
        text = line.strip()
        if _FIRST.search(text) and not _NOISE.search(text):
            errors.append(text[:400])
            if len(errors) == most:
                break
    return errors


def log_end(log: str) -> str:
    """Returns the last lines of a log, long lines cut."""
    return "\n".join(line[:600] for line in log.splitlines()[-END_LINES:])

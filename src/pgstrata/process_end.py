"""Whether this process may be ended while it still cleans up: only where pgstrata is its program."""

from __future__ import annotations

_allowed = False


def allow_process_end() -> None:
    """Lets a signal end this process where cleaning up takes too long. Called by the command line: a program
    that uses pgstrata as a library is not ours to end."""
    global _allowed
    _allowed = True


def may_end_process() -> bool:
    """Returns True where pgstrata is the program of this process."""
    return _allowed

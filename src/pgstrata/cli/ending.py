"""How an error looks: one sentence, then what to do next."""

from __future__ import annotations

import os
import sys
import traceback

from pgstrata.errors import PgstrataError

MOST_TEXT = 10_000
"""Characters of a message or a hint that are printed."""


class Interruption(BaseException):
    """A command was ended by a signal and has cleaned up and said so."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def report_error(error: Exception) -> int:
    """Prints an error to standard error and returns the exit code it stands for."""
    if os.environ.get("PGSTRATA_TRACE"):
        traceback.print_exception(error)
    if isinstance(error, PgstrataError):
        _print(error.message, error.hint)
        return error.exit_code
    # Errors of the command line's parser: they know their message and exit code.
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "pgstrata"
        _print(error.format_message(), f"{path} --help shows what it understands")
        return int(error.exit_code)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        _print(f"{name}{error.strerror or error}", "")
        return 1
    _print(
        f"unexpected {type(error).__name__}: {error}",
        "this is a defect of pgstrata: PGSTRATA_TRACE=1 shows where it happened",
    )
    return 1


def _print(message: str, hint: str) -> None:
    print(f"error: {_safe(message)}", file=sys.stderr)
    if hint:
        print(f"       {_safe(hint)}", file=sys.stderr)


def _safe(text: str) -> str:
    """Lines of printable text: what a file or a server said may hold what a terminal would obey."""
    cut = text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + " …"
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in cut)

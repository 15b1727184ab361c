"""Errors that a user can act on: one clear sentence and the next step, never a stack trace."""

from __future__ import annotations

import errno
import signal
import unicodedata
from collections.abc import Sequence

LONGEST = 16_000
"""Most characters of a message that are shown or stored: a server may say as much as it likes."""


def cut_long(text: str) -> str:
    """Returns the text, or the beginning of one that is too long to be read."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … (cut: {len(text):,} characters)"


def is_disk_full(error: OSError) -> bool:
    """Returns whether nothing more could be written: the disk is full, or this user's quota is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


SAID_LENGTH = 1000
"""So many letters of what a server says are shown."""


def harmless(text: str) -> str:
    """Returns the text without letters that steer a terminal; lines and tabs stay."""
    return "".join(
        c if c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs" else "�" for c in text
    )


def server_said(error: object, most: int = SAID_LENGTH) -> str:
    """Returns a message of a server or a foreign library as a single line that is safe to print: cut where it
    is long, and without letters that steer a terminal."""
    whole = str(error)
    text = " ".join(whole[: 4 * most].split())
    text = harmless(text)
    if len(text) <= most and len(whole) <= 4 * most:
        return text
    return f"{text[:most]}… (cut: {len(whole)} letters)"


class PgstrataError(Exception):
    """Something the user can mend.

    `message` says what is wrong in one sentence; `hint` says what to do next (may be empty).
    The command line prints both and exits with `exit_code`.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = cut_long(message)
        self.hint = cut_long(hint)
        super().__init__(self.message)


class UsageError(PgstrataError):
    """What the user wrote — an option, a campaign, a config file, a script — is not valid. Exit code 2."""

    exit_code = 2


class ServerError(PgstrataError):
    """A server could not be found, fetched, initialised, started, or it died."""


class NoServerError(ServerError):
    """What was named as a server is none: a folder without PostgreSQL, a version never published. Exit code
    2."""

    exit_code = 2


class BuildError(ServerError):
    """A server that could not be built.

    lasting: it would fail the same way again, so the cache remembers it; not so for a full disk.
    errors: the first lines that say what is wrong; log_end: the last lines of the log.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        lasting: bool = True,
        errors: Sequence[str] = (),
        log_end: str = "",
    ) -> None:
        super().__init__(message, hint)
        self.lasting, self.errors, self.log_end = lasting, list(errors), log_end


class DriverError(PgstrataError):
    """The driver reported an error. kind, sqlstate, said, statement: of its `error` event, where there was
    one."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        kind: str = "",
        sqlstate: str | None = None,
        server_message: str = "",
        statement: str = "",
    ) -> None:
        super().__init__(message, hint)
        self.kind, self.sqlstate, self.server_message, self.statement = (
            kind,
            sqlstate,
            server_message,
            statement,
        )

    def worded(self, message: str, hint: str | None = None) -> DriverError:
        """Returns the same error in other words."""
        hint = self.hint if hint is None else hint
        return DriverError(
            message,
            hint,
            kind=self.kind,
            sqlstate=self.sqlstate,
            server_message=self.server_message,
            statement=self.statement,
        )


class StoreError(PgstrataError):
    """A results folder cannot be read, written or locked."""


class NoRunsError(StoreError):
    """A folder that was named for its runs holds none. Exit code 2."""

    exit_code = 2


class OwnershipError(PgstrataError):
    """A place belongs to another user of the machine, or another user could change what lies in it."""


class Interrupted(BaseException):
    """A signal asks pgstrata to end. Not an Exception: nothing but the command line catches it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """128 + signal, as shells report it: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.signum

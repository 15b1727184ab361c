"""Files that a user names: no more is read of them than such a file can hold, and nothing is waited for
without an end.

A campaign, a config file, a script or a file of queries may be a pipe (`<(generate)`), and it may be
`/dev/zero`, a FIFO that nobody writes to, or a disk image named by mistake.
"""

from __future__ import annotations

import errno
import os
import select
import shlex
import stat
import time
from pathlib import Path

from pgstrata import numbers
from pgstrata.errors import UsageError

MOST_BYTES = 1 << 20
"""Of a campaign or a config file."""

SILENCE_SECONDS = 10.0
"""How long a pipe may say nothing."""

TOTAL_SECONDS = 60.0
"""How long a pipe may take as a whole."""

_CHUNK = 1 << 16


def user_path(text: str | Path) -> Path:
    """Returns the path a user wrote, `~` and `~name` resolved. Raises UsageError for text that cannot be a
    path."""
    if "\0" in str(text):
        raise UsageError(f"{shown(text)} is no path: it holds a NUL", "name a file or folder")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{shown(text)}: this machine knows no such user, or no home of it", "write the path in full"
        ) from None


def real_path(text: str | Path) -> Path:
    """Returns the path a user wrote, absolute and without links. Raises UsageError, also for links in a
    circle."""
    path = user_path(text)
    try:
        return path.resolve()
    except (RuntimeError, OSError):  # Python up to 3.12 raises the former for a circle
        raise UsageError(f"{shown(text)}: its links lead in a circle", "name the folder itself") from None


def is_there(path: Path) -> bool:
    """Returns whether something of this name exists, as far as can be known: False also for a name that is
    too long."""
    return os.path.exists(path)  # noqa: PTH110 - the method raises OSError


def is_file(path: Path) -> bool:
    """Returns whether the path is a file, as far as can be known (`is_there`)."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Returns whether the path is a folder, as far as can be known (`is_there`)."""
    return os.path.isdir(path)  # noqa: PTH112


def shown(text: object, most: int = 200) -> str:
    """Returns text that a user wrote as part of one line of an error, without letters that a terminal would
    obey."""
    plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text)[: most + 1])
    return plain if len(plain) <= most else plain[:most] + "…"


def in_command(path: object) -> str:
    """Returns a path as one word of a command that is printed: a shell understands it, and no terminal obeys
    it."""
    text = str(path)
    text = f"./{text}" if text.startswith("-") else text
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(c if c.isprintable() and c not in _ESCAPED else _escaped(c) for c in text)}'"


_ESCAPED = "'\\"


def _escaped(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode(errors="surrogateescape"))


def read_bytes(path: Path, what: str, *, most: int = MOST_BYTES, missing: str = "") -> bytes:
    """Returns the content of a file of at most `most` bytes; `what` names the file in errors, say `campaign
    file`.

    missing: the hint where there is no such file. Raises UsageError where it cannot be read, is larger, or
    is a pipe whose writer does not come to an end.
    """
    try:
        # Not blocking: opening a FIFO would wait for its writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            return _content(descriptor, path, what, most)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise UsageError(f"there is no {what} {shown(path)}", missing or "check the path") from None
    except OSError as error:
        raise UsageError(f"the {what} {shown(path)} cannot be read: {error.strerror}") from error
    except ValueError:  # NUL in the path
        raise UsageError(f"{shown(path)} is no path: it holds a NUL", "name a file") from None


def read_text(path: Path, what: str, *, most: int = MOST_BYTES, missing: str = "") -> str:
    """Returns the text of a file that has to be UTF-8, without the byte order mark of Windows' editors.

    Parameters and errors are those of `read_bytes`; raises UsageError also for other bytes than UTF-8.
    """
    data = read_bytes(path, what, most=most, missing=missing)
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"the {what} {shown(path)} is not UTF-8 text (line {line})", "save it as UTF-8"
        ) from error


def _content(descriptor: int, path: Path, what: str, most: int) -> bytes:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise UsageError(f"{shown(path)} is a folder, not a {what}")
    waits = not stat.S_ISREG(mode)
    parts: list[bytes] = []
    size = 0
    end = time.monotonic() + TOTAL_SECONDS
    while True:
        if waits:
            _wait(descriptor, end, path, what)
        try:
            part = os.read(descriptor, min(_CHUNK, most + 1 - size))
        except BlockingIOError:
            continue
        except OSError as error:
            if error.errno == errno.EIO and waits:  # a terminal that is not ours to read
                raise UsageError(f"{shown(path)} is a terminal, not a {what}") from None
            raise
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > most:
            raise UsageError(
                f"the {what} {shown(path)} has more than {numbers.size(most)}",
                f"check the path: no {what} is that large",
            )


def _wait(descriptor: int, end: float, path: Path, what: str) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    seconds = min(SILENCE_SECONDS, end - time.monotonic())
    if seconds <= 0 or not poll.poll(seconds * 1000):
        silent = seconds == SILENCE_SECONDS
        how = f"says nothing for {SILENCE_SECONDS:.0f} s" if silent else "does not come to an end"
        raise UsageError(f"the {what} {shown(path)} {how}", "name a file, or a pipe that is written to")

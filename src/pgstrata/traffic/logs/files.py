"""Files of a log: what they are written in, and in what order they follow each other."""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

from pgstrata.errors import UsageError
from pgstrata.traffic.logs import csvlog, jsonlog, stderr
from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.line import LONGEST, Encoding, LogEntry, Trouble
from pgstrata.user_files import shown, user_path

Form = Literal["csvlog", "jsonlog", "stderr"]
_FORMS: tuple[Form, ...] = ("csvlog", "jsonlog", "stderr")
"""In the order in which they are taken where a folder holds several."""

_HEAD_LINES = 200
_HEAD_BYTES = 4 << 20


@dataclass(frozen=True)
class LogFile:
    """One file. first: time of its first entry, in microseconds since 1970; bytes: its size on the disk."""

    path: Path
    form: Form
    first: int
    bytes: int
    prefix: stderr.Prefix | None = None


@dataclass(frozen=True)
class Log:
    """The files of a log in their order, and how they are read. beside: files of its folders that tell the
    same in another form, and are not read."""

    files: Sequence[LogFile]
    clock: Clock
    encoding: Encoding
    trouble: Trouble
    beside: Sequence[LogFile] = ()

    @property
    def form(self) -> Form:
        return self.files[0].form

    def entries(self, read: Callable[[int], None] = lambda n: None) -> Iterator[LogEntry]:
        """Every entry of all files. read: is told now and then how many bytes more have been read.

        Raises UsageError where a file cannot be read to its end.
        """
        for one in self.files:
            try:
                with one.path.open("rb") as raw:
                    yield from self._told(one, raw, read)
            except (OSError, EOFError, zlib.error) as error:
                why = getattr(error, "strerror", None) or str(error)
                raise UsageError(
                    f"the log {shown(one.path)} cannot be read: {why}", "is it whole?"
                ) from error

    def _told(self, one: LogFile, raw: IO[bytes], read: Callable[[int], None]) -> Iterator[LogEntry]:
        reported = 0
        for number, entry in enumerate(self._of(one, _unpacked(raw))):
            if not number & 4095:
                at = raw.tell()
                read(at - reported)
                reported = at
            yield entry
        read(raw.tell() - reported)

    def _of(self, one: LogFile, file: IO[bytes]) -> Iterator[LogEntry]:
        match one.form:
            case "csvlog":
                return csvlog.entries(file, self.clock, self.encoding, self.trouble)
            case "jsonlog":
                return jsonlog.entries(file, self.clock, self.encoding, self.trouble)
            case "stderr":
                assert one.prefix is not None
                return stderr.entries(file, one.prefix, self.clock, self.encoding, self.trouble)


def find(
    names: Sequence[Path],
    *,
    prefix: str | None = None,
    timezone: str | None = None,
    encoding: str = "latin-1",
) -> Log:
    """The files of a log in the order of their first entries, however they are named.

    names: files, .gz among them, and folders, of which every file is one. Where a folder holds several forms,
    which tell the same twice, one of them is taken: a server that logs as CSV or JSON begins a text log, too.
    Raises UsageError for what is no log, and for files of several forms that are named one by one.
    """
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise UsageError(f"there is no encoding {shown(encoding)}", "latin-1, cp1252, euc_jp, …") from None
    clock, how = Clock(timezone), Encoding(encoding)
    wanted = stderr.prefix(prefix) if prefix else None
    found = [(f, one) for path, one in _paths(names) if (f := _look(path, clock, how, wanted)) is not None]
    if not found:
        raise UsageError(
            "there is no entry in the log", "a server writes them while it is asked for something"
        )
    named = {file.form: file.path for file, alone in found if alone}
    if len(named) > 1:
        there = ", ".join(f"{shown(path.name)} ({form})" for form, path in named.items())
        raise UsageError(
            f"the files are of several forms and tell the same twice: {there}", "name those of one form"
        )
    form = next(iter(named), None) or min((file.form for file, _ in found), key=_FORMS.index)
    files = sorted(
        (file for file, _ in found if file.form == form), key=lambda one: (one.first, one.path.name)
    )
    return Log(files, clock, how, Trouble(), [file for file, _ in found if file.form != form])


def _paths(names: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Each file once, and whether it was named itself."""
    seen: set[Path] = set()
    for name in names:
        path = user_path(name)
        if path.is_dir():
            inner = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
            if not inner:
                raise UsageError(f"the folder {shown(path)} has no files")
        else:
            inner = [path]
        for one in inner:
            real = Path(os.path.realpath(one))
            if real not in seen:
                seen.add(real)
                yield one, one is path


def _look(path: Path, clock: Clock, encoding: Encoding, wanted: stderr.Prefix | None) -> LogFile | None:
    """What a file is; None where it is empty. Raises UsageError."""
    try:
        if not path.is_file():
            what = "is no file" if path.exists() else "is not there"
            raise UsageError(f"the log {shown(path)} {what}", "name files of the server's log_directory")
        with path.open("rb") as raw:
            size = os.fstat(raw.fileno()).st_size
            head = _head(_unpacked(raw))
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"the log {shown(path)} cannot be read: {why}") from error
    if not any(line.strip() for line in head):
        return None
    form, prefix = _form(head, wanted)
    one = LogFile(path, form, 0, size, prefix)
    reader = Log([one], clock, encoding, Trouble())
    first = next((entry.time for entry in reader.entries()), None)
    if first is None:
        raise UsageError(f"{shown(path)} is no log of PostgreSQL", stderr.ADVICE)
    return LogFile(path, form, first, size, prefix)


def _form(head: Sequence[bytes], wanted: stderr.Prefix | None) -> tuple[Form, stderr.Prefix | None]:
    if wanted is not None:
        return "stderr", wanted
    if sum(line.startswith(b'{"timestamp":') for line in head) > len(head) // 2:
        return "jsonlog", None
    if any(csvlog.BEGIN.match(line) for line in head):
        return "csvlog", None
    return "stderr", stderr.guessed(head)


def _head(file: IO[bytes]) -> list[bytes]:
    lines: list[bytes] = []
    size = 0
    while len(lines) < _HEAD_LINES and size < _HEAD_BYTES and (line := file.readline(LONGEST)):
        lines.append(line)
        size += len(line)
    return lines


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    """The bytes of a file, also of one that gzip has packed."""
    head = raw.read(2)
    raw.seek(0)
    return cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if head == b"\x1f\x8b" else raw


__all__ = ["Form", "Log", "LogFile", "find"]

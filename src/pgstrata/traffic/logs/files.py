"""Files of a log: what they are written in, and in what order they follow each other."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, cast

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown, user_path
from pgstrata.traffic.logs import csvlog, incoming, jsonlog, stderr
from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.foreign import foreign
from pgstrata.traffic.logs.line import LONGEST, Encoding, LogEntry, Trouble
from pgstrata.traffic.logs.prefix import ADVICE, Prefix
from pgstrata.traffic.logs.prefix import prefix as prefix_of
from pgstrata.traffic.logs.recognize import Recognizer, recognize, sample_of, template
from pgstrata.traffic.logs.seconds import spread

Form = Literal["csvlog", "jsonlog", "stderr"]
_FORMS: tuple[Form, ...] = ("csvlog", "jsonlog", "stderr")
"""In the order in which they are taken where a folder holds several."""

_HEAD_LINES = 200
_HEAD_BYTES = 4 << 20
_BEGIN = 512
"""Bytes that show how a file is packed."""


@dataclass(frozen=True)
class LogFile:
    """One file of a log."""

    path: Path
    form: Form
    #: Time of the first entry, in microseconds since 1970.
    first: int
    #: Size on the disk; 0 where it is not known.
    bytes: int
    prefix: Prefix | None = None
    recognizer: Recognizer | None = None
    #: The bytes of standard input.
    incoming: incoming.Incoming | None = None


@dataclass(frozen=True)
class Log:
    """The files of a log in their order, and how they are read."""

    files: Sequence[LogFile]
    clock: Clock
    encoding: Encoding
    trouble: Trouble
    #: Files of the same folders that tell the same in another form, and are not read.
    beside: Sequence[LogFile] = ()

    @property
    def form(self) -> Form:
        """The form of all files that are read."""
        return self.files[0].form

    @property
    def whole_seconds(self) -> bool:
        """True where the log's times have no fraction of a second."""
        return any(file.prefix is not None and file.prefix.whole_seconds for file in self.files)

    def entries(self, read: Callable[[int], None] = lambda n: None) -> Iterator[LogEntry]:
        """Yields every entry of all files. read: is told now and then how many bytes more have been read.

        Raises UsageError where a file cannot be read to its end.
        """
        for file in self.files:
            try:
                if file.incoming is not None:
                    file.incoming.rewind()
                    yield from self._with_progress(file, incoming.buffered(file.incoming), read)
                else:
                    with file.path.open("rb") as raw:
                        yield from self._with_progress(file, raw, read)
            except (OSError, EOFError, zlib.error) as error:
                why = getattr(error, "strerror", None) or str(error)
                raise UsageError(
                    f"the log {shown(file.path)} cannot be read: {why}", "is it whole?"
                ) from error

    def _with_progress(
        self, file: LogFile, raw: IO[bytes], read: Callable[[int], None]
    ) -> Iterator[LogEntry]:
        reported = 0
        for number, entry in enumerate(self._of(file, _unpacked(raw))):
            if not number & 4095:
                at = _position(file, raw)
                read(at - reported)
                reported = at
            yield entry
        read(_position(file, raw) - reported)

    def _of(self, file: LogFile, lines: IO[bytes]) -> Iterator[LogEntry]:
        match file.form:
            case "csvlog":
                return csvlog.entries(lines, self.clock, self.encoding, self.trouble)
            case "jsonlog":
                return jsonlog.entries(lines, self.clock, self.encoding, self.trouble)
            case "stderr":
                how = file.prefix
                assert how is not None
                found = stderr.entries(lines, how, self.clock, self.encoding, self.trouble, file.recognizer)
                return spread(found) if how.whole_seconds else found


def _position(file: LogFile, raw: IO[bytes]) -> int:
    return raw.tell() if file.incoming is None else file.incoming.read_bytes


def find(
    names: Sequence[Path],
    *,
    prefix: str | None = None,
    timezone: str | None = None,
    encoding: str = "latin-1",
) -> Log:
    """Returns the files of a log in the order of their first entries, however they are named.

    names: files, .gz among them, and folders, of which every file is one; or `-` alone, which is standard
    input. Where a folder holds several forms, which tell the same twice, one of them is taken: a server that
    logs as CSV or JSON begins a text log, too. Raises UsageError for what is no log, and for files of several
    forms that are named one by one.
    """
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise UsageError(f"there is no encoding {shown(encoding)}", "latin-1, cp1252, euc_jp, …") from None
    clock, how = Clock(timezone), Encoding(encoding)
    wanted = prefix_of(prefix) if prefix else None
    if any(str(name) == "-" for name in names):
        if len(names) > 1:
            raise UsageError("standard input (-) is read alone", "name no file beside it")
        file = _look_at_input(clock, how, wanted)
        return Log([file], clock, how, Trouble())
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


def _look(path: Path, clock: Clock, encoding: Encoding, wanted: Prefix | None) -> LogFile | None:
    """Returns the form of a file; None where it is empty. Raises UsageError."""
    try:
        if not path.is_file():
            what = "is no file" if path.exists() else "is not there"
            raise UsageError(f"the log {shown(path)} {what}", "name files of the server's log_directory")
        with path.open("rb") as raw:
            size = os.fstat(raw.fileno()).st_size
            begin = raw.read(_BEGIN)
            raw.seek(0)
            head = _head(_unpacked(raw))
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"the log {shown(path)} cannot be read: {why}") from error
    if not any(line.strip() for line in head):
        return None
    form, how, recognizer = _form(path.name, begin, head, wanted)
    file = LogFile(path, form, 0, size, how, recognizer)
    reader = Log([file], clock, encoding, Trouble())
    first = next((entry.time for entry in reader.entries()), None)
    if first is None:
        raise UsageError(f"{shown(path)} is no log of PostgreSQL", ADVICE)
    return replace(file, first=first)


def _look_at_input(clock: Clock, encoding: Encoding, wanted: Prefix | None) -> LogFile:
    """Returns the form of what comes on standard input. Raises UsageError."""
    raw = incoming.standard_input()
    lines = _unpacked(incoming.buffered(raw))
    try:
        head = _head(lines)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"standard input cannot be read: {why}") from error
    if not any(line.strip() for line in head):
        raise UsageError("nothing came on standard input", "zcat LOG | pgstrata capture - -o FILE")
    form, how, recognizer = _form(incoming.NAME, raw.begin[:_BEGIN], head, wanted)
    return LogFile(Path(incoming.NAME), form, 0, 0, how, recognizer, raw)


def _form(
    name: str, begin: bytes, head: Sequence[bytes], wanted: Prefix | None
) -> tuple[Form, Prefix | None, Recognizer | None]:
    if wanted is not None:
        _check_prefix(name, head, wanted)
        return "stderr", wanted, None
    if sum(line.startswith(b'{"timestamp":') for line in head) > len(head) // 2:
        return "jsonlog", None, None
    if any(csvlog.BEGIN.match(line) for line in head):
        return "csvlog", None, None
    if (other := foreign(begin, head)) is not None:
        raise UsageError(f"{shown(name)} is {other.name}, which is not read", other.step.replace("{}", name))
    recognizer = recognize(head, shown(name))
    return "stderr", recognizer.prefix, recognizer


def _check_prefix(name: str, head: Sequence[bytes], wanted: Prefix) -> None:
    """Raises UsageError where most lines do not fit the prefix that the user named."""
    samples = [(n, line, s) for n, line in enumerate(head, 1) if (s := sample_of(line)) is not None]
    samples = [(n, line, s) for n, line, s in samples if not line.startswith(b"\t")]
    unfit = [(n, line) for n, line, _ in samples if not wanted.pattern.match(line)]
    if samples and len(unfit) <= len(samples) // 2:
        return
    number, line = next(
        iter(unfit), next(((n, line) for n, line in enumerate(head, 1) if line.strip()), (1, b""))
    )
    text = template([s for _, _, s in samples])
    raise UsageError(
        f"--prefix {shown(repr(wanted.text))} does not fit line {number} of {shown(name)}: "
        f"{shown(line.decode('utf-8', 'replace').rstrip(), 120)}",
        f"the lines look like --prefix {text!r}, which is found without the option" if text else ADVICE,
    )


def _head(file: IO[bytes]) -> list[bytes]:
    lines: list[bytes] = []
    size = 0
    while len(lines) < _HEAD_LINES and size < _HEAD_BYTES and (line := file.readline(LONGEST)):
        lines.append(line)
        size += len(line)
    return lines


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    """Returns the bytes of a file, also of one that gzip has packed."""
    head = cast(io.BufferedReader, raw).peek(2)[:2]
    return cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if head == b"\x1f\x8b" else raw


__all__ = ["Form", "Log", "LogFile", "find"]

"""Files of a log: what they are written in, and in what order they follow each other."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Literal, NamedTuple, cast

from pgstrata.errors import UsageError
from pgstrata.files.user_files import in_command, shown, user_path
from pgstrata.traffic.logs import csvlog, incoming, jsonlog, stderr
from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.foreign import Foreign, archive, foreign
from pgstrata.traffic.logs.line import LONGEST, Encoding, LogEntry, Trouble
from pgstrata.traffic.logs.prefix import ADVICE, Prefix
from pgstrata.traffic.logs.prefix import prefix as prefix_of
from pgstrata.traffic.logs.recognize import Recognizer, recognize, sample_of, template
from pgstrata.traffic.logs.seconds import spread
from pgstrata.traffic.logs.unpacked import ERRORS, unpacked
from pgstrata.traffic.logs.wrapped.find import LAYERS, wrapping
from pgstrata.traffic.logs.wrapped.model import Lines, Record, Wrapping
from pgstrata.traffic.logs.wrapped.sorting import by_time

Form = Literal["csvlog", "jsonlog", "stderr"]
_FORMS: tuple[Form, ...] = ("csvlog", "jsonlog", "stderr")
"""In the order in which they are taken where a folder holds several."""

_HEAD_LINES = 200
_HEAD_BYTES = 4 << 20
_BEGIN = 512
"""Bytes that show how a file is packed."""


class Layout(NamedTuple):
    """How the lines of a file are read."""

    form: Form
    prefix: Prefix | None = None
    recognizer: Recognizer | None = None
    #: What is around the server's lines, the outermost first.
    layers: tuple[Wrapping, ...] = ()
    #: The newest entry comes first.
    is_descending: bool = False

    @property
    def is_unordered(self) -> bool:
        """True where entries are put in order by their times."""
        return any(layer.is_unordered for layer in self.layers)

    @property
    def source(self) -> str:
        """The form for users: `jsonlog`, `stderr in syslog`."""
        return " in ".join((self.form, *(layer.name for layer in reversed(self.layers))))


@dataclass(frozen=True)
class LogFile:
    """One file of a log."""

    path: Path
    layout: Layout
    #: Time of the first entry, in microseconds since 1970.
    first: int
    #: Size on the disk; 0 where it is not known.
    bytes: int
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
    def source(self) -> str:
        """The form of all files that are read, for users."""
        return self.files[0].layout.source

    @property
    def prefixes(self) -> list[str]:
        """Prefixes that were recognized, each once."""
        texts = [
            file.layout.recognizer.prefix.text
            for file in self.files
            if file.layout.recognizer and file.layout.recognizer.prefix
        ]
        return list(dict.fromkeys(texts))

    @property
    def whole_seconds(self) -> bool:
        """True where the log's times have no fraction of a second."""
        prefixes = (file.layout.prefix for file in self.files)
        return any(prefix is not None and prefix.whole_seconds for prefix in prefixes)

    def entries(self, read: Callable[[int], None] = lambda n: None) -> Iterator[LogEntry]:
        """Yields every entry of all files. read: is told now and then how many bytes more have been read.

        Raises UsageError where a file cannot be read to its end.
        """
        if self.files[0].layout.is_unordered:
            # Files of a log service overlap, and their entries are in no order.
            records = by_time(self._numbered(read))
            yield from self._of(self.files[0].layout, Lines(records).as_file())
            return
        for file in self.files:
            with self._opened(file, read) as lines:
                yield from self._of(file.layout, lines)

    def _numbered(self, read: Callable[[int], None]) -> Iterator[tuple[Record, int]]:
        """Yields the records of all files with what decides between those of one time."""
        number = 0
        for file in self.files:
            sign = -1 if file.layout.is_descending else 1
            with self._opened(file, read, inner=False) as lines:
                for record in file.layout.layers[-1].records(lines, self.trouble):
                    number += 1
                    yield record, sign * number

    @contextmanager
    def _opened(
        self, file: LogFile, read: Callable[[int], None], *, inner: bool = True
    ) -> Iterator[IO[bytes]]:
        """Opens the lines of a file. inner: without all of its
        layers; otherwise the last one is left."""
        try:
            if file.incoming is not None:
                file.incoming.rewind()
                raw = incoming.buffered(file.incoming)
            else:
                raw = file.path.open("rb")
            with raw:
                lines = _Told(unpacked(raw), raw, file, read)
                layers = file.layout.layers if inner else file.layout.layers[:-1]
                yield _unwrapped(lines.as_file(), layers, self.trouble)
                lines.tell()
        except ERRORS as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"the log {shown(file.path)} cannot be read: {why}", "is it whole?") from error

    def _of(self, layout: Layout, lines: IO[bytes]) -> Iterator[LogEntry]:
        match layout.form:
            case "csvlog":
                return csvlog.entries(lines, self.clock, self.encoding, self.trouble)
            case "jsonlog":
                return jsonlog.entries(lines, self.clock, self.encoding, self.trouble)
            case "stderr":
                how = layout.prefix
                assert how is not None
                entries = stderr.entries(
                    lines, how, self.clock, self.encoding, self.trouble, layout.recognizer
                )
                return spread(entries) if how.whole_seconds else entries


class _Told:
    """Lines of a file, whose reader is told now and then how far it has come."""

    def __init__(self, lines: IO[bytes], raw: IO[bytes], file: LogFile, read: Callable[[int], None]) -> None:
        self._lines, self._raw, self._file, self._read = lines, raw, file, read
        self._number = self._reported = 0

    def readline(self, size: int = -1) -> bytes:
        """Returns the next line."""
        self._number += 1
        if not self._number & 4095:
            self.tell()
        return self._lines.readline(size)

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes."""
        self.tell()
        return self._lines.read(size)

    def tell(self) -> None:
        """Tells how many bytes more have been read."""
        at = _position(self._file, self._raw)
        self._read(at - self._reported)
        self._reported = at

    def as_file(self) -> IO[bytes]:
        """Returns this as what readers of logs take."""
        return cast(IO[bytes], self)


def _unwrapped(lines: IO[bytes], layers: Sequence[Wrapping], trouble: Trouble) -> IO[bytes]:
    for layer in layers:
        lines = Lines(layer.records(lines, trouble)).as_file()
    return lines


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
        b"a".decode(encoding, "replace")  # what is no text encoding, say hex, is known, too
    except (LookupError, ValueError):
        raise UsageError(f"there is no encoding {shown(encoding)}", "latin-1, cp1252, euc_jp, …") from None
    clock, how = Clock(timezone), Encoding(encoding)
    wanted = prefix_of(prefix) if prefix else None
    if any(str(name) == "-" for name in names):
        if len(names) > 1:
            raise UsageError("standard input (-) is read alone", "name no file beside it")
        file = _look_at_input(clock, how, wanted)
        return Log([file], clock, how, Trouble())
    candidates = [
        (f, is_alone)
        for path, is_alone in _paths(names)
        if (f := _look(path, clock, how, wanted)) is not None
    ]
    if not candidates:
        raise UsageError(
            "there is no entry in the log", "a server writes them while it is asked for something"
        )
    named = {file.layout.form: file.path for file, alone in candidates if alone}
    if len(named) > 1:
        there = ", ".join(f"{shown(path.name)} ({form})" for form, path in named.items())
        raise UsageError(
            f"the files are of several forms and tell the same twice: {there}", "name those of one form"
        )
    form = next(iter(named), None) or min((file.layout.form for file, _ in candidates), key=_FORMS.index)
    files = sorted(
        (file for file, _ in candidates if file.layout.form == form),
        key=lambda log_file: (log_file.first, log_file.path.name),
    )
    if len({file.layout.is_unordered for file in files}) > 1:
        there = ", ".join(f"{shown(file.path.name)} ({file.layout.source})" for file in files[:4])
        raise UsageError(f"the files are of several kinds: {there}", "name those of one kind")
    return Log(files, clock, how, Trouble(), [file for file, _ in candidates if file.layout.form != form])


def _paths(names: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yields each file once, and whether it was named itself."""
    seen: set[Path] = set()
    for name in names:
        path = user_path(name)
        if path.is_dir():
            inner = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
            if not inner:
                raise UsageError(f"the folder {shown(path)} has no files")
        else:
            inner = [path]
        for file in inner:
            real = Path(os.path.realpath(file))
            if real not in seen:
                seen.add(real)
                yield file, file is path


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
            head = _head(unpacked(raw))
    except ERRORS as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"the log {shown(path)} cannot be read: {why}") from error
    if not any(line.strip() for line in head):
        return None
    layout, first = _layout(str(path), begin, head, wanted)
    file = LogFile(path, layout, first, size)
    if not layout.is_unordered:
        reader = Log([file], clock, encoding, Trouble())
        first = next((entry.time for entry in reader.entries()), 0)
    if not first:
        raise UsageError(f"{shown(path)} is no log of PostgreSQL", ADVICE)
    return replace(file, first=first)


def _look_at_input(clock: Clock, encoding: Encoding, wanted: Prefix | None) -> LogFile:
    """Returns the form of what comes on standard input. Raises UsageError."""
    raw = incoming.standard_input()
    try:
        head = _head(unpacked(incoming.buffered(raw)))
    except ERRORS as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"standard input cannot be read: {why}") from error
    if not any(line.strip() for line in head):
        raise UsageError("nothing came on standard input", "zcat LOG | pgstrata capture - -o FILE")
    layout, first = _layout(incoming.NAME, raw.begin[:_BEGIN], head, wanted)
    return LogFile(Path(incoming.NAME), layout, first, 0, raw)


def _layout(name: str, begin: bytes, head: Sequence[bytes], wanted: Prefix | None) -> tuple[Layout, int]:
    """Returns how a file is read, and the first time of one whose entries are in no order, else 0."""
    if (several := archive(begin, head)) is not None:
        raise _not_read(name, several)
    layers: list[Wrapping] = []
    times: list[int] = []
    while len(layers) < LAYERS and (layer := wrapping(head)) is not None:
        records = list(layer.records(io.BytesIO(b"".join(head)), Trouble()))
        times = [record.time for record in records] if layer.is_unordered else times
        head = io.BytesIO(b"".join(record.lines for record in records)).readlines()
        layers.append(layer)
    if layers and not any(line.strip() for line in head):
        raise UsageError(
            f"{shown(name)} is {layers[-1].name}, and none of its first {_HEAD_LINES} lines is of PostgreSQL",
            _with_name(
                "leave out what is of other programs: grep postgres {} | pgstrata capture - -o FILE", name
            ),
        )
    falls = sum(a > b for a, b in pairwise(times))
    is_descending = falls > sum(a < b for a, b in pairwise(times))
    form, prefix, recognizer = _form(name, begin, head, wanted, is_wrapped=bool(layers))
    layout = Layout(form, prefix, recognizer, tuple(layers), is_descending)
    return layout, min((time for time in times if time), default=0)


def _not_read(name: str, kind: Foreign) -> UsageError:
    return UsageError(f"{shown(name)} is {kind.name}, which is not read", _with_name(kind.step, name))


def _with_name(step: str, name: str) -> str:
    """Returns what to do with a file, its name in the place of `{}`."""
    return step.replace("{}", "LOG" if name == incoming.NAME else in_command(name))


def _form(
    name: str, begin: bytes, head: Sequence[bytes], wanted: Prefix | None, *, is_wrapped: bool
) -> tuple[Form, Prefix | None, Recognizer | None]:
    if wanted is not None:
        _check_prefix(name, head, wanted)
        return "stderr", wanted, None
    if sum(line.startswith(b'{"timestamp":') for line in head) > len(head) // 2:
        return "jsonlog", None, None
    if any(csvlog.BEGIN.match(line) for line in head):
        return "csvlog", None, None
    if not is_wrapped and (other := foreign(begin, head)) is not None:
        raise _not_read(name, other)
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


__all__ = ["Form", "Log", "LogFile", "find"]

"""A captured file made of a server's logs."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pgstrata import numbers
from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.numbers import counted
from pgstrata.traffic.account import NO_PARAMETERS, NO_STATEMENTS, NO_TEXT, largest_first
from pgstrata.traffic.captured import RECOGNIZED, Header, Writer
from pgstrata.traffic.logs.files import Log, find
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.record.convert import convert
from pgstrata.traffic.record.segments import is_recording
from pgstrata.traffic.sessions import Reader

SETTINGS = (
    "log_min_duration_statement = 0, log_parameter_max_length = -1, log_parameter_max_length_on_error = -1, "
    "log_connections = on, log_disconnections = on"
)
"""With which a server's log has everything."""

_FOREIGN = re.compile(
    r"\w+: [0-9.,]+ ms\b|(?:Anweisung|instruction|sentencia|指令|ステートメント|оператор|istruzione)\s*:"
)


def capture(
    logs: Sequence[Path],
    to: Path,
    *,
    mask: Mask | None = None,
    prefix: str | None = None,
    timezone: str | None = None,
    encoding: str = "latin-1",
    say: Callable[[str], None] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Header:
    """Writes what the sessions of a log asked for into the file `to`, and returns its header.

    logs: files and folders, the folder of a recording, or `-` alone for standard input. mask: puts other
    values in the place of literals and parameters. prefix: log_line_prefix, where it is not recognized.
    timezone: where ambiguous abbreviations are at home; encoding: of what is not UTF-8. say: is told now and
    then how much has been read, how long the rest will take, and how large the file will be; check: raises
    when the user has asked for the end.

    Raises UsageError for what is no log, and for a log that has no statements; CapturedError where the disk
    of the file is full.
    """
    if any(map(is_recording, logs)):
        if len(logs) > 1:
            raise UsageError("a recording is captured alone, and others are named beside it", "name one")
        return _capture_recording(logs[0], to, mask, say, check)
    log = find(logs, prefix=prefix, timezone=timezone, encoding=encoding)
    with Writer(to) as writer:
        shown = _Progress(sum(log_file.bytes for log_file in log.files), writer, say or (lambda text: None))

        def progress(more: int) -> None:
            shown.read(more)
            check()

        reader = Reader(writer, mask)
        other: list[str] = []
        for entry in log.entries(progress):
            reader.take(entry)
            if not other and _FOREIGN.match(entry.message) and not entry.message.startswith("duration: "):
                other.append(entry.message[:60])
        reader.finish()
        account = reader.account
        for why, count in log.trouble.lost.items():
            account.entries += count
            account.damage(why, 0.0, log.trouble.examples[why], count, count)
        if not writer.header.statements:
            raise nothing(log, reader, other)
        header = Header(
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            source=log.source,
            files=[file.path.name for file in log.files],
            masked=mask is not None,
            left_out=largest_first(account.left_out),
            damaged=largest_first(account.damaged),
            balance=account.balance(),
        )
        header.notes = _notes(log, reader, writer.header)
        return writer.finish(header)


def _capture_recording(
    folder: Path, to: Path, mask: Mask | None, say: Callable[[str], None] | None, check: Callable[[], None]
) -> Header:
    """Captures a folder of `pgstrata record`, as `capture` does."""
    whole = sum(file.stat().st_size for file in folder.glob("*.record"))
    shown: list[_Progress] = []

    def read(writer: Writer, more: int) -> None:
        if not shown:
            shown.append(_Progress(whole, writer, say or (lambda text: None)))
        shown[0].read(more)
        check()

    return convert(folder, to, mask=mask, read=read)


SAID_EVERY = 5.0
"""Seconds."""


@dataclass
class _Progress:
    """Says how far a long log has been read. whole: its bytes, 0 where they are not known."""

    whole: int
    writer: Writer
    say: Callable[[str], None]
    done: int = 0
    begun: float = field(default_factory=time.monotonic)
    last_printed: float = field(default_factory=time.monotonic)

    def read(self, more: int) -> None:
        """Adds `more` bytes that have been read, and reports the progress from time to time."""
        self.done += more
        now = time.monotonic()
        if now - self.last_printed < SAID_EVERY or not self.done:
            return
        self.last_printed = now
        if not self.whole:
            self.say(f"{numbers.size(self.done)} read; the file has {numbers.size(self.writer.written)}")
            return
        rest = self.whole / self.done - 1
        expected = round(self.writer.written * (1 + rest))
        free = shutil.disk_usage(self.writer.path.parent).free
        short = (
            f", and its disk has {numbers.size(free)} free" if expected - self.writer.written > free else ""
        )
        self.say(
            f"{numbers.size(self.done)} of {numbers.size(self.whole)} read, "
            f"{numbers.duration(rest * (now - self.begun))} left; the file will have about "
            f"{numbers.size(expected)}{short}"
        )


def nothing(log: Log, reader: Reader, other: Sequence[str]) -> UsageError:
    """Returns why a log has no statement that could be asked again, and what to set."""
    where = f"{log.files[0].path.name}" + (f" and {len(log.files) - 1} more" if len(log.files) > 1 else "")
    account = reader.account
    if other:
        return UsageError(
            f"the log {where} is not in English ({other[0]!r}), and its messages are not understood",
            "set lc_messages = 'C' on the server; its statements are logged from then on",
        )
    parts = [part for part in largest_first(account.left_out) if part.why not in NO_STATEMENTS]
    if parts or account.damaged:
        parts += largest_first(account.damaged)
        reasons = "; ".join(f"{part.entries:,} of {part.why}" for part in parts[:4])
        entries = counted(account.entries, "entry", "entries")
        return UsageError(
            f"nothing in the log {where} can be asked again: of {entries} {reasons}",
            f"set on the server: {SETTINGS}",
        )
    return UsageError(
        f"the log {where} has {counted(account.entries, 'entry', 'entries')} and no statement",
        f"set on the server: {SETTINGS}",
    )


def _notes(log: Log, reader: Reader, header: Header) -> list[str]:
    """Returns what a user has to know before a replay. header: of the statements that were written."""
    notes: list[str] = []
    facts, account, trouble = reader.facts, reader.account, log.trouble
    if account.balance().difference:
        entries = counted(abs(account.balance().difference), "entry", "entries")
        notes.append(f"in no account, please report it: {entries} of the log")
    if log.prefixes:
        names = ", ".join(repr(text) for text in log.prefixes)
        notes.append(f"{RECOGNIZED}{names}; if it is another one, name it: --prefix")
    if trouble.others:
        notes.append(f"not read: {counted(trouble.others, 'line')} of other programs in the same files")
    if log.whole_seconds:
        notes.append(
            "the log's times are whole seconds (%t): the statements of each second were spread over it by "
            "their order and durations; %m has milliseconds"
        )
    if facts.recoded:
        notes.append(
            f"{counted(facts.recoded, 'statement')} set client_encoding beside other things: the "
            "file has UTF8 there"
        )
    if trouble.recoded:
        notes.append(
            f"read as {log.encoding.other} (--encoding): {counted(trouble.recoded, 'text')}, not UTF-8"
        )
    if log.beside:
        names = ", ".join(shown(file.path.name) for file in log.beside[:3])
        more = f" and {len(log.beside) - 3} more" if len(log.beside) > 3 else ""
        notes.append(f"not read beside the {log.files[0].layout.form}, which tells the same: {names}{more}")
    if len(log.clock.zones) > 1:
        notes.append(f"the log's times are in several zones: {', '.join(sorted(log.clock.zones))}")
    if not header.timed:
        notes.append(
            "the log does not say how long any statement took: order and times are kept, and nothing can be "
            "said of shares (log_min_duration_statement = 0)"
        )
    elif facts.untimed:
        notes.append(f"the log does not say how long {counted(facts.untimed, 'statement')} took")
    if NO_TEXT in account.left_out:
        notes.append(
            f"{counted(account.left_out[NO_TEXT].count, 'duration')} without a statement: log_duration tells "
            "the time of statements whose text is not logged (log_min_duration_statement = 0)"
        )
    notes += reader.signs.notes()
    if not facts.connections:
        notes.append(
            "the log does not say when sessions began (log_connections): from their first statement on"
        )
    if facts.open_before:
        notes.append(
            f"{counted(facts.open_before, 'transaction')} had begun before the log: only what came "
            "in it is replayed"
        )
    if facts.open_behind:
        notes.append(
            f"{counted(facts.open_behind, 'transaction')} stayed open at the end of the log, and will "
            "be rolled back"
        )
    if facts.resumed:
        notes.append(f"{counted(facts.resumed, 'session')} paused for so long that another one goes on")
    if facts.constants:
        notes.append(
            f"{counted(len(facts.constants), 'statement')} to define tables, types or functions kept all "
            "constants"
        )
    if NO_PARAMETERS in account.left_out:
        notes.append(
            "parameters are logged with log_parameter_max_length = -1, those of statements that fail with "
            "log_parameter_max_length_on_error = -1 (both from PostgreSQL 13 on)"
        )
    return notes


__all__ = ["SETTINGS", "capture"]

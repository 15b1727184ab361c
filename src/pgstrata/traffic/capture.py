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
from pgstrata.traffic.captured import Header, LeftOut, Writer
from pgstrata.traffic.logs.files import Log, find
from pgstrata.traffic.logs.line import Trouble
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.sessions import NO_PARAMETERS, Reader, SessionFacts
from pgstrata.user_files import shown

SETTINGS = (
    "log_min_duration_statement = 0, log_parameter_max_length = -1, log_parameter_max_length_on_error = -1, "
    "log_connections = on, log_disconnections = on"
)
"""With which a server's log has everything."""

SLOW_ONLY = 5_000
"""Microseconds: where a log of many statements has none that was faster, only slow ones are in it."""

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

    mask: puts other values in the place of literals and parameters. prefix: log_line_prefix, where it is
    not a usual one. timezone: where ambiguous abbreviations are at home; encoding: of what is not UTF-8.
    say: is told now and then how much has been read, how long the rest will take, and how large the file will
    be; check: raises when the user has asked for the end.

    Raises UsageError for what is no log, and for a log that has no statements; CapturedError where the disk
    of the file is full.
    """
    log = find(logs, prefix=prefix, timezone=timezone, encoding=encoding)
    with Writer(to) as writer:
        shown = _Progress(sum(one.bytes for one in log.files), writer, say or (lambda text: None))

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
        if not writer.header.statements:
            raise nothing(log, reader.found, other)
        header = Header(
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            source=log.form,
            files=[one.path.name for one in log.files],
            masked=mask is not None,
            left_out=sorted(reader.found.left_out.values(), key=lambda one: (-one.seconds, -one.count)),
        )
        header.notes = _notes(log, reader.found, writer.header, header.left_out)
        return writer.finish(header)


SAID_EVERY = 5.0
"""Seconds."""


@dataclass
class _Progress:
    """Of a long log. whole: its bytes."""

    whole: int
    writer: Writer
    say: Callable[[str], None]
    done: int = 0
    begun: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)

    def read(self, more: int) -> None:
        """So many bytes more have been read."""
        self.done += more
        now = time.monotonic()
        if now - self.said < SAID_EVERY or not self.done:
            return
        self.said = now
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


def nothing(log: Log, found: SessionFacts, other: Sequence[str]) -> UsageError:
    """Why a log has no statement that could be asked again, and what to set."""
    where = f"{log.files[0].path.name}" + (f" and {len(log.files) - 1} more" if len(log.files) > 1 else "")
    if other:
        return UsageError(
            f"the log {where} is not in English ({other[0]!r}), and its messages are not understood",
            "set lc_messages = 'C' on the server; its statements are logged from then on",
        )
    if found.left_out:
        first = max(found.left_out.values(), key=lambda one: one.count)
        return UsageError(
            f"nothing in the log {where} can be asked again: {first.count:,} are {first.why}",
            f"set on the server: {SETTINGS}",
        )
    return UsageError(
        f"the log {where} has {found.entries:,} entries and no statement", f"set on the server: {SETTINGS}"
    )


def _notes(log: Log, found: SessionFacts, header: Header, left_out: Sequence[LeftOut]) -> list[str]:
    """What whoever replays it has to know."""
    notes: list[str] = []
    trouble = log.trouble
    if trouble.cut:
        notes.append(
            f"{trouble.cut:,} entries of the log are cut off, and left out: {_example(trouble, 'cut')}"
        )
    if trouble.strange:
        notes.append(f"{trouble.strange:,} lines are no entries of a log: {_example(trouble, 'strange')}")
    if trouble.recoded:
        notes.append(
            f"{trouble.recoded:,} entries are not UTF-8 and were read as {log.encoding.other} (--encoding)"
        )
    if log.beside:
        names = ", ".join(shown(file.path.name) for file in log.beside[:3])
        more = f" and {len(log.beside) - 3} more" if len(log.beside) > 3 else ""
        notes.append(f"not read beside the {log.form}, which tells the same: {names}{more}")
    if len(log.clock.zones) > 1:
        notes.append(f"the log's times are in several zones: {', '.join(sorted(log.clock.zones))}")
    if not header.timed:
        notes.append(
            "the log does not say how long any statement took: order and times are kept, and nothing can be "
            "said of shares (log_min_duration_statement = 0)"
        )
    elif found.untimed:
        notes.append(f"the log does not say how long {found.untimed:,} statements took")
    elif header.statements >= 100 and found.shortest is not None and found.shortest >= SLOW_ONLY:
        notes.append(
            f"no statement took less than {numbers.significant(found.shortest / 1000)} ms: the log seems to "
            "hold slow ones only (log_min_duration_statement = 0 logs all)"
        )
    if not found.connections:
        notes.append(
            "the log does not say when sessions began (log_connections): from their first statement on"
        )
    if found.open_before:
        notes.append(
            f"{found.open_before:,} transactions had begun before the log: their ends are replayed alone"
        )
    if found.open_behind:
        notes.append(
            f"{found.open_behind:,} transactions are open at the end of the log, and will be rolled back"
        )
    if found.resumed:
        notes.append(f"{found.resumed:,} sessions were silent for so long that they go on as other ones")
    if found.ellipses:
        notes.append(
            f"of {found.ellipses:,} statements a parameter ends in three dots: perhaps cut "
            "(log_parameter_max_length = -1)"
        )
    if found.constants:
        notes.append(
            f"{len(found.constants):,} statements that define tables, types or functions keep their constants"
        )
    if any(one.why == NO_PARAMETERS for one in left_out):
        notes.append(
            "parameters are logged with log_parameter_max_length = -1, those of statements that fail with "
            "log_parameter_max_length_on_error = -1 (both from PostgreSQL 13 on)"
        )
    return notes


def _example(trouble: Trouble, what: str) -> str:
    return repr(trouble.examples[what][:80])


__all__ = ["SETTINGS", "capture"]

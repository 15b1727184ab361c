"""A captured file made of a recording."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.numbers import counted
from pgstrata.traffic.account import FASTPATH, PASSWORDS, largest_first
from pgstrata.traffic.captured import SIMPLE, Header, Writer
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.record.segments import Asked, Damage, Ended, NotRecorded, Session, events
from pgstrata.traffic.sessions import Reader

SOURCE = "recording"

_REASONS = {
    1: "statements or values longer than 1 MiB, or too many at once",
    2: FASTPATH,
    3: PASSWORDS,
    4: "executions of statements that were prepared unseen",
    5: "executions that the server skipped after an error",
    6: "sessions that could not be followed any more",
}
UNKNOWN_TYPES = "statements with binary values of types that are not known"
OTHER = "other reasons"


class RecordingReader(Reader):
    """Takes events of a recording in the place of entries of a log."""

    def asked(self, asked: Asked) -> None:
        """Takes a statement."""
        about = asked.session
        key = str(about.number)
        if self.opened(key, about.database, about.begin):
            for name, value in _settings(about):
                text = f"SELECT set_config({_quoted(name)}, {_quoted(value)}, false)"
                self._emit(self._sessions[key], about.begin, 0, SIMPLE, text, (), entries=0)
        session = self._sessions[key]
        self.account.entries += 1
        if asked.is_later_part:
            self._longer(session, asked.text, asked.duration or 0)
            return
        if asked.values is None:
            self.account.leave_out(UNKNOWN_TYPES, (asked.duration or 0) / 1e6, self._shown(asked.text), 1)
            return
        self._emit(
            session, asked.start, asked.duration, asked.protocol, asked.text, asked.values, asked.sqlstate
        )
        session.last = asked.start

    def not_recorded(self, event: NotRecorded) -> None:
        """Takes something of which the recording says only that it was asked."""
        count = event.times
        self.account.entries += count
        reason = _REASONS.get(event.reason, OTHER)
        self.account.leave_out(reason, event.duration / 1e6, "", count, count)

    def ended(self, event: Ended) -> None:
        """Takes the end of a session."""
        session = self._sessions.pop(str(event.session.number), None)
        if session is not None:
            self._end(session, event.at)


_NAME = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_MOST_WORDS = 100


def _settings(about: Session) -> list[tuple[str, str]]:
    """Returns what the start-up message of a session has set, by name."""
    settings: list[tuple[str, str]] = []
    for name, value in about.settings:
        if name == "options":
            settings += _options(value)
        elif name != "application_name" and _NAME.fullmatch(name):
            settings.append((name, value))
    return settings


def _options(text: str) -> list[tuple[str, str]]:
    """Returns the settings of `-c name=value` and `--name=value`; a space within has a backslash."""
    try:
        words = shlex.split(text)[:_MOST_WORDS]
    except ValueError:
        return []
    settings = []
    for place, word in enumerate(words):
        if word.startswith("-c"):
            word = word[2:] or "".join(words[place + 1 : place + 2])
        elif word.startswith("--"):
            word = word[2:].replace("-", "_")
        else:
            continue
        name, is_set, value = word.partition("=")
        if is_set and _NAME.fullmatch(name):
            settings.append((name, value))
    return settings


def _quoted(value: str) -> str:
    plain = value.replace("'", "''")
    return f"'{plain}'" if "\\" not in plain else "E'" + plain.replace("\\", "\\\\") + "'"


def convert(
    folder: Path, to: Path, *, mask: Mask | None = None, read: Callable[[Writer, int], None] | None = None
) -> Header:
    """Writes the statements of a recording into the file `to`, and returns its header.

    mask: puts other values in the place of literals and parameters. read: is told of bytes that were read.

    Raises UsageError for a recording without statements; CapturedError where it is damaged at its beginning,
    or where the disk of the file is full.
    """
    damage = Damage()
    with Writer(to) as writer:
        reader = RecordingReader(writer, mask)
        for event in events(folder, damage, lambda more: read(writer, more) if read else None):
            match event:
                case Asked():
                    reader.asked(event)
                case NotRecorded():
                    reader.not_recorded(event)
                case Ended():
                    reader.ended(event)
        reader.finish()
        account = reader.account
        if damage.blocks:
            account.entries += damage.blocks
            account.damage("blocks whose bytes have changed", 0.0, "", damage.blocks, damage.blocks)
        if not writer.header.statements:
            reasons = "; ".join(
                f"{left_out.count:,} of {left_out.why}" for left_out in largest_first(account.left_out)[:4]
            )
            raise UsageError(
                f"the recording {shown(folder)} has no statement that can be asked again"
                + (f": {reasons}" if reasons else ""),
                "let an application connect through pgstrata record first",
            )
        return writer.finish(
            Header(
                made=datetime.now(UTC).isoformat(timespec="seconds"),
                source=SOURCE,
                files=damage.files,
                masked=mask is not None,
                left_out=largest_first(account.left_out),
                damaged=largest_first(account.damaged),
                balance=account.balance(),
                notes=_notes(damage, reader),
            )
        )


def _notes(damage: Damage, reader: RecordingReader) -> list[str]:
    notes = []
    if damage.cut:
        notes.append(f"{counted(damage.cut, 'file')} cut off within a block: what came then is missing")
    if damage.recoded:
        notes.append(
            f"read as Latin-1: {counted(damage.recoded, 'text')} in another encoding than the session's"
        )
    facts = reader.facts
    if facts.untimed:
        notes.append(f"the end of {counted(facts.untimed, 'statement')} was not seen")
    if facts.open_behind:
        notes.append(
            f"{counted(facts.open_behind, 'transaction')} stayed open at the end, and will be rolled back"
        )
    if facts.constants:
        notes.append(
            f"{counted(len(facts.constants), 'statement')} to define tables, types or functions kept all "
            "constants"
        )
    return notes


__all__ = ["SOURCE", "convert"]

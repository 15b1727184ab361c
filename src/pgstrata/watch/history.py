"""What a watch has measured, on disk: one file for each commit, and one for the alarms.

FOLDER/values/COMMIT.json   the values of a commit, written whole when all its steps are measured
FOLDER/alarms.json          changes that were found, and their searches
FOLDER/alarms/NAME/         the search of an alarm, with its page and the draft of a mail
FOLDER/anchor/              counted starts of the anchor, which is not counted again beside each commit
FOLDER/index.html, tables/  the page
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from pgstrata.errors import StoreError
from pgstrata.files import disk
from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.disk import read_regular, storing
from pgstrata.store.lock import own_results

VERSION = 1
MOST_BYTES = 64 << 20


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step of a commit against the anchor.

    asked: digest of what decides the measurement; a value of another question is none. log_ratio: natural
    logarithm, below 0 is worse; error: its standard error. anchor, commit: operations per second or
    instructions per operation, in `unit`.
    """

    asked: str
    log_ratio: float
    error: float
    pairs: int
    anchor: float
    commit: float
    unit: str


class CommitValues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a commit.

    epoch: digest of machine, compiler and anchor; values of different epochs are not compared.
    values, missing: by name of the series; missing says why there is no value. skipped: why the whole commit
    cannot be measured, or empty. other_load: share of the CPUs that other programs used meanwhile. tries: how
    often it was measured. at: ISO 8601. built: key of the server in the cache where it was built for this.
    seconds, cpu_seconds: of all of it; build_seconds, build_cpu_seconds: of the build alone. code: digest of
    what its server executes. same_as: commit of the same code whose values these are, or empty.
    """

    version: int
    commit: str
    epoch: str
    at: str
    seconds: float
    other_load: float = 0.0
    tries: int = 0
    values: dict[str, Value] = {}
    missing: dict[str, str] = {}
    skipped: str = ""
    built: str = ""
    cpu_seconds: float = 0.0
    build_seconds: float = 0.0
    build_cpu_seconds: float = 0.0
    code: str = ""
    same_as: str = ""


class Moved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A series that an alarm is about: level after the change to level before it."""

    log_ratio: float
    error: float


class Alarm(msgspec.Struct, forbid_unknown_fields=True):
    """A change.

    good, bad: commits between which it lies, `bad` included. leading: the series that is searched, once all
    commits between them are measured or skipped. state: `open` until its search ended; `found`, with the
    commit, or several of which only one can be measured; `unproven` where the search proved no difference.
    """

    good: str
    bad: str
    leading: str
    moved: dict[str, Moved]
    at: str
    state: Literal["open", "found", "unproven"] = "open"
    commits: list[str] = []
    subject: str = ""
    answer: str = ""
    why: list[str] = []
    """What accounts for it, a sentence each: functions, plans that changed."""
    ended: str = ""
    """When its search ended, as `at`: when it was raised (ISO 8601)."""

    @property
    def is_worse(self) -> bool:
        """True if a step needs more instructions or got slower."""
        return any(moved.log_ratio < 0 for moved in self.moved.values())

    @property
    def name(self) -> str:
        """Name of the folder of its search."""
        return f"{self.good[:10]}-{self.bad[:10]}"


class Alarms(msgspec.Struct, forbid_unknown_fields=True):
    """The file of the alarms. known: newest commit when the last pass ended."""

    version: int = VERSION
    known: str = ""
    alarms: list[Alarm] = []


class History:
    """The folder of a watch. Raises StoreError where it cannot be read or written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def values(self, commits: Sequence[str]) -> dict[str, CommitValues]:
        """Returns what is known of these commits, by hash. A file that is damaged is as good as none."""
        by_commit = {}
        for commit in commits:
            path = self._file(commit)
            try:
                values = json_as(read_regular(path, MOST_BYTES), CommitValues)
            except (FileNotFoundError, BoundError):
                continue
            except OSError as error:
                raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
            if values.version == VERSION and values.commit == commit:
                by_commit[commit] = values
        return by_commit

    def add(self, values: CommitValues) -> None:
        """Writes the values of a commit whole or not at all, synced."""
        with storing("store the values of a commit", self.folder):
            own_results(self.folder / "values")
            disk.replace(self._file(values.commit), msgspec.json.encode(values) + b"\n")

    def alarms(self) -> Alarms:
        """Returns the alarms of all passes."""
        path = self.folder / "alarms.json"
        try:
            known_alarms = json_as(read_regular(path, MOST_BYTES), Alarms)
        except FileNotFoundError:
            return Alarms()
        except (OSError, BoundError) as error:
            raise StoreError(
                f"{path} cannot be used: {getattr(error, 'strerror', None) or error}",
                "remove it: the next pass finds the changes again",
            ) from error
        if known_alarms.version != VERSION:
            raise StoreError(
                f"{path} was written by another version of pgstrata", "name another results folder"
            )
        return known_alarms

    def save_alarms(self, alarms: Alarms) -> None:
        """Writes the alarms whole or not at all, synced."""
        with storing("store the alarms", self.folder):
            data = msgspec.json.format(msgspec.json.encode(alarms), indent=1)
            disk.replace(self.folder / "alarms.json", data + b"\n")

    def _file(self, commit: str) -> Path:
        return self.folder / "values" / f"{commit}.json"


__all__ = ["Alarm", "Alarms", "CommitValues", "History", "Moved", "Value"]

"""The catalogue: what lists and views say of every run, in one file beside the runs.

Reading ten thousand run.json takes a minute, and listing them a tenth of a second. So what was read once is
kept in `.catalogue`, and a run whose run.json is still the file that was read (inode, size, times, and the
time of its folder) is not read again. The folders stay the truth: the catalogue is made from them, is
made again when it is gone, damaged, of another release or of a user who is not trusted, and nothing
is lost with it. Damaged runs are never in it: they are looked at each time.

The file is a line that names its form, a line with the SHA-256 of the rest, and Parquet: one row per run,
then one per step. It is read into memory of this process first, so that what is used is what was checked.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pgstrata.files import digests, disk
from pgstrata.files.bounded import json_any
from pgstrata.files.ownership import believed_file
from pgstrata.sql_text import literal
from pgstrata.store import sums
from pgstrata.store.columns import RUNS, STEPS
from pgstrata.store.listing import Listed
from pgstrata.store.names import RunKey
from pgstrata.store.read import BrokenRun, Run, read_known, read_run
from pgstrata.store.record import FORMAT
from pgstrata.store.sql import insert

if TYPE_CHECKING:
    import duckdb

NAME = ".catalogue"

FEW = 20
"""Fewer runs than these are read as quickly as a catalogue: none is made for them."""

MOST_BYTES = 1 << 30
_CHUNK = 200
_WORTH = 1000
"""New runs are read each time until they are more than a thousandth of all: writing all anew costs more."""

_LEFT_SECONDS = 3600.0
"""What a writer that was killed has left is removed when it is this old."""


class Entry(Struct, frozen=True):
    """What is known of a run without opening it.

    folder: relative to the results. signature: of its run.json and its folder (`store.listing`). checked: no
    file of it has changed since then, in nanoseconds of the file system's clock (`sums.newest`). steps: how
    many. comparison, participants: id and variants of its comparison, None and () of a run measured alone.
    """

    number: int
    folder: str
    signature: str
    checked: int
    run_id: str
    campaign: str
    variant: str
    workload: str
    repeat: int
    status: str
    started: str
    hostname: str | None
    error: str | None
    steps: int
    comparison: str | None
    participants: tuple[str, ...]

    @property
    def key(self) -> RunKey:
        return RunKey(self.campaign, self.variant, self.workload, self.repeat)

    @property
    def done(self) -> bool:
        return self.status == "done"

    def read(self, root: Path) -> Run | BrokenRun:
        """Reads the whole run; files that are as they were are not checked again."""
        return read_known(root / self.folder, self.checked)


# --- rows -------------------------------------------------------------------------------------

# name in the file, SQL type; run_…: columns of the view, entry_…: what only `Entry` has
_RUN_COLUMNS = [(f"run_{name}", kind) for name, kind, _ in RUNS]
_ENTRY_COLUMNS = [
    ("entry_signature", "VARCHAR"),
    ("entry_checked", "BIGINT"),
    ("entry_started", "VARCHAR"),
    ("entry_steps", "BIGINT"),
    ("entry_comparison", "VARCHAR"),
    ("entry_participants", "VARCHAR"),
]
_STEP_COLUMNS = [(f"step_{name}", kind) for name, kind, _ in STEPS]
_NUMBER = [("number", "BIGINT")]
_PARTS = (("runs", _NUMBER + _RUN_COLUMNS + _ENTRY_COLUMNS), ("steps", _NUMBER + _STEP_COLUMNS))
_LOADED = (
    "number, run_path, entry_signature, entry_checked, run_run_id, run_campaign, run_variant, run_workload, "
    "run_repeat, run_status, entry_started, run_host, run_error, entry_steps, entry_comparison, "
    "entry_participants"
)
"""In the order of `Entry`."""


def _entry(row: Sequence[Any]) -> Entry:
    """Returns the entry of a row that `_LOADED` selects. Raises ValueError, TypeError for a row that no
    release has written."""
    participants = () if row[-1] == "[]" else tuple(json_any(row[-1]))
    values: list[Any] = [*row[:-1], participants]
    return Entry(*values)


def _entry_of(number: int, place: Listed, checked: int, run: Run) -> Entry:
    record = run.record
    comparison = record.comparison
    return Entry(
        number,
        place.folder,
        place.signature,
        checked,
        record.run_id,
        record.campaign,
        record.variant,
        record.workload,
        record.repeat,
        record.status,
        record.started,
        record.host.hostname,
        record.error.message if record.error else None,
        len(record.imported.steps if record.imported else record.steps),
        comparison.id if comparison else None,
        comparison.variants if comparison else (),
    )


def _run_row(entry: Entry, run: Run) -> dict[str, Any]:
    return {
        "number": entry.number,
        **{f"run_{name}": value(run) for name, _, value in RUNS},
        "run_path": entry.folder,
        "entry_signature": entry.signature,
        "entry_checked": entry.checked,
        "entry_started": entry.started,
        "entry_steps": entry.steps,
        "entry_comparison": entry.comparison,
        "entry_participants": json.dumps(entry.participants),
    }


def _step_rows(number: int, run: Run) -> Iterator[dict[str, Any]]:
    for step in run.steps:
        yield {"number": number, **{f"step_{name}": value(run, step) for name, _, value in STEPS}}


def _form() -> str:
    """Stands for everything that decides what is in the file: another one is made anew."""
    try:
        release = version("pgstrata")
    except PackageNotFoundError:
        release = ""
    text = repr((release, FORMAT, _PARTS))
    return f"pgstrata catalogue {digests.of(text)}"


# --- all runs of a folder ----------------------------------------------------------------------


@dataclass
class Survey:
    """All runs of a results folder as they are now, in the order of their folders; damaged ones apart.

    connection: where the rows of the views lie, as `catalogue_runs` and `catalogue_steps`, unless they were
    not not asked for; files: what it has to read for them. read: how many run.json were opened.
    """

    root: Path
    entries: list[Entry] = field(default_factory=list)
    broken: list[BrokenRun] = field(default_factory=list)
    connection: duckdb.DuckDBPyConnection | None = None
    files: tuple[str, ...] = ()
    read: int = 0


def survey(root: Path, listed: Sequence[Listed], *, rows: bool = False, files: Sequence[str] = ()) -> Survey:
    """Returns everything known of these folders: from the catalogue as far as it knows them, else from the
    folders themselves.

    rows: leaves a connection with the rows of the views, to be closed by the caller. files: of each run these
    must not have changed either, or it is read anew. Writes the catalogue anew
    where that is worth it; a folder that cannot be written to is read like any other.
    """
    if not rows and len(listed) < FEW:
        result = Survey(root)
        for _ in _sound(result, listed, {}):
            pass
        return result
    table = _Table(root)
    try:
        known = table.open()
        at = {place.folder: place.signature for place in listed}
        current = {
            e.folder: e
            for e in known
            if at.get(e.folder) == e.signature
            and not any(sums.changed(f"{root}/{e.folder}/{name}", e.checked) for name in files)
        }
        result = Survey(root)
        fresh = _sound(result, listed, current, first=1 + max((e.number for e in known), default=0))
        while chunk := list(islice(fresh, _CHUNK)):
            table.add(chunk)
        table.show({e.number for e in known} - {e.number for e in result.entries})
        if len(listed) >= FEW and table.changes * _WORTH >= len(listed):
            table.save()
        if rows:
            result.connection, result.files = table.connection, table.files
        return result
    finally:
        table.leave(rows)


def _sound(
    survey: Survey, listed: Sequence[Listed], current: Mapping[str, Entry], first: int = 1
) -> Iterator[tuple[Listed, Entry, Run]]:
    """Fills the survey, and gives those runs that had to be read."""
    seen: dict[str, str] = {}
    for place in listed:
        entry = current.get(place.folder)
        run: Run | None = None
        if entry is None:
            folder = survey.root / place.folder
            survey.read += 1
            checked = sums.newest(folder)
            read = read_run(folder)
            if isinstance(read, BrokenRun):
                survey.broken.append(read)
                continue
            run = read
            entry = _entry_of(first, place, checked, run)
        if (first_of := seen.setdefault(entry.run_id, place.folder)) is not place.folder:
            reason = f"a copy of {survey.root / first_of}, which is used"
            survey.broken.append(BrokenRun(survey.root / place.folder, reason))
            continue
        survey.entries.append(entry)
        if run is not None:
            first += 1
            yield place, entry, run


class _Table:
    """The rows of all runs: those of the catalogue, and those that were just read."""

    def __init__(self, root: Path) -> None:
        import duckdb

        self.path = root / NAME
        self.changes = 0
        self.connection = duckdb.connect(":memory:")
        self._error = duckdb.Error
        self._file: int | None = None
        for name, columns in _PARTS:
            wanted = ", ".join(f'"{column}" {kind}' for column, kind in columns)
            self.connection.execute(f"CREATE TABLE fresh_{name} ({wanted})")

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that lie behind the rows."""
        return () if self._file is None else (_name(self._file),)

    def open(self) -> list[Entry]:
        """Opens the catalogue and returns its entries; empty if there is no catalogue that can be
        believed."""
        payload = _payload(self.path)
        if payload is None:
            return []
        self._file = _in_memory(payload)
        try:
            cursor = self.connection.execute(
                f"SELECT {_LOADED} FROM {self._stored()} WHERE run_run_id IS NOT NULL"
            )
            return [_entry(row) for row in cursor.fetchall()]
        except (self._error, ValueError, TypeError):
            os.close(self._file)
            self._file = None
            return []

    def add(self, runs: Sequence[tuple[Listed, Entry, Run]]) -> None:
        """Adds the rows of runs that were read."""
        self.changes += len(runs)
        of_runs = [_run_row(entry, run) for _, entry, run in runs]
        of_steps = [row for _, entry, run in runs for row in _step_rows(entry.number, run)]
        for (name, columns), rows in zip(_PARTS, (of_runs, of_steps), strict=True):
            insert(self.connection, f"fresh_{name}", columns, rows)

    def show(self, hidden: set[int]) -> None:
        """Makes the rows of all runs but those with these numbers readable, as `catalogue_…`."""
        self.changes += len(hidden)
        without = ""
        if hidden:
            numbers = ", ".join(f"({number})" for number in sorted(hidden))
            self.connection.execute(f"CREATE TABLE hidden AS SELECT * FROM (VALUES {numbers}) AS h(number)")
            without = " AND number NOT IN (SELECT number FROM hidden)"
        for name, columns in _PARTS:
            wanted = ", ".join(f'"{column}"' for column, _ in columns)
            parts = [f"SELECT {wanted} FROM fresh_{name}"]
            if self._file is not None:
                mark = f"{name[:-1]}_run_id IS NOT NULL"
                parts.insert(0, f"SELECT {wanted} FROM {self._stored()} WHERE {mark}{without}")
            self.connection.execute(f"CREATE VIEW catalogue_{name} AS {' UNION ALL '.join(parts)}")

    def save(self) -> None:
        """Writes everything anew, whole or not at all. What cannot be written is made again next time."""
        both = " UNION ALL BY NAME ".join(f"SELECT * FROM catalogue_{name}" for name, _ in _PARTS)
        descriptor = os.memfd_create("pgstrata-catalogue", os.MFD_CLOEXEC)
        try:
            self.connection.execute(
                f"COPY ({both}) TO {literal(_name(descriptor))} "
                "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 100000, USE_TMP_FILE false)"
            )
            with contextlib.suppress(OSError):
                _write(self.path, descriptor)
        finally:
            os.close(descriptor)

    def leave(self, stays: bool) -> None:
        """Gives back what is not needed any more. The file in memory ends with the process."""
        if not stays:
            self.connection.close()
            if self._file is not None:
                os.close(self._file)

    def _stored(self) -> str:
        assert self._file is not None
        return f"read_parquet({literal(_name(self._file))})"


# --- the file ----------------------------------------------------------------------------------


def _payload(path: Path) -> memoryview | None:
    """Returns the Parquet of a catalogue of this form that is whole and this user's or root's; else None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not believed_file(os.fstat(descriptor), MOST_BYTES):
            return None
        with os.fdopen(os.dup(descriptor), "rb") as file:
            data = memoryview(file.read())
    except OSError:
        return None
    finally:
        os.close(descriptor)
    head = _head(b"")
    body = data[len(head) :]
    return body if bytes(data[: len(head)]) == _head(body) else None


def _head(body: bytes | memoryview) -> bytes:
    return f"{_form()}\n{digests.of(body)}\n".encode()


def _in_memory(payload: memoryview) -> int:
    descriptor = os.memfd_create("pgstrata-catalogue", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(payload)
    return descriptor


def _name(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _write(path: Path, descriptor: int) -> None:
    """Raises OSError."""
    _remove_left(path)
    with os.fdopen(os.dup(descriptor), "rb") as source:
        source.seek(0)
        body = source.read()
    disk.replace(path, _head(body), body)


def _remove_left(path: Path) -> None:
    """Removes the files left by writers that were killed."""
    for other in disk.left_beside(path):
        with contextlib.suppress(OSError):
            if time.time() - other.lstat().st_mtime > _LEFT_SECONDS:
                other.unlink()

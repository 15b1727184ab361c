"""Building a run folder: hidden and owned until it is whole, then renamed into place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from pgstrata.errors import StoreError
from pgstrata.files import digests, disk
from pgstrata.finite import finite
from pgstrata.store import kept, lock, parquet, sums, tables
from pgstrata.store.kept import KeptData, KeptStep
from pgstrata.store.names import RunKey, new_run_id, slug
from pgstrata.store.record import FORMAT, Circumstances, RunRecord, StepRecord
from pgstrata.store.rows import Row

OWNER = ".owner"


class RunBuilder:
    """One run while it is being measured.

    Everything goes into a hidden folder that this process owns; `finish` makes it the run's folder,
    `abandon` removes it. Raises StoreError when something cannot be stored.
    """

    def __init__(self, root: Path, key: RunKey) -> None:
        self.key = key
        self.run_id = new_run_id()
        self._root = root
        self._parent = key.folder(root)
        name = f"{key.repeat}-{self.run_id}"
        self._final = self._parent / name
        self.folder = self._parent / f".{name}.building"
        self._started = now()
        self._steps: list[StepRecord] = []
        self._histograms: dict[str, dict[str, str]] = {}
        self._sums: dict[str, str] = {}
        self._keeping: KeptStep | None = None
        self._attempts: tuple[str, ...] = ()
        self._files: list[str] = []
        """Attached since the last step."""
        self._tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in tables.TABLES}
        with disk.storing("begin a run", self._parent):
            for folder in (*reversed(self._parent.parents[:3]), self._parent):
                lock.own_results(folder)
            self.folder.mkdir(mode=0o700)
            try:
                self._owner = lock.try_lock(self.folder / OWNER)
            except OSError:  # a full disk has room for a folder, but not for a file in it
                shutil.rmtree(self.folder, ignore_errors=True)
                raise

    def keep_steps(self, made_of: str, comparison: str | None, taken: Sequence[KeptStep]) -> None:
        """Makes steps durable at once from now on if they ask for it (`store.kept`). taken: those of earlier
        attempts that this one goes on from."""
        last = taken[-1] if taken else None
        self._attempts = (*(last.attempts if last else ()), self._started)
        self._keeping = KeptStep(
            path="",
            name="",
            order=1,
            made_of=made_of,
            comparison=comparison,
            attempt=len(self._attempts),
            attempts=self._attempts,
        )

    @property
    def records(self) -> dict[str, StepRecord]:
        """The steps so far, by name."""
        return {record.name: record for record in self._steps}

    @property
    def attempts(self) -> tuple[str, ...]:
        """When the attempts began that steps of this run are from; () where there is only this one."""
        return self._attempts if len(self._attempts) > 1 else ()

    def take(self, data: KeptData) -> None:
        """Adds a step that an earlier attempt has finished."""
        for name, content in data.files.items():
            self.attach(name, content)
        self._files = []
        self._steps.append(_stored(data.record))
        self._histograms[data.record.name] = data.histograms
        for table, values in data.tables.items():
            self._tables[table] += tables.of_run(table, self.run_id, values)

    def spec(self, order: int, step: str, spec: Mapping[str, Any]) -> None:
        """Attaches the driver's spec of a step; `order` counts from 1."""
        self.attach(f"spec/{order:02d}-{slug(step)}.json", _json(spec))

    def step(
        self,
        record: StepRecord,
        *,
        series: Iterable[Row] = (),
        histograms: Mapping[str, str] | None = None,
        host: Iterable[Row] = (),
        backends: Iterable[Row] = (),
        pgstat: Iterable[Row] = (),
        queries: Iterable[Row] = (),
        profiles: Iterable[Row] = (),
        lag: Iterable[Row] = (),
        lateness: Iterable[Row] = (),
        statements: Iterable[Row] = (),
        plans: Sequence[Mapping[str, Any]] = (),
        driver_version: str = "",
        keep: bool = False,
    ) -> None:
        """Adds a step that has ended: its record and its tables.

        Rows have the columns of the view of that name without `run_id` and `step`;
        `histograms` holds the whole-step histogram of each role in base64.
        keep: it is durable when this returns, whatever becomes of the run; plans and driver_version are kept
        with it.
        Raises ValueError when a step of this name is there already: the tables tell steps by name.
        Raises StoreError when the record could not be read again.
        """
        name = record.name
        if name in self._histograms:
            raise ValueError(f"the run has a step {name!r} already")
        if self._keeping is not None:
            record = structs.replace(record, attempt=self._keeping.attempt)
        self._steps.append(_stored(record))
        self._histograms[name] = dict(histograms or {})
        rows = {
            "series": series,
            "host": host,
            "backends": backends,
            "pgstat": pgstat,
            "queries": [{"variant": self.key.variant, **row} for row in queries],
            "profiles": [{"variant": self.key.variant, **row} for row in profiles],
            "lag": lag,
            "lateness": lateness,
            "statements": statements,
            "histograms": tables.bucket_rows(self._histograms[name]),
        }
        conformed = {
            table: tables.conform(table, self.run_id, name, its_rows) for table, its_rows in rows.items()
        }
        for table, values in conformed.items():
            self._tables[table] += values
        if keep and self._keeping is not None:
            data = KeptData(
                record=self._steps[-1],
                histograms=self._histograms[name],
                tables={table: [list(row) for row in values] for table, values in conformed.items()},
                files={name: (self.folder / name).read_bytes() for name in self._files},
                plans=[dict(plan) for plan in plans],
                driver_version=driver_version,
            )
            folder = kept.folder_of(self._root, self.key)
            step = structs.replace(self._keeping, name=name, order=record.order)
            kept.keep(folder, step, data)
        self._files = []

    def rows(self, table: str, step: str, rows: Iterable[Row]) -> None:
        """Adds rows of a counted step, which has no record of its own: columns without `run_id`, `variant`,
        `step`."""
        full_rows = [{"variant": self.key.variant, **row} for row in rows]
        self._tables[table] += tables.conform(table, self.run_id, step, full_rows)

    def plans(self, plans: Mapping[str, Any]) -> None:
        """Returns the plans of queries: `{step: [{name, plan}]}`, plan as EXPLAIN (FORMAT JSON) gives it."""
        self.attach("plans.json", _json(plans))

    def settings(self, rows: Mapping[str, str] | Iterable[Sequence[Any]]) -> None:
        """Attaches the settings that SHOW ALL printed: its rows (name, setting, description), or setting by
        name."""
        pairs = rows.items() if isinstance(rows, Mapping) else ((row[0], row[1]) for row in rows)
        self.attach("settings.json", _json({str(name): value for name, value in pairs}))

    def defaults(self, rows: Iterable[tuple[str, str | None, str | None]]) -> None:
        """Attaches the values with which the server's version begins: name, value and unit of pg_settings."""
        defaults = {name: {"value": value, "unit": unit} for name, value, unit in rows}
        self.attach("defaults.json", _json(defaults))

    def server_log(self, path: Path) -> None:
        """Keeps the server's log, compressed."""
        with disk.storing("store the server log", self._parent):
            disk.compress(path, self.folder / "server.log.gz")
            self._sums["server.log.gz"] = digests.of_file(self.folder / "server.log.gz")

    def attach(self, name: str, data: bytes) -> None:
        """Writes a further file of the run, say `profile/query.svg`; `/` makes folders. Raises ValueError for
        a name that is none inside a run."""
        parts = PurePosixPath(name).parts
        if not parts or any(part.startswith((".", "/")) for part in parts):
            raise ValueError(f"not a name of a file inside a run: {name!r}")
        path = self.folder.joinpath(*parts)
        with disk.storing(f"store {name}", self._parent):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            disk.write(path, data)
        self._sums["/".join(parts)] = digests.of(data)
        if len(parts) > 1:  # what lies in folders (spec, profile) is of a step, all else of the run
            self._files.append("/".join(parts))

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """Yields an empty folder for files that are not kept.

        It lies in the building folder, so that a process that is killed leaves nothing of it: the
        next one removes building folders without an owner.
        """
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def finish(self, circumstances: Circumstances) -> Path:
        """Writes everything that is left, makes it durable and renames the folder into place.

        Identity and steps are known here already. Returns the run's folder.
        """
        whole = _stored(
            RunRecord(
                **structs.asdict(circumstances),
                format=FORMAT,
                run_id=self.run_id,
                campaign=self.key.campaign,
                variant=self.key.variant,
                workload=self.key.workload,
                repeat=self.key.repeat,
                started=self._started,
                finished=now(),
                steps=tuple(self._steps),
            )
        )
        for name, values in self._tables.items():
            if values or name not in tables.OPTIONAL:
                self.attach(f"{name}.parquet", parquet.to_bytes(name, values))
        self.attach("histograms.json", _json(self._histograms))
        self.attach(sums.NAME, sums.text(self._sums))
        # last: a folder with a run.json has everything else
        self.attach("run.json", _json(msgspec.to_builtins(whole)))
        with disk.storing("store the run", self._parent):
            (self.folder / OWNER).unlink()
            for folder in (self.folder, *(path for path in self.folder.rglob("*") if path.is_dir())):
                disk.sync_folder(folder)
            self.folder.rename(self._final)
            # up to the results folder: the folders of campaign, variant and workload may be new
            for folder in (self._parent, *self._parent.parents[:3]):
                disk.sync_folder(folder)
        self._disown()
        return self._final

    def abandon(self) -> None:
        """Removes what was built; nothing of the run stays."""
        try:
            with disk.storing("remove the run", self._parent):
                remove(self.folder)
        finally:
            self._disown()

    def _disown(self) -> None:
        if self._owner is not None:
            lock.unlock(self._owner)
            self._owner = None


def remove(folder: Path) -> None:
    """Removes a building folder and the folders above it that it leaves empty, up to the campaign's.

    Raises OSError.
    """
    if folder.exists():
        shutil.rmtree(folder)
    for parent in list(folder.parents)[:3]:
        try:
            parent.rmdir()
        except OSError:
            return  # other runs are in it


def now() -> str:
    """Returns the time in UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


R = TypeVar("R", StepRecord, RunRecord)


def _stored(record: R) -> R:
    """Returns the record as it will be read. Raises StoreError if reading would refuse it."""
    try:
        return msgspec.convert(finite(msgspec.to_builtins(record)), type(record))
    except (TypeError, msgspec.ValidationError) as cause:
        raise StoreError(f"a record of the run cannot be stored: {cause}") from cause


def _json(value: Any) -> bytes:
    """Returns JSON with null where a number is not finite: JSON has no NaN, and other readers refuse it.
    Raises StoreError for a value that JSON cannot hold."""
    try:
        return (json.dumps(finite(value), ensure_ascii=False, indent=1) + "\n").encode(
            "utf-8", "backslashreplace"
        )
    except TypeError as cause:
        raise StoreError(f"a value of the run cannot be stored: {cause}") from cause

"""Reading run folders: whole ones become records, damaged ones are named and left out."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from pgstrata.files import digests, disk
from pgstrata.files.bounded import BoundError, json_any, json_as
from pgstrata.files.user_files import shown
from pgstrata.store import parquet, sums
from pgstrata.store.imported import IMPORTED
from pgstrata.store.names import RunKey
from pgstrata.store.record import FORMAT, RunRecord, StepRecord
from pgstrata.store.rows import Rows
from pgstrata.store.tables import OPTIONAL, TABLES

Json = dict[str, Any]

MOST_BYTES = 32 << 20
"""Of run.json and each other JSON file of a run."""

MOST_REASON = 300
"""Characters of what is said about a damaged run: it may quote what is in it."""

_PARQUET_END = b"PAR1"

# every digit is 0 and all else blank but the point: long integers are found without looking at each letter
_ZEROS = bytes(48 if 48 <= letter <= 57 else 46 if letter == 46 else 32 for letter in range(256))
_LONG_INTEGER = b" " + b"0" * 19


@dataclass(frozen=True)
class BrokenRun:
    """A folder that looks like a run and cannot be used, with the reason in one sentence."""

    folder: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.folder}: {self.reason}"


class Default(msgspec.Struct, frozen=True):
    """The value with which a setting begins, in its unit: `16384` of `8kB`. None: none, or not told."""

    value: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Run:
    """A run that is there: its folder and what its run.json says."""

    folder: Path
    record: RunRecord

    @property
    def key(self) -> RunKey:
        return RunKey(self.campaign, self.variant, self.workload, self.repeat)

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def campaign(self) -> str:
        return self.record.campaign

    @property
    def variant(self) -> str:
        return self.record.variant

    @property
    def workload(self) -> str:
        return self.record.workload

    @property
    def repeat(self) -> int:
        return self.record.repeat

    @property
    def done(self) -> bool:
        return self.record.status == "done"

    @property
    def started(self) -> str:
        return self.record.started

    @property
    def imported(self) -> bool:
        """Whether another program measured it: then nothing is judged from it."""
        return self.record.imported is not None

    @property
    def hostname(self) -> str | None:
        return self.record.host.hostname

    @property
    def machine(self) -> str:
        """What it was measured on: the machine of a fleet by its name there, else the host."""
        machine = self.record.machine
        return machine.name if machine is not None else self.record.host.hostname or ""

    @property
    def comparison(self) -> str | None:
        """What the runs that took turns with this one have in common; None where it was measured alone."""
        return self.record.comparison.id if self.record.comparison is not None else None

    @property
    def participants(self) -> tuple[str, ...]:
        """The variants of its comparison."""
        return self.record.comparison.variants if self.record.comparison is not None else ()

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        return self.record.steps

    def table(self, name: str, columns: Sequence[str] | None = None) -> Rows:
        """Returns one of the run's tables (`series`, `host`, …), all columns or these.

        Raises StoreError when the file is damaged.
        """
        path = self.table_file(name)
        if path is None:
            return Rows(tuple(columns or TABLES[name]))
        return parquet.read(path, name, columns)

    def table_file(self, name: str) -> Path | None:
        """Returns the file of a table; None if a run need not have the table and this one lacks it."""
        path = self.folder / f"{name}.parquet"
        return None if name in OPTIONAL and not path.exists() else path

    def settings(self) -> dict[str, str]:
        """Returns the settings that SHOW ALL printed; empty if they are not known."""
        return {
            str(name): str(value) for name, value in _optional_json(self.folder / "settings.json").items()
        }

    def defaults(self) -> dict[str, Default]:
        """Returns the values with which the server's version begins; empty if they are not known."""
        try:
            return msgspec.convert(_optional_json(self.folder / "defaults.json"), dict[str, Default])
        except msgspec.ValidationError:
            return {}

    def plans(self) -> dict[str, list[Json]]:
        """Returns the plans that were kept, `{step: [{name, plan}]}`; empty if there are none."""
        return _optional_json(self.folder / "plans.json")

    @cached_property
    def scripts(self) -> dict[str, bytes]:
        """What tells whether two runs did the same in a step: a digest of the scripts of its roles, by step.
        Steps without them are left out."""
        by_step = {}
        for path in sorted((self.folder / "spec").glob("*.json")):
            try:
                spec = json_as(disk.read_regular(path, MOST_BYTES), _Spec)
            except (OSError, BoundError):
                continue
            by_step[spec.step] = _digest(tuple((role.name, bytes(role.scripts)) for role in spec.roles))
        return by_step

    @cached_property
    def histograms(self) -> dict[str, dict[str, str]]:
        """The whole-step histograms in base64, by step and role; empty where they are damaged."""
        try:
            return msgspec.convert(_optional_json(self.folder / "histograms.json"), dict[str, dict[str, str]])
        except msgspec.ValidationError:
            return {}


class _Role(msgspec.Struct):
    """What a spec says of a role, as far as two runs can differ in it."""

    name: str | None = None
    scripts: msgspec.Raw = msgspec.Raw(b"null")


class _Spec(msgspec.Struct):
    step: str
    roles: list[_Role] = []


@lru_cache(maxsize=4096)
def _digest(roles: tuple[tuple[str | None, bytes], ...]) -> bytes:
    """Returns a digest of scripts by their meaning, however they are written. Runs of a campaign share most
    of them."""
    parts = [(name, json_any(scripts)) for name, scripts in roles]
    return bytes.fromhex(digests.of(json.dumps(parts, sort_keys=True)))


class _BrokenError(Exception):
    """Why a folder is no run."""


def read_run(folder: Path) -> Run | BrokenRun:
    """Returns the run in this folder, or the reason why it cannot be used."""
    return read_known(folder, 0)


def read_known(folder: Path, checked: int) -> Run | BrokenRun:
    """Returns the run in this folder, or the reason why it cannot be used; files that have not changed since
    `checked` (`sums.newest`) are known to be sound."""
    try:
        run = Run(folder, _record(folder))
        if not checked:
            for table in TABLES:
                if table not in OPTIONAL:
                    _check_parquet(folder / f"{table}.parquet")
        if wrong := sums.problem(folder, checked):
            raise _BrokenError(wrong)
        return run
    except _BrokenError as reason:
        return BrokenRun(folder, shown(reason, MOST_REASON))


def _record(folder: Path) -> RunRecord:
    try:
        raw = disk.read_regular(folder / "run.json", MOST_BYTES)
        if (record := _at_once(raw)) is not None:
            return record
        data = _document(raw)
    except FileNotFoundError:
        raise _BrokenError("run.json is missing") from None
    except OSError as cause:
        raise _BrokenError(f"run.json cannot be read: {cause.strerror}") from None
    except (ValueError, RecursionError):
        raise _BrokenError("run.json is damaged: not valid JSON") from None
    if isinstance(data, dict) and data.get("format") != FORMAT:
        raise _BrokenError(
            f"format {data.get('format')!r} of run.json, and this pgstrata reads format {FORMAT}: "
            "measure it again, or read it with the release that wrote it"
        )
    try:
        record = msgspec.convert(data, RunRecord)
    except msgspec.ValidationError as cause:
        raise _BrokenError(f"run.json is damaged: {cause}") from None
    if wrong := _contradiction(record):
        raise _BrokenError(f"run.json is damaged: {wrong}")
    return record


def _at_once(raw: bytes) -> RunRecord | None:
    """Returns the record, three times as quick; None where the longer way has to find the error, if there is
    any.

    msgspec's own decoder refuses lone surrogates, which names of files may have, and lets integers of any
    length pass. Fractions may have as many digits as they like.
    """
    if _LONG_INTEGER in raw.translate(_ZEROS):
        return None
    try:
        record = msgspec.json.decode(raw, type=RunRecord)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return None if _contradiction(record) else record


def _document(raw: bytes) -> Any:
    """Returns JSON whose numbers are finite and have at most 64 bits. Raises ValueError, RecursionError."""
    # Of bytes json.loads would take half a character, which the next reader refuses.
    text = raw.decode()
    data = json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_number)
    return _printable(data) if b"\\ud" in raw.lower() else data


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (value := int(text)) < 2**63:
        raise ValueError(f"{text[:30]} has more than 64 bits")
    return value


def _number(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError(f"{text[:30]} is not finite")
    return value


def _printable(value: Any) -> Any:
    """Returns texts without lone surrogates, which no page and no terminal takes."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_printable(item) for item in value]
        case dict():
            return {_printable(key): _printable(item) for key, item in value.items()}
    return value


def _contradiction(record: RunRecord) -> str | None:
    """Returns a contradiction that no single key shows: an invalid date, a step twice, an imported run with
    steps of its own. Empty if there is none."""
    if (record.imported is not None) != (record.status == IMPORTED):
        return "its status and what it imported contradict each other"
    if record.imported is not None and (record.steps or record.counted or record.comparison):
        return "an imported run has nothing that was measured here"
    names = [step.name for step in record.steps]
    if len(set(names)) < len(names):
        return "two steps have one name"
    times = [record.started, record.finished]
    for step in record.steps:
        times += [step.started, *(turn.started for turn in step.slices if turn.started is not None)]
    for time in times:
        try:
            datetime.fromisoformat(time)
        except ValueError:
            return f"{time} is no time"
    return None


def _check_parquet(path: Path) -> None:
    """Raises _BrokenError for a Parquet file that was cut or never finished, and so lacks the mark at its
    end."""
    try:
        if not path.is_file() and path.exists():
            raise _BrokenError(f"{path.name} is no file")
        with path.open("rb") as file:
            file.seek(-len(_PARQUET_END), os.SEEK_END)
            whole = file.read() == _PARQUET_END
    except FileNotFoundError:
        raise _BrokenError(f"{path.name} is missing") from None
    except OSError as cause:
        raise _BrokenError(f"{path.name} cannot be read: {cause.strerror}") from None
    if not whole:
        raise _BrokenError(f"{path.name} is damaged: its end is missing")


def _optional_json(path: Path) -> dict[str, Any]:
    try:
        data = json_any(disk.read_regular(path, MOST_BYTES))
    except (OSError, BoundError):
        return {}
    return data if isinstance(data, dict) else {}


@dataclass(frozen=True)
class MeasuredStep:
    """One step of one finished run."""

    run: Run
    record: StepRecord

    @property
    def rate(self) -> float | None:
        """The headline, per second; None where nothing was sent."""
        return self.record.rate

    @property
    def sla_met(self) -> bool:
        """False only where there was a target and it was missed."""
        return self.record.sla_met is not False

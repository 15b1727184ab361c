"""Reading run folders: whole ones become records, damaged ones are named and left out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pgstrata.errors import StoreError
from pgstrata.store.names import RUN_FOLDER, RunKey
from pgstrata.store.tables import OPTIONAL, TABLES, empty
from pgstrata.store.write import FORMAT, STATUSES

Json = dict[str, Any]

_PARQUET_END = b"PAR1"
_IDENTITY = {"run_id": str, "campaign": str, "variant": str, "workload": str, "repeat": int}


@dataclass(frozen=True)
class BrokenRun:
    """A folder that looks like a run and cannot be used, with the reason in one sentence."""

    folder: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.folder}: {self.reason}"


@dataclass(frozen=True)
class RunRecord:
    """A finished run: its folder and what run.json says (docs/results.md)."""

    folder: Path
    data: Json

    @property
    def key(self) -> RunKey:
        return RunKey(self.campaign, self.variant, self.workload, self.repeat)

    @property
    def run_id(self) -> str:
        return str(self.data["run_id"])

    @property
    def campaign(self) -> str:
        return str(self.data["campaign"])

    @property
    def variant(self) -> str:
        return str(self.data["variant"])

    @property
    def workload(self) -> str:
        return str(self.data["workload"])

    @property
    def repeat(self) -> int:
        return int(self.data["repeat"])

    @property
    def done(self) -> bool:
        return bool(self.data["status"] == "done")

    @property
    def steps(self) -> list[Json]:
        return list(self.data["steps"])

    def table(self, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """One of the run's tables (`series`, `host`, …), all columns or these.

        Raises StoreError when the file is damaged.
        """
        path = self.folder / f"{name}.parquet"
        if name in OPTIONAL and not path.exists():
            nothing = empty(name)
            return nothing.select(columns) if columns else nothing
        try:
            return pl.read_parquet(path, columns=list(columns) if columns else None)
        except (OSError, pl.exceptions.PolarsError) as cause:
            raise StoreError(f"{path} cannot be read: {cause}", "remove the damaged run's folder") from cause

    def settings(self) -> dict[str, str]:
        """What SHOW ALL said; empty where it is not known."""
        return {
            str(name): str(value) for name, value in _optional_json(self.folder / "settings.json").items()
        }

    def plans(self) -> dict[str, list[Json]]:
        """The plans that were kept, `{step: [{name, plan}]}`; empty where there are none."""
        return _optional_json(self.folder / "plans.json")

    def specs(self) -> dict[str, Json]:
        """What the driver was told, by step. Empty for runs without it."""
        found = {}
        for path in sorted((self.folder / "spec").glob("*.json")):
            spec = _optional_json(path)
            if "step" in spec:
                found[str(spec["step"])] = spec
        return found

    def histograms(self) -> dict[str, dict[str, str]]:
        """The whole-step histograms in base64, by step and role."""
        return _optional_json(self.folder / "histograms.json")


class _BrokenError(Exception):
    """Why a folder is no run."""


def run_folders(root: Path) -> Iterator[Path]:
    """Every folder below root that has the place and the name of a run, sorted."""
    for campaign in _folders(root):
        for variant in _folders(campaign):
            for workload in _folders(variant):
                yield from (folder for folder in _folders(workload) if RUN_FOLDER.fullmatch(folder.name))


def read_run(folder: Path) -> RunRecord | BrokenRun:
    """The run in this folder, or why it cannot be used."""
    try:
        record = RunRecord(folder, _checked(folder))
        for table in TABLES:
            path = folder / f"{table}.parquet"
            if table not in OPTIONAL or path.exists():
                _check_parquet(path)
        return record
    except _BrokenError as reason:
        return BrokenRun(folder, str(reason))


def _checked(folder: Path) -> Json:
    try:
        data = json.loads((folder / "run.json").read_bytes())
    except FileNotFoundError:
        raise _BrokenError("run.json is missing") from None
    except OSError as cause:
        raise _BrokenError(f"run.json cannot be read: {cause.strerror}") from None
    except (ValueError, RecursionError):
        raise _BrokenError("run.json is damaged: not valid JSON") from None
    if not isinstance(data, dict):
        raise _BrokenError("run.json is damaged: no object")
    if data.get("format") != FORMAT:
        raise _BrokenError(f"format {data.get('format')!r}, and this pgstrata reads format {FORMAT}")
    for name, kind in (
        ("run_id", str),
        ("campaign", str),
        ("variant", str),
        ("workload", str),
        ("repeat", int),
    ):
        if not isinstance(data.get(name), kind):
            raise _BrokenError(f"run.json is damaged: {name} is missing or of the wrong type")
    if data.get("status") not in STATUSES:
        raise _BrokenError(f"run.json is damaged: status {data.get('status')!r}")
    steps = data.get("steps")
    if not isinstance(steps, list) or not all(
        isinstance(step, dict) and isinstance(step.get("name"), str) for step in steps
    ):
        raise _BrokenError("run.json is damaged: steps")
    return data


def _check_parquet(path: Path) -> None:
    """A Parquet file that was cut or never finished lacks the mark at its end."""
    try:
        with path.open("rb") as file:
            file.seek(-len(_PARQUET_END), os.SEEK_END)
            whole = file.read() == _PARQUET_END
    except FileNotFoundError:
        raise _BrokenError(f"{path.name} is missing") from None
    except OSError as cause:
        raise _BrokenError(f"{path.name} cannot be read: {cause.strerror}") from None
    if not whole:
        raise _BrokenError(f"{path.name} is damaged: its end is missing")


def _folders(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            names = [e.name for e in entries if not e.name.startswith(".") and e.is_dir()]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return [parent / name for name in sorted(names)]


def _optional_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}

"""Packs the runs of a campaign into one file, and judges them anew from it.

A bundle is a tar archive, compressed by xz: `bundle.json` with the verdicts, then the run folders without the
logs of their servers. Runs hold the rates of all slices, the histograms and the counts, so a verdict is
computed anew from what was measured, not copied. Paths of repositories and files of the machine become names
(`places`).
"""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict

import msgspec

import pgstrata
from pgstrata.bundle.places import shortener
from pgstrata.cli.kinds import kinds
from pgstrata.errors import StoreError, UsageError
from pgstrata.files import disk
from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.disk import storing
from pgstrata.files.unpacking import opened, unpack
from pgstrata.files.user_files import in_command, read_bytes, shown
from pgstrata.numbers import size
from pgstrata.page.results import RunSet, read_results
from pgstrata.store import Results, Run
from pgstrata.store.sums import UNREAD

Json = dict[str, Any]

VERSION = 1
MANIFEST = "bundle.json"
RECORD = "run.json"
"""Of a run: the one file that its digests leave out, so that it can be changed."""
EXPLAINING = frozenset(("reason", "aside"))
"""Of a verdict: another version may explain the same word and figures otherwise."""
XZ = b"\xfd7zXZ\0"
"""How a file of xz begins."""
MOST_BYTES = 5_000_000
"""Of a bundle, unless more is asked for: what mail and issue trackers take."""
LARGEST_BYTES = 1 << 30
"""Of a bundle that is read."""
MOST_UNPACKED = 8 << 30
TOLERANCE = 1e-9
"""Relative difference of two numbers that are the same: sums are taken in another order elsewhere."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a bundle says of itself. program: version of pgstrata; comparisons, counts: verdicts as `pgstrata
    compare --format json` has them; runs: folders in the bundle."""

    version: int
    program: str
    campaign: str
    base: str
    runs: list[str]
    comparisons: list[Json]
    counts: list[Json]


@dataclass(frozen=True)
class Bundle:
    """A bundle that is unpacked. results: its runs; folder: where they lie until it is closed."""

    manifest: Manifest
    results: RunSet
    folder: Path


class VerifiedRecord(TypedDict):
    """What `pgstrata verify` prints as JSON. `comparisons`, `counts`: as they are in the bundle, perhaps of
    another version."""

    campaign: str
    made_by: str
    verdicts: int
    differences: list[str]
    comparisons: list[dict[str, Any]]
    counts: list[dict[str, Any]]
    report: str | None


@dataclass(frozen=True)
class Verified:
    """verdicts: of all steps together, as the bundle has them; differences: sentences on those that come out
    otherwise now."""

    bundle: Bundle
    verdicts: int
    differences: Sequence[str]


def pack(results: RunSet, root: Path, file: Path, most_bytes: int = MOST_BYTES) -> Manifest:
    """Writes the runs of a campaign and their verdicts into a file.

    root: the results folder. Raises UsageError where the bundle is larger than `most_bytes`, StoreError where
    it cannot be written.
    """
    runs = {run.folder.relative_to(root).as_posix(): run for run in (*results.every, *results.imported)}
    manifest = Manifest(
        VERSION,
        pgstrata.__version__,
        results.campaign,
        results.base,
        sorted(runs),
        *_verdicts(results),
    )
    content = io.BytesIO()
    with storing("read the runs", root), tarfile.open(fileobj=content, mode="w:xz") as archive:
        shortened = shortener(runs.values())
        _add(archive, MANIFEST, _json(shortened(msgspec.to_builtins(manifest))))
        for name, run in sorted(runs.items()):
            for path in _files(run):
                is_record = path == run.folder / RECORD
                shared = _json(shortened(msgspec.to_builtins(run.record))) if is_record else path.read_bytes()
                _add(archive, f"{name}/{path.relative_to(run.folder).as_posix()}", shared)
    data = content.getbuffer()
    if len(data) > most_bytes:
        raise UsageError(
            f"the bundle is {size(len(data))}, more than {size(most_bytes)}",
            f"--most {math.ceil(len(data) / 1e6)}MB makes it nevertheless",
        )
    if not file.parent.is_dir() or file.is_dir():
        where = file if file.is_dir() else file.parent
        wrong = "is a folder" if file.is_dir() else "is not there"
        raise UsageError(
            f"{shown(where)} {wrong}: the bundle cannot be written", "name a file: -o result.pgstrata"
        )
    with storing("write the bundle", file.parent):
        disk.replace(file, data, mode=0o600)
    return manifest


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def _files(run: Run) -> Iterator[Path]:
    """Yields the files of a run that are shared: all except the server's log, which enters no figure."""
    for path in sorted(run.folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.name not in UNREAD:
            yield path


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Adds a file; neither times nor owners of this machine are in it, so the same runs make the same
    bundle."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def _verdicts(results: RunSet) -> tuple[list[Json], list[Json]]:
    """Returns comparisons by time and by counts, as JSON can hold them."""
    counts = [record for kind in kinds() for record in kind.records(results)]
    both = [comparison.record() for comparison in results.comparisons], counts
    plain: tuple[list[Json], list[Json]] = msgspec.json.decode(msgspec.json.encode(both))
    return plain[0], plain[1]


@contextmanager
def unpacked(file: Path) -> Iterator[Bundle]:
    """Yields a bundle whose runs lie in a temporary folder, which goes at the end.

    Raises UsageError where the file is no bundle, StoreError where its runs are damaged.
    """
    if file.is_dir():
        raise UsageError(
            f"{shown(file)} is a folder, not a bundle",
            f"pgstrata bundle --results {in_command(file)} makes one of it",
        )
    data = read_bytes(file, "bundle", most=LARGEST_BYTES, missing="pgstrata bundle makes one")
    name = shown(file)
    if not data.startswith(XZ):
        raise UsageError(f"{name} is not a bundle", "pgstrata bundle makes one of a results folder")
    with TemporaryDirectory(prefix="pgstrata-bundle-") as folder:
        root = Path(folder)
        with opened(name, io.BytesIO(data), "r:xz") as archive:
            unpack(name, archive, root, MOST_UNPACKED, private=True)
        manifest = _manifest(root / MANIFEST, name)
        store = Results(root)
        store.survey()
        if store.broken:
            raise StoreError(f"{name} is damaged: {store.broken[0].reason}", "ask for it again")
        results = read_results(store, manifest.campaign, manifest.base)
        there = {run.folder.relative_to(root).as_posix() for run in (*results.every, *results.imported)}
        if there != set(manifest.runs):
            raise StoreError(
                f"{name} is damaged: it does not hold the runs that it names", "ask for it again"
            )
        yield Bundle(manifest, results, root)


@contextmanager
def results_of(file: Path) -> Iterator[Path]:
    """Yields the results folder of a bundle (`unpacked`)."""
    with unpacked(file) as bundle:
        yield bundle.folder


def _manifest(path: Path, name: str) -> Manifest:
    try:
        manifest = json_as(disk.read_regular(path, 64 << 20), Manifest)
    except (OSError, BoundError) as error:
        raise UsageError(
            f"{name} is not a bundle: {MANIFEST} cannot be read", "pgstrata bundle makes one"
        ) from error
    if manifest.version != VERSION:
        raise UsageError(
            f"{name} was made by pgstrata {shown(manifest.program)}, whose bundles are others",
            "read it with that version",
        )
    return manifest


def verify(bundle: Bundle) -> Verified:
    """Computes every verdict anew and compares it with the one in the bundle."""
    manifest = bundle.manifest
    before = [*manifest.comparisons, *manifest.counts]
    now = [record for records in _verdicts(bundle.results) for record in records]
    differences = list(_differences(before, now))
    return Verified(bundle, sum(len(record.get("steps", ())) for record in before), differences)


def _differences(before: Sequence[Json], now: Sequence[Json]) -> Iterator[str]:
    pairs = {_key(record): record for record in before}, {_key(record): record for record in now}
    for key in {**pairs[0], **pairs[1]}:
        first, two = pairs[0].get(key), pairs[1].get(key)
        if first is None or two is None:
            yield f"{key}: {'only the bundle' if two is None else 'only the runs'} have this comparison"
            continue
        steps = _by_step(first), _by_step(two)
        for step in {**steps[0], **steps[1]}:
            old, new = steps[0].get(step), steps[1].get(step)
            if not _same(old, new):
                yield f"{key}, {step}: {_said(old)} in the bundle, {_said(new)} by its runs"


def _key(comparison: Json) -> str:
    what = " by instructions" if "counted" in comparison else ""
    return f"{comparison.get('other')} against {comparison.get('base')}{what}"


def _by_step(comparison: Json) -> dict[str, Json]:
    return {
        f"{s.get('workload')} {s.get('step')} {s.get('role', '')}".strip(): s
        for s in comparison.get("steps", ())
    }


def _said(step: Json | None) -> str:
    if step is None:
        return "nothing"
    return f"{step.get('word')} {step.get('ratio')} ({step.get('low')} … {step.get('high')})"


def _same(first: Any, two: Any) -> bool:
    """Returns True if two JSON values agree, numbers within TOLERANCE, without what explains them."""
    if isinstance(first, dict) and isinstance(two, dict):
        compared = first.keys() - EXPLAINING
        return first.keys() == two.keys() and all(_same(first[key], two[key]) for key in compared)
    if isinstance(first, list) and isinstance(two, list):
        return len(first) == len(two) and all(map(_same, first, two))
    if isinstance(first, float | int) and isinstance(two, float | int):
        return math.isclose(first, two, rel_tol=TOLERANCE, abs_tol=1e-300)
    return bool(first == two)


__all__ = ["MOST_BYTES", "Bundle", "Manifest", "Verified", "pack", "results_of", "unpacked", "verify"]

"""Imported figures as runs of a results folder: one run for each variant, workload and repeat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pgstrata
from pgstrata.imports.recognize import Imported
from pgstrata.store import Results, RunKey
from pgstrata.store.imported import IMPORTED, ImportedFile, ImportedStep, ImportRecord
from pgstrata.store.record import Circumstances, ConfigRecord, Cpus, Host, ServerRecord, Sizes


@dataclass
class NewRun:
    """A run that will be stored. Steps that a file has again go to another repeat."""

    variant: str
    workload: str
    tool: str
    format: str
    order: int
    files: dict[str, ImportedFile] = field(default_factory=dict)
    steps: dict[tuple[str, int | None], ImportedStep] = field(default_factory=dict)

    def record(self) -> ImportRecord:
        return ImportRecord(
            format=self.format,
            tool=self.tool,
            files=tuple(self.files.values()),
            steps=tuple(self.steps.values()),
        )


def runs_of(imported: Sequence[Imported]) -> list[NewRun]:
    """Returns the runs that figures make, variants in the order in which they come."""
    runs: list[NewRun] = []
    order: dict[str, int] = {}
    for source in imported:
        for entry in source.entries:
            order.setdefault(entry.variant, len(order))
            identity = entry.variant, entry.workload, entry.tool, source.format
            candidates = (r for r in runs if (r.variant, r.workload, r.tool, r.format) == identity)
            run = next((r for r in candidates if entry.step.key not in r.steps), None)
            if run is None:
                run = NewRun(*identity, order[entry.variant])
                runs.append(run)
            run.steps[entry.step.key] = entry.step
            run.files |= {file.sha256: file for file in source.files}
    return runs


@dataclass(frozen=True)
class Stored:
    """A run of the folder. `again`: the same files were imported into it before, so nothing was written."""

    key: RunKey
    run: NewRun
    again: bool


def store_all(results: Results, campaign: str, runs: Sequence[NewRun]) -> Iterator[Stored]:
    """Stores the runs, and yields each when it is durable. Raises StoreError."""
    with results.lock():
        results.clean()
        taken, before = _there(results, campaign)
        for run in runs:
            place = run.variant, run.workload
            digest = *place, frozenset(run.files), frozenset(run.steps)
            if digest in before:
                yield Stored(RunKey(campaign, *place, before[digest]), run, True)
                continue
            taken[place] = taken.get(place, 0) + 1
            key = RunKey(campaign, *place, taken[place])
            builder = results.begin(key)
            try:
                builder.finish(_circumstances(run))
            except BaseException:
                builder.abandon()
                raise
            yield Stored(key, run, False)


_Digest = tuple[str, str, frozenset[str], frozenset[tuple[str, int | None]]]


def _there(results: Results, campaign: str) -> tuple[dict[tuple[str, str], int], dict[_Digest, int]]:
    """Returns the last repeat of each variant and workload, and which imports are there."""
    entries = [entry for entry in results.survey().entries if entry.campaign == campaign]
    taken: dict[tuple[str, str], int] = {}
    for entry in entries:
        place = entry.variant, entry.workload
        taken[place] = max(taken.get(place, 0), entry.repeat)
    before: dict[_Digest, int] = {}
    for run in results.read([entry for entry in entries if entry.status == IMPORTED]):
        record = run.record.imported
        assert record is not None
        files = frozenset(file.sha256 for file in record.files)
        before[run.variant, run.workload, files, frozenset(step.key for step in record.steps)] = run.repeat
    return taken, before


def _circumstances(run: NewRun) -> Circumstances:
    """Returns the circumstances of an imported run: nothing is known of the server but its name, and nothing
    of the machine."""
    return Circumstances(
        status="imported",
        error=None,
        pgstrata_version=pgstrata.__version__,
        driver_version="",
        server=ServerRecord(
            spec="imported", label=run.variant, version="", version_num=0, build="", managed=False
        ),
        config=ConfigRecord(name="", fragments=(), settings={}, dropped=(), mapped=()),
        env={},
        initdb=(),
        memory=None,
        cpus=Cpus(),
        workload_name=run.workload,
        options={},
        seed=0,
        order="sequential",
        variant_order=run.order,
        base=None,
        host=Host(),
        timings={},
        sizes=Sizes(),
        facts={},
        imported=run.record(),
    )


__all__ = ["NewRun", "Stored", "runs_of", "store_all"]

"""Which format a file has: the list of them, and reading files by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from pgstrata.errors import UsageError
from pgstrata.files import digests
from pgstrata.files.user_files import read_bytes, shown
from pgstrata.imports import hammerdb, pgbench, pgbench_log, sysbench, tables
from pgstrata.imports.model import MOST_STEPS, Format, FormatError, Found, Lines
from pgstrata.store.imported import ImportedFile

MOST_BYTES = 256 << 20
"""Of a file."""

MOST_ALL_BYTES = 512 << 20
"""Of all files of a command."""

MOST_NAME = 200
"""Characters of the name of a variant or a step."""

MOST_LINE = 100_000
"""Characters of a line."""

LOG = Format("pgbench's log (-l)", pgbench_log.fits, pgbench_log.read)

FORMATS = (
    Format("qps table of mytools", tables.fits_columns, tables.read_columns),
    Format("o.met table of mytools", tables.fits_met, tables.read_met),
    Format("mrg table of the Insert Benchmark", tables.fits_mrg, tables.read_mrg),
    Format("sysbench's output", sysbench.fits, sysbench.read),
    Format("pgbench's output", pgbench.fits, pgbench.read),
    LOG,
    Format("HammerDB's output", hammerdb.fits, hammerdb.read),
)


@dataclass(frozen=True)
class Imported:
    """What one file, or the logs of the threads of one pgbench, have."""

    files: tuple[ImportedFile, ...]
    format: str
    entries: tuple[Found, ...]


def read_files(paths: Sequence[Path]) -> list[Imported]:
    """Reads result files; the logs of one pgbench are taken together.

    Raises UsageError for the first that cannot be read, has another format or is damaged: then nothing of any
    file is imported.
    """
    read: list[tuple[Lines, Format, ImportedFile]] = []
    total = 0
    for path in paths:
        data = read_bytes(path, "result file", most=MOST_BYTES)
        total += len(data)
        if total > MOST_ALL_BYTES:
            raise UsageError("these files have more than 512 MB together", "import some of them at a time")
        file = lines_of(path.name, data)
        at = ImportedFile(name=path.name, sha256=digests.of(data), bytes=len(data))
        read.append((file, _format(file), at))
    logs = [pair for pair in read if pair[1] is LOG]
    imported = [
        Imported((at,), kind.name, _read(file.name, kind, [file]))
        for file, kind, at in read
        if kind is not LOG
    ]
    try:
        runs = pgbench_log.of_one_run([str(file.name) for file, _, _ in logs])
    except FormatError as error:
        raise UsageError(error.at(logs[0][0].name), "name the logs of all threads") from None
    for places in runs.values():
        files = [logs[place][0] for place in places]
        imported.append(
            Imported(tuple(logs[place][2] for place in places), LOG.name, _read(files[0].name, LOG, files))
        )
    if sum(len(entry.entries) for entry in imported) > MOST_STEPS:
        raise UsageError(
            f"these files have more than {MOST_STEPS:,} figures", "import some of them at a time"
        )
    return imported


def lines_of(name: str, data: bytes) -> Lines:
    """Returns the lines of a file. Raises UsageError for what is no text, and for an empty file."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{shown(name)}, line {line}: not UTF-8 text", _known()) from None
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    for place, text_line in enumerate(lines, 1):
        if len(text_line) > MOST_LINE or "\0" in text_line:
            raise UsageError(f"{shown(name)}, line {place}: not a line of a result file", _known())
    if not text.strip():
        raise UsageError(f"{shown(name)} is empty", _known())
    return Lines(name, lines, text.endswith("\n"))


def _format(file: Lines) -> Format:
    for file_format in FORMATS:
        if file_format.fits(file):
            return file_format
    if "," in file.lines[0] and file.name.startswith("qps."):
        raise UsageError(f"{shown(file.name)} names no variants", "import the .tsv beside it, which does")
    raise UsageError(f"{shown(file.name)} has none of the formats that are known", _known())


def _known() -> str:
    return f"known are: {', '.join(file_format.name for file_format in FORMATS)}"


def _read(name: str, kind: Format, files: Sequence[Lines]) -> tuple[Found, ...]:
    try:
        return tuple(pgbench_log.read_threads(files) if kind is LOG else kind.read(files[0]))
    except FormatError as error:
        raise UsageError(error.at(name), f"it was taken for {kind.name}; nothing was imported") from None


def named(imported: Sequence[Imported], variant: str, step: str, workload: str) -> list[Imported]:
    """Returns the figures under the names that a user gives. Raises UsageError where a file names no variant
    and the user none either, and where one name would stand for several."""
    renamed = []
    for source in imported:
        variants = {entry.variant for entry in source.entries}
        name = source.files[0].name
        if variant and len(variants) > 1:
            raise UsageError(f"{shown(name)} names {len(variants)} variants itself", "leave --variant away")
        if not variant and "" in variants:
            raise UsageError(
                f"{shown(name)} does not say which server it is of", "name it: --variant pg17.6, for example"
            )
        if step and len(source.entries) > len(variants):
            raise UsageError(f"{shown(name)} has several steps", "leave --step away")
        for text in {entry.variant for entry in source.entries} | {
            entry.step.name for entry in source.entries
        }:
            if not text.isprintable() or len(text) > MOST_NAME:
                raise UsageError(
                    f"{shown(name)} has a name that cannot be shown: {shown(text, 40)}",
                    f"names have up to {MOST_NAME} printable characters",
                )
        entries = tuple(
            replace(
                each,
                variant=variant or each.variant,
                workload=workload or each.workload,
                step=structs.replace(each.step, name=step or each.step.name),
            )
            for each in source.entries
        )
        renamed.append(replace(source, entries=entries))
    return renamed


__all__ = ["FORMATS", "Imported", "lines_of", "named", "read_files"]

"""Extensions with a Makefile for PGXS, built against a server that is about to be published."""

from __future__ import annotations

import shutil
from pathlib import Path

from pgstrata.errors import BuildError
from pgstrata.files import digests
from pgstrata.source.job import Job
from pgstrata.store.record import ExtensionRecord

_PRODUCTS = {".o", ".so", ".bc", ".a"}


def _files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and path.suffix not in _PRODUCTS
        and ".git" not in path.relative_to(folder).parts
    )


def tree_hash(folder: Path) -> str:
    """Stands for an extension's sources."""
    return digests.of_parts(
        f"{path.relative_to(folder)}\0{digests.of_file(path)}\0".encode(errors="surrogateescape")
        for path in _files(folder)
    )


def copy_extensions(job: Job) -> None:
    """Copies the sources of a build's extensions into its folder, before anything of the build runs."""
    for folder in job.build.extensions:
        copy = job.folder / "extensions" / folder.name
        for path in _files(folder):
            (copy / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy / path.relative_to(folder))


def add_extensions(job: Job) -> tuple[ExtensionRecord, ...]:
    """Builds and installs the extensions beside the server in `job.stage`.

    Returns for each its folder, the names that CREATE EXTENSION takes, and its hash.
    Raises BuildError for one that does not build.
    """
    records = []
    for folder in job.build.extensions:
        job.enter("extensions")
        copy = job.folder / "extensions" / folder.name
        config = f"PG_CONFIG={job.installed}/bin/pg_config"
        for target in ("all", "install"):
            command = ["make", f"-j{job.jobs}", "USE_PGXS=1", "with_llvm=no", config, target]
            job.shell.run(command, copy, f"make {target} of the extension {folder.name}")
        names = sorted(path.stem for path in copy.glob("*.control"))
        if not names:
            raise BuildError(
                f"the extension {folder} has no .control file, so nobody knows what it is called",
                "CREATE EXTENSION needs one",
            )
        records.append(ExtensionRecord(folder=str(folder), names=tuple(names), sha256=tree_hash(folder)))
    return tuple(records)


__all__ = ["add_extensions", "copy_extensions", "tree_hash"]

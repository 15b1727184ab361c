"""Building with the tree's own configure and make."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from pgstrata.errors import BuildError, UsageError
from pgstrata.files import digests
from pgstrata.files.disk import write_into
from pgstrata.files.ownership import read_small
from pgstrata.source.job import Job
from pgstrata.source.tools import need
from pgstrata.suggest import nearest

LEAST = ("readline", "zlib", "icu")
"""Libraries that configure wants unless told otherwise and a server does without."""

PARTS = (
    "src/port",
    "src/common",
    "src/timezone",
    "src/backend",
    "src/backend/utils/mb/conversion_procs",
    "src/backend/snowball",
    "src/include",
    "src/interfaces/libpq",
    "src/fe_utils",
    "src/bin/pg_id",
    "src/bin/pg_encoding",
    "src/bin/initdb",
    "src/bin/pg_ctl",
    "src/bin/pg_config",
    "src/bin/pg_controldata",
    "src/pl/plpgsql",
)
"""What measuring needs, in the order of make; those that a version has."""

FOR_EXTENSIONS = ("src/makefiles", "config")
"""What PGXS needs besides."""

MEASURED = ("pgstattuple", "pg_buffercache")
"""Modules of contrib that observations use; built where the tree has them."""


def build(job: Job) -> None:
    """Configures, compiles and installs below `job.stage`. Raises BuildError, UsageError for options."""
    need("make", "ar")
    _need_generators(job.source)
    options = _options(job)
    job.enter("configure")
    with _ConfigCache(job, options) as cache:
        job.hand_over()
        command = ["sh", "./configure", *options, *cache.option]
        job.shell.run(command, job.source, "configure")
    job.expected = job.expected or _sources(job.source)
    job.enter("compile")
    parts = [part for part in PARTS if (job.source / part / "Makefile").is_file()]
    modules = contrib(job)
    if _has_target(job.source / "src/backend/Makefile", "generated-headers"):
        _make(job, "src/backend", "generated-headers")
        # Else make looks for what they are made of once more in each part, to compile it and to install it.
        job.shell.env["NO_GENERATED_HEADERS"] = "yes"
    for part in [*parts, *modules]:
        _make(job, part, "all")
    job.enter("install")
    # The first part of 8.0 that installs a library takes the folder for granted, and made a file of its name.
    job.shell.run(["mkdir", "-p", str(job.installed / "lib")], job.source, "mkdir lib")
    if job.build.extensions or (job.source / "src/makefiles").is_dir():
        parts += [part for part in FOR_EXTENSIONS if (job.source / part / "Makefile").is_file()]
    for part in [*parts, *modules]:
        _make(job, part, "install", jobs=1)
    if _has_target(job.source / "src/Makefile", "install-local"):
        _make(job, "src", "install-local", jobs=1)


def contrib(job: Job) -> list[str]:
    """Returns the folders of the modules to build. Raises UsageError for one that the tree does not have."""
    folder = job.source / "contrib"
    there = sorted(p.name for p in folder.iterdir() if (p / "Makefile").is_file()) if folder.is_dir() else []
    for name in job.build.contrib:
        if name not in there:
            near = nearest(name, there)
            raise UsageError(
                f"contrib: PostgreSQL {job.tree.version} has no module {name}",
                f"did you mean {near}?" if near else f"there are {', '.join(there)}",
            )
    wanted = [*job.build.contrib, *(name for name in MEASURED if name in there)]
    return [f"contrib/{name}" for name in dict.fromkeys(wanted)]


def _make(job: Job, part: str, target: str, jobs: int | None = None) -> None:
    # The run path is a matter of linking only, so it may differ from build to build.
    where = [f"rpathdir={job.final}/lib"]
    if target.startswith("install"):
        where.append(f"DESTDIR={job.stage}")
    command = ["make", f"-j{jobs or job.jobs}", "-C", part, *where, target]
    job.shell.run(command, job.source, f"make {target} in {part}")


def _has_target(makefile: Path, target: str) -> bool:
    try:
        return re.search(rf"^{target}\s*:", makefile.read_text(errors="replace"), re.MULTILINE) is not None
    except OSError:
        return False


def _need_generators(tree: Path) -> None:
    """Raises BuildError where bison, flex or perl would be needed and is not there.

    Archives of releases held the generated files until 16, git never does.
    """
    parser = tree / "src/backend/parser"
    scanners = ("scan.c", "pgc.c", "lex.yy.c")
    if not any((parser / name).is_file() for name in scanners):
        need("flex", why="this tree")
    if not (parser / "gram.c").is_file():
        need("bison", why="this tree")
    if (tree / "src/backend/catalog/genbki.pl").is_file():
        need("perl", why="this tree")


def _options(job: Job) -> list[str]:
    text = (job.source / "configure").read_text(errors="replace")
    options = [f"--prefix={job.prefix}"]
    options += [f"--without-{name}" for name in LEAST if re.search(rf"--with(out)?-{name}\b", text)]
    _check(job.build.configure, text)
    options += job.build.configure
    options += [f"CC={job.compiler.text}", f"CFLAGS={job.flags_text}"]
    return options


_OPTION = re.compile(r"--(?:en|dis)able-([\w-]+)|--with(?:out)?-([\w-]+)")
_EVERY = ("prefix", "exec-prefix", "srcdir", "cache-file", "build", "host", "target")


def _check(options: Sequence[str], text: str) -> None:
    """Raises UsageError for options that this configure does not have; it would only warn of them."""
    known = {f"{m[1] or ''}/{m[2] or ''}" for m in _OPTION.finditer(text)}
    names = sorted({m[0] for m in _OPTION.finditer(text)})
    for option in options:
        name = option.partition("=")[0]
        if re.fullmatch(r"[A-Z_]+", name) and "=" in option:
            if name in ("CC", "CFLAGS"):
                raise UsageError(f"configure: {option} is set by pgstrata", f'write {name.lower()} = "…"')
            continue
        match = _OPTION.fullmatch(name)
        if match and f"{match[1] or ''}/{match[2] or ''}" in known:
            continue
        if name.startswith("--") and name[2:] in _EVERY:
            raise UsageError(f"configure: {name} is set by pgstrata", "leave it out")
        if re.search(rf"{re.escape(name)}\b", text) and name.startswith("--with-"):
            continue
        near = nearest(name, names)
        raise UsageError(
            f"configure has no option {name} in this version",
            f"did you mean {near}?" if near else "./configure --help lists them",
        )


def _sources(tree: Path) -> int:
    """Returns about how many source files are compiled: the server's, and those of libraries once for each
    use."""
    count = 0
    for part, times in (("src/backend", 1), ("src/port", 2), ("src/common", 2), ("src/timezone", 1)):
        for _, folders, names in os.walk(tree / part):
            folders[:] = [name for name in folders if name not in ("win32", "llvm", "test", "unittest")]
            count += times * sum(name.endswith(".c") for name in names)
    return count


class _ConfigCache:
    """What configure found out, kept for the next tree with the same configure, compiler and options."""

    def __init__(self, job: Job, options: Sequence[str]) -> None:
        tools = [f"{tool}={shutil.which(tool)}" for tool in ("bison", "flex", "perl", "python3", "ld")]
        parts = [
            *options,
            job.compiler.version,
            *tools,
            digests.of(_read(job.source / "configure")),
        ]
        name = digests.of("\0".join(parts))[:24]
        self._kept = job.cache / "configure" / f"{name}.cache"
        self._own = job.folder / "config.cache"
        # configure writes its options into a header. A name that differs from build to build would make
        # that header, and what includes it, new to the compiler's cache.
        cache_file = os.path.relpath(self._own, job.source)
        self.option = [f"--cache-file={cache_file}"] if job.relocatable else []

    def __enter__(self) -> _ConfigCache:
        if self._kept.is_file():
            shutil.copyfile(self._kept, self._own)
        return self

    def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        if kind is not None:
            # What it remembered may be why it failed.
            self._kept.unlink(missing_ok=True)
        elif self._own.is_file() and not self._kept.is_file():
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # a link, of a tree that means no good
                write_into(self._kept.parent, self._kept.name, read_small(self._own), mode=0o644)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BuildError(f"the tree has no {path.name}: {error.strerror}") from error


__all__ = ["MEASURED", "build", "contrib"]

"""Extensions for a server that is built from its source: one of five lines, and pgvector."""

from __future__ import annotations

import contextlib
import shutil
import tarfile
from pathlib import Path

from pgstrata.server.find.cache import cache_dir
from pgstrata.server.find.recipe import Build
from support.sources import debian_source

QUICK = "-O0"
"""Flags of a server on which nothing is timed: the compiler takes four times as long for the usual -O2."""

_HELLO = {
    "Makefile": "MODULES = hello\nEXTENSION = hello\nDATA = hello--1.0.sql\nPG_CONFIG = pg_config\n"
    "PGXS := $(shell $(PG_CONFIG) --pgxs)\ninclude $(PGXS)\n",
    "hello.control": "default_version = '1.0'\nmodule_pathname = '$libdir/hello'\n",
    "hello--1.0.sql": "CREATE FUNCTION hello() RETURNS int LANGUAGE C AS 'MODULE_PATHNAME';\n",
    "hello.c": '#include "postgres.h"\n#include "fmgr.h"\nPG_MODULE_MAGIC;\nPG_FUNCTION_INFO_V1(hello);\n'
    "Datum hello(PG_FUNCTION_ARGS) { PG_RETURN_INT32(42); }\n",
}


def quick_build(*extensions: Path) -> Build:
    """With a module and these extensions."""
    return Build("quick", cflags=QUICK, contrib=("pg_prewarm",), extensions=extensions)


def write_hello(folder: Path) -> Path:
    """An extension of five lines in a new folder."""
    folder.mkdir()
    for name, text in _HELLO.items():
        (folder / name).write_text(text)
    return folder


def pgvector_source() -> Path:
    """The source of pgvector, in the cache."""
    archive = debian_source("pgvector", "trixie")
    folder = cache_dir() / "archives" / "pgvector"
    if not (folder / "Makefile").is_file():
        unpacked = folder.with_name(f".pgvector-{archive.stat().st_mtime_ns}")
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        (inner,) = unpacked.iterdir()
        with contextlib.suppress(OSError):  # another worker was quicker
            inner.rename(folder)
        shutil.rmtree(unpacked)
    return folder

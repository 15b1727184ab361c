"""The compiler and the programs a build needs, and which package has them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from pathlib import Path

from pgstrata.errors import BuildError
from pgstrata.files import digests
from pgstrata.server.system.compiler import missing_program

_PACKAGES = {
    "make": "make",
    "bison": "bison",
    "flex": "flex",
    "perl": "perl",
    "patch": "patch",
    "git": "git",
    "meson": "meson",
    "ninja": "ninja-build",
    "ar": "binutils",
}
"""Debian's package for each program."""

_CPU_FLAGS = re.compile(r"-m(arch|cpu|tune)=native")


def need(*programs: str, why: str = "") -> None:
    """Raises BuildError for programs that are not there, with Debian's packages for them."""
    for program in programs:
        if not shutil.which(program):
            raise _missing(program, f"no {program}", why)


def _missing(program: str, what: str, why: str = "") -> BuildError:
    return missing_program(what, _PACKAGES[program], why)


def _of_source(program: str) -> BuildError:
    """Returns the error for a program that the extra `source` brings."""
    return BuildError(
        f"there is no {program} on this machine, with which this build is made",
        f"pip install 'pgstrata[source]', or apt-get install {_PACKAGES[program]}",
        lasting=False,
    )


def meson_command() -> list[str]:
    """Returns the command of meson: the one beside this Python, else the system's. Raises BuildError if there
    is none."""
    if (beside := Path(sys.executable).parent / "meson").is_file():
        return [str(beside)]
    if program := shutil.which("meson"):
        return [program]
    raise _of_source("meson")


def ninja_command() -> str:
    """Returns the command of ninja: the one beside this Python, else the system's. Raises BuildError if there
    is none."""
    if (beside := Path(sys.executable).parent / "ninja").is_file():
        return str(beside)
    if program := shutil.which("ninja") or shutil.which("ninja-build"):
        return program
    raise _of_source("ninja")


def ccache_command() -> str | None:
    """Returns the path of ccache; None if it is not installed or `PGSTRATA_CCACHE` is 0."""
    return None if os.environ.get("PGSTRATA_CCACHE") == "0" else shutil.which("ccache")


def machine_for(cflags: str) -> str:
    """Returns a digest of this machine's CPU, on which flags such as -march=native depend; empty for flags
    that do not."""
    if not _CPU_FLAGS.search(cflags):
        return ""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    lines = [line for line in text.splitlines() if line.startswith(("model name", "flags", "Features"))]
    return digests.of("\n".join(sorted(set(lines))))[:16]


def jobs() -> int:
    """Returns the number of compilers to run at once: the CPUs this process may use, or `PGSTRATA_JOBS`."""
    named = os.environ.get("PGSTRATA_JOBS", "")
    return int(named) if re.fullmatch(r"[1-9]\d{0,3}", named) else len(os.sched_getaffinity(0))


__all__ = [
    "ccache_command",
    "jobs",
    "machine_for",
    "meson_command",
    "need",
    "ninja_command",
]

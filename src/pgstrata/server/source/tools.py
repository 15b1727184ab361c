"""The compiler and the programs a build needs, and which package has them."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pgstrata.errors import UsageError
from pgstrata.server.source.failure import BuildError
from pgstrata.server.system.isolation import probe

_PACKAGES = {
    "cc": "gcc libc6-dev",
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


@dataclass(frozen=True)
class Compiler:
    """A compiler as it answered: the command's words, `gcc` or `clang`, its major version, and the first
    line of --version with the machine it compiles for."""

    command: tuple[str, ...]
    family: str
    major: int
    version: str

    @property
    def text(self) -> str:
        return shlex.join(self.command)


def find_compiler(cc: str) -> Compiler:
    """The compiler called `cc`, or the first of cc, gcc and clang. Raises UsageError for one that is not
    there, BuildError where there is none at all."""
    if not cc:
        found = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
        if found is None:
            raise _missing("cc", "no C compiler")
        return _asked((found,))
    words = tuple(shlex.split(cc))
    if not words or not shutil.which(words[0]):
        raise UsageError(f"cc = {cc!r}: there is no program {words[0] if words else cc}", _how_to_get(cc))
    return _asked(words)


def _how_to_get(cc: str) -> str:
    name = Path(cc.split()[0]).name if cc.split() else "gcc"
    return f"apt-get install {name}, or leave cc out" if re.fullmatch(r"(gcc|clang)(-\d+)?", name) else ""


@cache
def _asked(words: tuple[str, ...]) -> Compiler:
    try:
        said = probe([*words, "--version"]).stdout.strip()
        target = probe([*words, "-dumpmachine"]).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"cc = {shlex.join(words)!r} does not run: {error}") from error
    first = said.splitlines()[0] if said else ""
    number = re.search(r"(\d+)\.\d+", first.rpartition(")")[2] or first) or re.search(r"(\d+)\.\d+", first)
    if number is None or not target:
        raise UsageError(f"cc = {shlex.join(words)!r} is no C compiler: it says {first[:80]!r} to --version")
    family = "clang" if "clang" in first else "gcc"
    return Compiler(words, family, int(number[1]), f"{first}, {target}")


def need(*programs: str, why: str = "") -> None:
    """Raises BuildError for programs that are not there, with Debian's packages for them."""
    for program in programs:
        if not shutil.which(program):
            raise _missing(program, f"no {program}", why)


def _missing(program: str, what: str, why: str = "") -> BuildError:
    return BuildError(
        f"there is {what} on this machine{f', which {why} needs' if why else ''}",
        f"apt-get install {_PACKAGES[program]}",
        lasting=False,
    )


def meson_command() -> list[str]:
    """Meson: the one beside this Python, else the system's. Raises BuildError where there is none."""
    if (beside := Path(sys.executable).parent / "meson").is_file():
        return [str(beside)]
    if found := shutil.which("meson"):
        return [found]
    raise _missing("meson", "no meson")


def ninja_command() -> str:
    """Ninja, likewise."""
    if (beside := Path(sys.executable).parent / "ninja").is_file():
        return str(beside)
    if found := shutil.which("ninja") or shutil.which("ninja-build"):
        return found
    raise _missing("ninja", "no ninja")


def ccache_command() -> str | None:
    """ccache, unless it is not there or `PGSTRATA_CCACHE` is 0."""
    return None if os.environ.get("PGSTRATA_CCACHE") == "0" else shutil.which("ccache")


def machine_for(cflags: str) -> str:
    """What flags such as -march=native depend on: this machine's CPU; empty where they do not."""
    if not _CPU_FLAGS.search(cflags):
        return ""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    lines = [line for line in text.splitlines() if line.startswith(("model name", "flags", "Features"))]
    return hashlib.sha256("\n".join(sorted(set(lines))).encode()).hexdigest()[:16]


def jobs() -> int:
    """How many compilers at once: the CPUs this process may use, or `PGSTRATA_JOBS`."""
    named = os.environ.get("PGSTRATA_JOBS", "")
    return int(named) if re.fullmatch(r"[1-9]\d{0,3}", named) else len(os.sched_getaffinity(0))


__all__ = [
    "Compiler",
    "ccache_command",
    "find_compiler",
    "jobs",
    "machine_for",
    "meson_command",
    "need",
    "ninja_command",
]

"""The C compiler of this machine."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pgstrata.errors import BuildError, UsageError
from pgstrata.server.system.isolation import probe


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
    """Returns the compiler called `cc`, or the first of cc, gcc and clang. Raises UsageError for a compiler
    that does not exist, BuildError if there is none at all."""
    if not cc:
        compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
        if compiler is None:
            raise missing_program("no C compiler", "gcc libc6-dev")
        return _asked((compiler,))
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
        version_text = probe([*words, "--version"]).stdout.strip()
        target = probe([*words, "-dumpmachine"]).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"cc = {shlex.join(words)!r} does not run: {error}") from error
    first = version_text.splitlines()[0] if version_text else ""
    number = re.search(r"(\d+)\.\d+", first.rpartition(")")[2] or first) or re.search(r"(\d+)\.\d+", first)
    if number is None or not target:
        raise UsageError(f"cc = {shlex.join(words)!r} is no C compiler: it says {first[:80]!r} to --version")
    family = "clang" if "clang" in first else "gcc"
    return Compiler(words, family, int(number[1]), f"{first}, {target}")


def missing_program(what: str, package: str, why: str = "") -> BuildError:
    """Returns the error for a program that is not there, with Debian's package of it."""
    return BuildError(
        f"there is {what} on this machine{f', which {why} needs' if why else ''}",
        f"apt-get install {package}",
        lasting=False,
    )


__all__ = ["Compiler", "find_compiler", "missing_program"]

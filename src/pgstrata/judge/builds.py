"""How servers were built, as `pg_config --configure` tells it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

# What decides how the compiler turns the server's code into machine code, and checks that cost time.
_CODE = re.compile(r"-O\S*|-fPIC|-m(arch|tune|cpu)=\S+|-flto\S*|-fprofile-use\S*|-fno-omit-frame-pointer")
_CHECKS = {"--enable-cassert", "-Dcassert=true", "--enable-profiling", "--enable-coverage"}
# By which meson compiles the server with -fPIC.
_PIC = "-Db_staticpic=true"
_FLAGS = ("CFLAGS=", "CXXFLAGS=", "COPT=", "LDFLAGS=", "CC=")


def arguments(build: str) -> list[str]:
    """Returns the arguments of configure, unquoted; text that is not quoted well is split at blanks."""
    try:
        return shlex.split(build)
    except ValueError:
        return build.split()


def code_flags(build: str) -> frozenset[str]:
    """Returns those arguments of configure that change how fast the same source runs."""
    code: set[str] = set()
    for word in arguments(build):
        if word in _CHECKS:
            code.add(word)
        elif word == _PIC:
            code.add("-fPIC")
        elif word.startswith(_FLAGS):
            name, _, value = word.partition("=")
            flags = [value] if name == "CC" else [flag for flag in value.split() if _CODE.fullmatch(flag)]
            code.update(flags)
    return frozenset(code)


def unlike(builds: Mapping[str, str], base: str) -> list[str]:
    """Returns a sentence for each set of variants whose code was compiled unlike that of the base.

    Variants without a known build (foreign servers, packages that do not tell) are left out.
    """
    if not builds.get(base):
        return []
    base_flags = code_flags(builds[base])
    by_flags: dict[frozenset[str], list[str]] = {}
    for variant, build in builds.items():
        if build and (flags := code_flags(build)) != base_flags:
            by_flags.setdefault(flags, []).append(variant)
    return [
        f"{', '.join(variants)}: compiled with {_named(flags - base_flags)} where {base} has "
        f"{_named(base_flags - flags)}; a difference between them is also one between builds."
        for flags, variants in by_flags.items()
    ]


def _named(flags: frozenset[str]) -> str:
    return " ".join(sorted(flags)) or "the compiler's defaults"

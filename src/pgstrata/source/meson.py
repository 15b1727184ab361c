"""Building with meson and ninja, where the tree has them (16 and later)."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from pgstrata.errors import BuildError, UsageError
from pgstrata.server.find.recipe import Build
from pgstrata.server.system.account import blocked_at, server_account
from pgstrata.source.autoconf import contrib
from pgstrata.source.job import Job
from pgstrata.source.tools import meson_command, need, ninja_command
from pgstrata.suggest import nearest

STATIC_PIC = "-Db_staticpic"

# What is left out of the copy: each only adds targets and tests of its own.
_TRIM = {
    "src/bin/meson.build": ("initdb", "pg_config", "pg_controldata", "pg_ctl"),
    "src/interfaces/ecpg/meson.build": (),
    "src/test/meson.build": ("regress", "isolation"),
    "src/pl/meson.build": ("plpgsql",),
}
_LEFT_OUT = ("src/interfaces/ecpg/test", "src/interfaces/libpq/test")
# An alias of nothing is an error.
_ALIASES = re.compile(r"^alias_target\('ecpg'.*\n", re.MULTILINE)
_SUBDIR = re.compile(r"^\s*subdir\('([^']+)'.*\)\s*$", re.MULTILINE)


def build(job: Job) -> None:
    """Configures, compiles and installs below `job.stage`. Raises BuildError, UsageError for options."""
    need("bison", "flex", "perl", why="meson's build")
    meson, ninja = _programs(job)
    job.shell.env["NINJA"] = ninja
    job.shell.env["CC"] = job.compiler.text
    _check(job.build.meson, job.source / "meson_options.txt")
    _trim(job)
    job.hand_over()
    job.enter("configure")
    options = [
        f"--prefix={job.prefix}",
        "--libdir=lib",
        "--buildtype=plain",
        "-Dauto_features=disabled",
        "-Drpath=false",
        f"-Dc_args={job.flags_text}",
        f"-Dc_link_args=-Wl,-rpath,{job.final}/lib",
        *options_of(job.build),
    ]
    ninja_folder = job.folder / "ninja"
    job.shell.run([*meson, "setup", *options, str(ninja_folder), str(job.source)], job.folder, "meson setup")
    job.enter("compile")
    job.shell.run([ninja, f"-j{job.jobs}"], ninja_folder, "ninja")
    job.enter("install")
    job.shell.env["DESTDIR"] = str(job.stage)
    job.shell.run([*meson, "install", "--no-rebuild", "--quiet"], ninja_folder, "meson install")
    del job.shell.env["DESTDIR"]


def _programs(job: Job) -> tuple[list[str], str]:
    """Returns meson and ninja in a place where the account that builds can run them: copied if they lie in a
    closed home."""
    meson, ninja = meson_command(), ninja_command()
    account = server_account()
    if blocked_at(Path(ninja).resolve().parent, account):
        ninja = shutil.copy(ninja, str(job.folder / "ninja-program"))
    if not (blocked_at(Path(meson[0]).parent, account) or blocked_at(_python_of(meson[0]).parent, account)):
        return meson, str(ninja)
    python = shutil.which("python3", path="/usr/bin:/bin")
    package = importlib.util.find_spec("mesonbuild")
    if python is None or package is None or not package.submodule_search_locations:
        raise BuildError(
            f"{meson[0]} cannot be run by the account {account.name if account else ''}, which builds",
            "apt-get install meson ninja-build",
            lasting=False,
        )
    shutil.copytree(package.submodule_search_locations[0], str(job.folder / "meson/mesonbuild"))
    script = job.folder / "meson/meson.py"
    script.write_text("import sys\nfrom mesonbuild.mesonmain import main\nsys.exit(main())\n")
    return [python, str(script)], str(ninja)


def _python_of(script: str) -> Path:
    """Returns the interpreter in the first line of a script, its links resolved; the script itself if that
    line names none."""
    with Path(script).open("rb") as file:
        line = file.readline(1000)
    words = line[2:].split() if line.startswith(b"#!") else []
    return Path(os.fsdecode(words[0]) if words else script).resolve()


def options_of(recipe: Build) -> tuple[str, ...]:
    """Returns the options that decide about the code: those of the build, and the default that meson needs.

    Meson makes of the server a library first, and compiles what is in libraries with -fPIC, which
    autoconf's makefiles do not: two builds that differ in nothing else still differ in that.
    """
    if any(option.startswith(f"{STATIC_PIC}=") for option in recipe.meson):
        return recipe.meson
    return (f"{STATIC_PIC}=true", *recipe.meson)


def _trim(job: Job) -> None:
    """Leaves out of the copy what measuring does not need."""
    # The regression tests' own build asks for flags that spi names.
    modules = [*(folder.rpartition("/")[2] for folder in contrib(job)), "spi"]
    for file, kept in {**_TRIM, "contrib/meson.build": tuple(modules)}.items():
        _keep(job.source / file, kept)
    top = job.source / "meson.build"
    text = top.read_text()
    for folder in _LEFT_OUT:
        text = text.replace(f"subdir('{folder}')\n", "")
    top.write_text(text)


def _keep(file: Path, kept: Sequence[str]) -> None:
    if file.is_file():
        text = file.read_text()
        text = _SUBDIR.sub(lambda m: m[0] if m[1] in kept else "", text)
        file.write_text(_ALIASES.sub("", text))


def _check(options: Sequence[str], file: Path) -> None:
    """Raises UsageError for options that neither the tree nor meson has."""
    known = re.findall(r"option\('(\w+)'", file.read_text(errors="replace"))
    for option in options:
        match = re.fullmatch(r"-D(\w+)=.*", option)
        if not match:
            raise UsageError(f"meson: {option!r} is not of the form -Dname=value")
        if match[1] in ("prefix", "c_args", "buildtype"):
            raise UsageError(f"meson: -D{match[1]} is set by pgstrata", 'flags are written cflags = "…"')
        if match[1] not in known and not re.match(r"b_|c_link|auto_features|default_library", match[1]):
            near = nearest(match[1], known)
            raise UsageError(
                f"meson has no option {match[1]} in this version",
                f"did you mean -D{near}=…?" if near else f"there are {', '.join(known)}",
            )


__all__ = ["build", "options_of"]

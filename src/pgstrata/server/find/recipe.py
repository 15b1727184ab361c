"""What a server is built with: a named set of compiler, flags, options, patches and extensions."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from pgstrata.errors import UsageError
from pgstrata.files.user_files import is_file, real_path, shown, user_path
from pgstrata.suggest import nearest

System = Literal["auto", "autoconf", "meson"]
DEFAULT = "o2"


@dataclass(frozen=True)
class Build:
    """How a tree is built.

    name: what labels and reports call it. cc: the compiler, empty for the first of cc, gcc and clang.
    cflags: replace those of configure; debug data is always added, which changes no code. configure,
    meson: options of each build system, whichever is used. patches: files for `patch -p1`, in order.
    contrib: modules of the tree's contrib/. extensions: folders of PGXS trees.
    """

    name: str = DEFAULT
    system: System = "auto"
    cc: str = ""
    cflags: str = "-O2"
    configure: tuple[str, ...] = ()
    meson: tuple[str, ...] = ()
    patches: tuple[Path, ...] = ()
    contrib: tuple[str, ...] = ()
    extensions: tuple[Path, ...] = ()

    def with_keys(self, keys: Mapping[str, Any], folder: Path, name: str | None = None) -> Build:
        """Returns this build with other values of some keys, as a campaign writes them; `folder` is where its
        relative paths start. Raises UsageError for patches and extensions that do not exist."""
        known = {f.name for f in fields(Build)} - {"name"}
        values: dict[str, Any] = {}
        for key, value in keys.items():
            if key not in known or value is None:
                continue
            if key in ("patches", "extensions"):
                values[key] = tuple(_path(key, text, folder) for text in value)
            else:
                values[key] = tuple(value) if isinstance(value, list | tuple) else value
        for key in ("cc", "cflags"):
            _split(key, values.get(key, ""))
        for module in values.get("contrib", ()):
            if not module or module != Path(module).name or module.startswith((".", "-")):
                raise UsageError(
                    f"contrib: {module!r} is not the name of a module", 'write it like "pg_prewarm"'
                )
        return replace(self, **values, name=self.name if name is None else name)

    def record(self) -> dict[str, Any]:
        """Returns the build in the form stored in run.json and the cache, without empty keys."""
        by_key = {k: [str(v) for v in x] if isinstance(x, tuple) else x for k, x in asdict(self).items()}
        return {key: value for key, value in by_key.items() if value}


def _path(key: str, text: str | Path, folder: Path) -> Path:
    path = real_path(folder / user_path(text))
    if key == "patches" and not is_file(path):
        raise UsageError(
            f"patches: there is no file {shown(path)}", "paths are relative to the campaign file"
        )
    if key == "extensions" and not is_file(path / "Makefile"):
        raise UsageError(
            f"extensions: {shown(path)} is no folder with a Makefile for PGXS",
            "name the folder of an extension's source, relative to the campaign file",
        )
    return path


def _split(key: str, text: str) -> None:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{key} = {text!r}: {error}") from None
    if any(ord(letter) < 32 for letter in text):
        raise UsageError(f"{key}: holds a control character")
    if key == "cc" and words and words[0].startswith("-"):
        raise UsageError(f"cc = {text!r} begins with an option", 'write it like cc = "clang"')


def _shipped() -> dict[str, Build]:
    document = tomllib.loads((Path(__file__).parent / "builds.toml").read_text(encoding="utf-8"))
    return {
        name: Build(name).with_keys({k: v for k, v in keys.items() if k != "note"}, Path())
        for name, keys in document.items()
    }


SHIPPED: dict[str, Build] = _shipped()
"""The builds that come with pgstrata, by name."""


def find_build(name: str, builds: Mapping[str, Build] | None = None) -> Build:
    """Returns a build by its name, the campaign's `builds` before the shipped ones. Raises UsageError."""
    known = {**SHIPPED, **(builds or {})}
    if name in known:
        return known[name]
    near = nearest(name, known)
    raise UsageError(
        f"there is no build called {name!r}",
        f"did you mean {near}?" if near else f"there are {', '.join(known)}; [builds.NAME] makes more",
    )


__all__ = ["DEFAULT", "SHIPPED", "Build", "System", "find_build"]

"""Workloads of somebody else: `FILE.py:CLASS`, or what an installed package offers as `pgstrata.workloads`.

Their code is called through here, so that what it raises is said with its own file and line.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from pgstrata.errors import PgstrataError, UsageError
from pgstrata.files import digests
from pgstrata.files.ownership import check_executed
from pgstrata.files.user_files import read_text, real_path, shown, user_path
from pgstrata.server.features import Features
from pgstrata.workload.core.language import Phase, Refine, Step, Work
from pgstrata.workload.core.options import (
    Divisible,
    NamedWorkload,
    NeedsExtensions,
    OwnReport,
    RunCost,
    Selectable,
    WorkloadKind,
    WorkloadOptions,
)

GROUP = "pgstrata.workloads"
"""Entry points of this group are workloads; their names are those of the workloads."""

FACT = "plugin"
"""Under which a run keeps the digest of its workload's source."""

_PARTS = ("name", "summary", "Options", "scales", "phases", "estimate")
_OWN = "copy it to a folder of your own: it is executed as you"
_HELP = "docs/guides/adding-a-workload.md shows what a workload consists of"


class PluginError(UsageError):
    """The code of a workload from outside has raised, or is not a workload."""


class OutsideWorkload(NamedWorkload, Protocol):
    """A class from outside: a WorkloadKind whose phases are those for a version (170011 is 17.11)."""

    def phases(self, options: Any, version_num: int) -> list[Phase]: ...


class Plugin:
    """A workload from outside, and where its code is.

    Has what a WorkloadKind has; `only`, `part`, `extensions` and `report` where the class has them. Each of
    them raises PluginError where the code raises anything but a PgstrataError. digest: of its source, empty
    where that is a package.
    """

    def __init__(self, inner: OutsideWorkload, name: str, where: Path, digest: str) -> None:
        self._inner, self._where = inner, where
        self.name, self.digest = name, digest
        self.label: str = inner.name
        self.summary: str = inner.summary
        self.Options: type[WorkloadOptions] = inner.Options
        self.scales: Mapping[str, Mapping[str, Any]] = inner.scales
        # On the instance: protocols look for them there.
        if isinstance(inner, Selectable):
            self.only = self._guarded(inner.only)
        if isinstance(inner, Divisible):
            self.part = self._guarded(inner.part)
        if isinstance(inner, NeedsExtensions):
            self.extensions = self._guarded(inner.extensions)
        if isinstance(inner, OwnReport):
            self.report = self._guarded(inner.report)

    def phases(self, options: Any, server: Features) -> list[Phase]:
        """Returns the phases; code from outside is given the number of the server's version."""
        with self.blame():
            returned: object = self._inner.phases(options, server.version_num)
        if not isinstance(returned, list) or not all(isinstance(p, Phase) for p in returned):
            raise self._wrong("phases", "a list of phases", returned)
        kept = [Work("plug-in", lambda context: {FACT: self.digest})] if self.digest else []
        return [*kept, *map(self._guarded_phase, returned)]

    def estimate(self, options: Any) -> RunCost:
        with self.blame():
            returned = self._inner.estimate(options)
        if not isinstance(returned, RunCost):
            raise self._wrong("estimate", "a RunCost", returned)
        return returned

    @contextmanager
    def blame(self) -> Iterator[None]:
        """Blames the workload for errors raised in the block, with its file and line."""
        with blaming(self._where):
            yield

    def _wrong(self, method: str, due: str, returned: object) -> PluginError:
        return PluginError(
            f"{shown(self.name)}: `{method}` returned {_kind(returned)} where {due} was due", _HELP
        )

    def _guarded(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any) -> Any:
            with self.blame():
                return do(*arguments)

        return guarded

    def _guarded_phase(self, phase: Phase) -> Phase:
        if isinstance(phase, Work):
            return replace(phase, do=self._guarded(phase.do))
        if isinstance(phase, Refine):
            at = self._guarded(phase.at)
            return replace(phase, at=lambda clients: list(map(self._guarded_phase, at(clients))))
        if isinstance(phase, Step) and phase.digest is not None:
            return replace(phase, digest=self._guarded(phase.digest))
        return phase


def blamed(workload: WorkloadKind) -> Context[None]:
    """Returns the context around code of a workload that is not called through it, say validators of its
    options."""
    return workload.blame() if isinstance(workload, Plugin) else nullcontext()


def source_of(workload: WorkloadKind) -> str:
    """Returns the digest of the source of a workload from a file; empty for others, which a release number
    stands for."""
    return workload.digest if isinstance(workload, Plugin) else ""


@contextmanager
def blaming(where: Path) -> Iterator[None]:
    """Raises PluginError for whatever the code at `where`, a file or a package's folder, raises.

    What pgstrata or pydantic has to say about values, and Ctrl-C, go through.
    """
    try:
        yield
    except (PgstrataError, ValidationError):
        raise
    except (Exception, SystemExit) as error:
        text = shown(error) or "no message"
        raise PluginError(
            f"{_place(error, where)}: {type(error).__name__}: {text}",
            "this is code of the workload itself; PGSTRATA_TRACE=1 shows the way there",
        ) from error


def _place(error: BaseException, where: Path) -> str:
    """Returns the last line of the workload's own code on the way to the error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    root = where if where.is_dir() else where.parent
    frames = traceback.extract_tb(error.__traceback__)
    own_frames = [f for f in frames if f.filename == str(where)]
    own_frames = own_frames or [f for f in frames if Path(f.filename).is_relative_to(root)]
    return f"{own_frames[-1].filename}, line {own_frames[-1].lineno}" if own_frames else str(where)


def names_file(name: str) -> bool:
    """Returns whether a workload is named as a file and a class in it."""
    return ".py:" in name


def from_file(name: str, folder: Path) -> Plugin:
    """Returns the workload `FILE.py:CLASS`, FILE relative to `folder`. Raises UsageError."""
    file, _, cls = name.rpartition(":")
    path = real_path(folder / user_path(file))
    source = read_text(path, "workload", missing="name it relative to the campaign file, as FILE.py:CLASS")
    try:
        check_executed(path.parent, f"the workload {path}", advice=_OWN, below=False)
        check_executed(path, f"the workload {path}", advice=_OWN)
    except OSError as error:
        raise UsageError(f"the workload {path} cannot be looked at: {error.strerror}") from error
    return _loaded(path, digests.of(source), cls)


@cache
def _loaded(path: Path, digest: str, cls: str) -> Plugin:
    module_name = f"pgstrata_workload_{digest[:16]}"
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # modules beside it, as for a program
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pydantic look their names up there
    try:
        with blaming(path):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    if not hasattr(module, cls):
        there = [name for name, value in vars(module).items() if isinstance(value, type)]
        classes = [name for name in there if getattr(vars(module)[name], "__module__", "") == module_name]
        raise PluginError(
            f"{path} has no class {shown(cls)}", f"classes there: {', '.join(classes)}" if classes else _HELP
        )
    return _plugin(getattr(module, cls), f"{path.name}:{cls}", path, digest)


@cache
def offered() -> Mapping[str, EntryPoint]:
    """Returns the workloads that installed packages offer, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def from_package(name: str) -> Plugin:
    """Returns the workload of this name that an installed package offers. Raises PluginError."""
    point = offered()[name]
    where = _folder_of(point.module)
    with blaming(where):
        workload = point.load()
    return _plugin(workload, name, where, "")


def _folder_of(module: str) -> Path:
    spec = importlib.util.find_spec(module.partition(".")[0])
    file = Path(spec.origin) if spec is not None and spec.origin else Path(module)
    return file.parent if file.name == "__init__.py" else file


def _plugin(made_by: Any, name: str, where: Path, digest: str) -> Plugin:
    with blaming(where):
        inner = made_by() if isinstance(made_by, type) else made_by
        lacking = [part for part in _PARTS if not hasattr(inner, part)]
        if lacking:
            missing = " and no ".join(f"`{part}`" for part in lacking)
            raise PluginError(f"{shown(name)} is no workload: it has no {missing}", _HELP)
        options = inner.Options
        if not (isinstance(options, type) and issubclass(options, WorkloadOptions)):
            raise PluginError(
                f"{shown(name)} is no workload: `Options` is no class of WorkloadOptions", _HELP
            )
        return Plugin(inner, name, where, digest)


def _kind(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        strange = next((v for v in value if not isinstance(v, Phase)), None)
        return f"a {type(value).__name__} with a {type(strange).__name__}" if value else "an empty one"
    return f"a {type(value).__name__}"


__all__ = [
    "FACT",
    "GROUP",
    "Plugin",
    "PluginError",
    "blamed",
    "blaming",
    "from_file",
    "from_package",
    "names_file",
    "offered",
    "source_of",
]

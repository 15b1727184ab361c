"""A study that was checked: named, its workloads found, their options whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr

from pgstrata.campaign.study import Study, Variant
from pgstrata.errors import UsageError
from pgstrata.files.user_files import is_file
from pgstrata.server.features import Features
from pgstrata.server.find.recipe import DEFAULT, Build, find_build
from pgstrata.server.find.sources import is_source
from pgstrata.store.record import MachineRecord
from pgstrata.workload.core.language import Phase
from pgstrata.workload.core.options import NeedsExtensions, RunCost
from pgstrata.workload.plugin import source_of

ALIASES = {"pgvector": "vector"}
"""Extensions that are better known by the name of their project."""

_EXTENSION = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


class Campaign(BaseModel):
    """A campaign that is whole: named, its workloads found, their options checked."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: str
    file: Path | None
    spec: Study
    variants: list[Variant]
    workloads: list[ChosenWorkload]
    machine: MachineRecord | None = None
    """Of a fleet, where its runs are measured; None for a local run."""

    @property
    def folder(self) -> Path:
        """Where relative paths of config files, trees and patches start."""
        return self.file.parent if self.file else Path.cwd()

    def extensions_of(self, variant: Variant) -> tuple[str, ...]:
        """Returns the extensions that a variant's server has to have by itself, as CREATE EXTENSION takes
        them: those of `extensions` that are no folders. Raises UsageError for a server that somebody else
        runs."""
        names = [text for text in variant.extensions or [] if self.names_extension(text)]
        if names and variant.server.startswith("dsn:"):
            raise UsageError(
                "`extensions` cannot be set for a dsn: server: nothing is installed or made in it",
                "leave it out; what a workload needs is looked for there",
            )
        return tuple(dict.fromkeys(ALIASES.get(name, name) for name in names))

    def names_extension(self, text: str) -> bool:
        """Returns whether an entry of a variant's `extensions` names an extension that the server already
        has, not a folder."""
        return bool(_EXTENSION.fullmatch(text)) and not is_file(self.folder / text / "Makefile")

    def build_of(self, variant: Variant) -> Build | None:
        """Returns the build of a variant's source tree; None for a server that is not built.

        Raises UsageError for a build that nobody has, or patches that are not there.
        """
        given = variant.build_keys()
        if variant.extensions is not None:
            folders = [text for text in variant.extensions if not self.names_extension(text)]
            given = {**given, "extensions": folders} if folders else _without(given, "extensions")
        if not is_source(variant.server):
            key = "build" if variant.build else next(iter(given), None)
            if key:
                advice = "name a source tree: release:17.11, tar:FILE, src:DIR or git:DIR#REF"
                if key == "extensions" and variant.server.startswith("path:"):
                    advice += "; or make USE_PGXS=1 PG_CONFIG=DIR/bin/pg_config install, and its name here"
                raise UsageError(
                    f"`{key}` is for servers that are built, not for {variant.server.partition(':')[0]}:",
                    advice,
                )
            return None
        name = variant.build or DEFAULT
        if name in self.spec.builds:
            build = Build(name).with_keys(self.spec.builds[name].build_keys(), self.folder, name)
        else:
            build = find_build(name, {build_name: Build(build_name) for build_name in self.spec.builds})
        if not given:
            return build
        return build.with_keys(given, self.folder, f"{variant.build}+own" if variant.build else "own")


class ChosenWorkload(BaseModel):
    """A workload of the catalog with its checked options."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    label: str
    workload: Any
    options: Any
    recorded: dict[str, Any] | None = None
    """What runs record as the options, where the files they name lie elsewhere while they are read."""
    _phases: dict[Features, Sequence[Phase]] = PrivateAttr(default_factory=dict)
    _cost: RunCost | None = PrivateAttr(None)
    _extensions: Sequence[str] | None = PrivateAttr(None)

    def phases(self, server: Features) -> Sequence[Phase]:
        """Returns the phases on servers with these features, for reading only, and caches them: those of
        TPC-DS take half a second, and a plan asks many times. Code that executes phases asks the workload for
        fresh ones.

        Raises NotInVersionError where such a server cannot do what the options ask for.
        """
        if server not in self._phases:
            self._phases[server] = self.workload.phases(self.options, server)
        return self._phases[server]

    @property
    def cost(self) -> RunCost:
        """Of one run, as far as is known before anything ran; the same on every version."""
        if self._cost is None:
            self._cost = self.workload.estimate(self.options)
        return self._cost

    @property
    def extensions(self) -> Sequence[str]:
        """Those that a server must have."""
        if self._extensions is None:
            wanted = isinstance(self.workload, NeedsExtensions)
            self._extensions = self.workload.extensions(self.options) if wanted else ()
        return self._extensions

    @property
    def all_options(self) -> dict[str, Any]:
        """Every option, defaults included, as plain JSON values."""
        if self.recorded is not None:
            return dict(self.recorded)
        return dict(self.options.model_dump(mode="json"))

    def identity(self) -> dict[str, Any]:
        """Returns the values that identify the workload when runs are checked for having measured the
        same."""
        return {
            "workload": self.workload.name,
            "options": self.all_options,
            "source": source_of(self.workload),
        }


def _without(keys: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key != name}


Campaign.model_rebuild()

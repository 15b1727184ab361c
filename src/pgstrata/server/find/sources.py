"""Sources of servers that capabilities add: trees that are built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pgstrata.registry import capabilities, load
from pgstrata.server.find.model import Server, version_number
from pgstrata.server.find.progress import BuildProgress
from pgstrata.server.find.recipe import Build

Say = Callable[[str], None]


@dataclass(frozen=True)
class Tree:
    """A source tree that can be built.

    origin: where it is from, in the user's words; label: short, for results; identity: a hash of what is
    in it; version: `17.11`, `20devel`; write: writes a copy of it into a folder that exists and is empty.
    facts: what a run records about it (commit, its date and subject, digests, whether files were changed).
    """

    origin: str
    label: str
    identity: str
    version: str
    write: Callable[[Path], None] = field(compare=False, repr=False)
    facts: dict[str, Any] = field(default_factory=dict, compare=False)
    has_file: Callable[[str], bool] = field(default=lambda name: True, compare=False, repr=False)
    """Whether a file of this name is in its uppermost folder."""

    @property
    def version_num(self) -> int:
        """As the server counts: 170011."""
        return version_number(self.version)


@dataclass(frozen=True)
class Listed:
    """A server of a source as `pgstrata servers list` shows it."""

    label: str
    state: str
    """`built` or `failed`."""
    build: str
    bytes: int | None
    """Of disk; None where nothing is there."""
    text: str
    """Its folder of programs, or why it failed."""


class ServerSource(Protocol):
    """The module that a capability names for kinds of specs in `server_sources`."""

    def check_spec(self, spec: str) -> None:
        """Raises UsageError unless the spec is well written; looks at neither disk nor network."""
        ...

    def find_tree(self, spec: str, say: Say = ..., folder: Path | None = None) -> Tree:
        """Returns the tree of a spec, fetched if need be; relative paths start at `folder`.

        Raises UsageError, ServerError.
        """
        ...

    def server_of(
        self,
        tree: Tree,
        how: Build,
        *,
        say: Say,
        progress: Callable[[BuildProgress], None] = ...,
        check: Callable[[], None] = ...,
        again: bool = False,
    ) -> Server:
        """Returns the server of a tree, built now unless it is in the cache.

        again: also where its build failed before. Raises BuildError, UsageError, ServerError.
        """
        ...

    def look_up(self, spec: str, how: Build, folder: Path | None) -> Server:
        """Returns the server that would be built; it may not be there yet. Raises UsageError, ServerError."""
        ...

    def listed(self) -> list[Listed]:
        """Returns the servers in the cache, then builds that failed."""
        ...

    def program_folders(self) -> list[Path]:
        """Returns the folders of programs of the servers in the cache."""
        ...

    def remove(self, name: str) -> list[str]:
        """Removes servers by name and returns what was removed. Raises ServerError for a server in use."""
        ...

    def clear_unfinished(self) -> list[str]:
        """Removes what killed builds left; returns a sentence for each."""
        ...


def source_kinds() -> tuple[str, ...]:
    """Returns the kinds of specs that sources of capabilities take, such as `git`."""
    return tuple(kind for offer in capabilities() for kind in offer.server_sources)


def is_source(spec: str) -> bool:
    """Returns whether a spec names a tree that has to be built."""
    return spec.partition(":")[0] in source_kinds()


def source_of(spec: str) -> ServerSource:
    """Returns the source for a spec of its kind, for which `is_source` holds."""
    kind = spec.partition(":")[0]
    place = next(offer.server_sources[kind] for offer in capabilities() if kind in offer.server_sources)
    source: ServerSource = load(place)
    return source


def sources() -> list[ServerSource]:
    """Returns all sources that capabilities add."""
    places = dict.fromkeys(place for offer in capabilities() for place in offer.server_sources.values())
    return [load(place) for place in places]


__all__ = ["Listed", "ServerSource", "Tree", "is_source", "source_kinds", "source_of", "sources"]

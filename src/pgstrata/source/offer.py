"""Servers from source as the core asks for them (`pgstrata.server.find.sources.ServerSource`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from pgstrata.files.disk import folder_bytes
from pgstrata.server.find.model import Server
from pgstrata.server.find.progress import BuildProgress
from pgstrata.server.find.recipe import DEFAULT, Build
from pgstrata.server.find.sources import Listed, Tree
from pgstrata.server.system.account import check_reachable, server_account
from pgstrata.source.build import BuiltServer, build, find_built
from pgstrata.source.build_cache import built, failures, remove
from pgstrata.source.build_cache import clear_builds as clear_unfinished
from pgstrata.source.spec import SourceSpec, find_tree


def check_spec(spec: str) -> None:
    """Raises UsageError unless the spec is written as a source tree; looks at neither disk nor network."""
    SourceSpec.parse(spec)


def server_of(
    tree: Tree,
    how: Build,
    *,
    say: Callable[[str], None],
    progress: Callable[[BuildProgress], None] = lambda progress: None,
    check: Callable[[], None] = lambda: None,
    again: bool = False,
) -> Server:
    """Returns the server of a tree, built now unless it is in the cache.

    again: also where its build failed before. Raises BuildError, UsageError, ServerError.
    """
    built_server = build(tree, how, say=say, progress=progress, check=check, again=again)
    check_reachable(built_server.bin_dir, server_account(), "the server")
    return _of_build(tree, how, built_server)


def look_up(spec: str, how: Build, folder: Path | None) -> Server:
    """Returns the server that would be built; it may not be there yet. Raises UsageError, ServerError."""
    tree = find_tree(spec, folder=folder)
    return _of_build(tree, how, find_built(tree, how))


def listed() -> list[Listed]:
    """Returns the servers in the cache, then builds that failed."""
    servers = [
        Listed(
            kept.record.label,
            "built",
            f"{kept.record.build.get('name')}: {kept.record.cflags}",
            folder_bytes(kept.folder),
            f"{kept.folder}/bin",
        )
        for kept in built()
    ]
    failed = [
        Listed(failure["label"], "failed", failure["build"]["name"], None, str(failure["message"]))
        for failure in failures()
    ]
    return [*servers, *failed]


def program_folders() -> list[Path]:
    """Returns the folders of programs of the servers in the cache."""
    return [kept.folder / "bin" for kept in built()]


def _of_build(tree: Tree, how: Build, built_server: BuiltServer | None) -> Server:
    """Returns a tree's server; built_server is None where it is not built yet."""
    label = tree.label + ("" if how.name == DEFAULT else f".{how.name}")
    if built_server is None:
        return Server(tree.origin, label, tree.version, tree.version_num, "", Path())
    # The tree as it was named now: the same files can be reached by several names.
    record = structs.replace(built_server.record, origin=tree.origin, source=tree.facts, build=how.record())
    return Server(
        tree.origin,
        label,
        tree.version,
        tree.version_num,
        built_server.configured,
        built_server.bin_dir,
        built=record,
    )


__all__ = [
    "check_spec",
    "clear_unfinished",
    "find_tree",
    "listed",
    "look_up",
    "program_folders",
    "remove",
    "server_of",
]

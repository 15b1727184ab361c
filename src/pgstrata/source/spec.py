"""What the specs of source trees stand for: `release:`, `tar:`, `src:`, `git:`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import UsageError
from pgstrata.files.user_files import user_path
from pgstrata.server.find.cache import cache_dir
from pgstrata.server.find.sources import Tree
from pgstrata.source import git, release
from pgstrata.source.tree import tree_of_archive, tree_of_folder

KINDS = ("release", "tar", "src", "git")


@dataclass(frozen=True)
class SourceSpec:
    """A spec taken apart. where: version, file, folder or address; ref: behind `#`, `git:` only."""

    kind: str
    where: str
    ref: str = ""

    @classmethod
    def parse(cls, spec: str) -> SourceSpec:
        """Raises UsageError for what is not written as one; looks at neither disk nor network."""
        kind, _, rest = spec.partition(":")
        if kind not in KINDS or not rest:
            raise UsageError(
                f"{spec!r} does not name a source tree", f"write {', '.join(f'{k}:' for k in KINDS)}…"
            )
        if kind == "git":
            where, _, ref = rest.partition("#")
            git.check_ref(ref or "HEAD")
            if not where or where.startswith("-"):
                raise UsageError(f"{spec!r} names no repository", "write git:DIR-or-URL#REF")
            return cls(kind, where, ref or "HEAD")
        if kind == "release":
            release.check_version(rest)
        return cls(kind, rest)


def find_tree(spec: str, say: Callable[[str], None] = lambda text: None, folder: Path | None = None) -> Tree:
    """Returns the tree a spec stands for, fetched if need be; relative paths start at `folder`.

    Raises UsageError for what does not exist, ServerError for what cannot be had.
    """
    wanted = SourceSpec.parse(spec)
    beside = folder or Path.cwd()
    match wanted.kind:
        case "src":
            return tree_of_folder(beside / user_path(wanted.where))
        case "tar":
            if release.is_url(wanted.where):
                return release.tree_of_url(wanted.where, cache_dir(), say)
            return tree_of_archive(beside / user_path(wanted.where))
        case "release":
            return release.tree_of_release(wanted.where, cache_dir(), say)
        case _:
            if git.is_url(wanted.where):
                copy = git.clone(wanted.where, wanted.ref, cache_dir(), say)
                return git.tree_of(copy, wanted.ref, origin=f"git:{git.public(wanted.where)}#{wanted.ref}")
            return git.tree_of(beside / user_path(wanted.where), wanted.ref)


__all__ = ["KINDS", "SourceSpec", "find_tree"]

"""Commits that change no code of a server: documentation, tests, and what is not built.

Their servers are those of the commits before, so they are neither built nor measured, and made no change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pgstrata.server.find.recipe import Build
from pgstrata.source.autoconf import MEASURED, PARTS
from pgstrata.source.git_command import run_git

_IDLE = re.compile(
    rb"""
    (?:doc|src/test|src/tools|\.github)/.*   # documentation, tests, tools of developers
    | (?:[^/]+/)*(?:t|sql|expected|specs)/[^/]*(?<!\.[ch])  # tests beside what they test
    | .*\.(?:sgml|po|md)                                    # documentation and translations
    | (?:[^/]+/)*(?:README[^/]*|COPYRIGHT|HISTORY|\.git[^/]*|\.cirrus[^/]*|\.mailmap|\.editorconfig)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Paths of a source tree of PostgreSQL that are in no server and change no build."""

_OPTIONAL = ("src/bin/", "src/interfaces/", "src/pl/")
"""Folders whose subfolders are built where `PARTS` names them."""

_MARK = b"\x01"
"""Before the hash of a commit in git's output: no path begins with it."""


def changes_no_code(path: bytes) -> bool:
    """Returns True for a path of a source tree that is in no server."""
    return _IDLE.fullmatch(path) is not None


def is_left_out(path: bytes, recipe: Build) -> bool:
    """True for a path below a folder that no build with this recipe compiles: another client, another
    language, a module of contrib."""
    folder = b"/".join(path.split(b"/")[:3]).decode(errors="replace")
    if path.startswith(b"contrib/"):
        if recipe.contrib or recipe.extensions:  # which may need other modules
            return False
        folder = folder.split("/")[1]
        return path.count(b"/") > 1 and folder not in MEASURED
    return path.count(b"/") > 2 and folder.startswith(_OPTIONAL) and folder not in PARTS


def changes_nothing_built(paths: Iterable[bytes], recipe: Build) -> bool:
    """Returns True if none of these paths is in a server that is built with this recipe, or changes its
    build."""
    return all(changes_no_code(path) or is_left_out(path, recipe) for path in paths)


def idle_commits(repo: Path, anchor: str, newest: str, recipe: Build) -> set[str]:
    """Returns the commits after `anchor`, by first parents, that change no code of a server that is built
    with this recipe. Raises ServerError where git cannot tell."""
    listed = run_git(
        repo,
        *("log", "--first-parent", "-m", "--name-only", "--no-renames", "-z", "--format=%x01%H"),
        *(f"{anchor}..{newest}", "--"),
    )
    commits = set()
    for entry in listed.split(_MARK)[1:]:
        commit, *paths = (part.strip(b"\n") for part in entry.split(b"\0"))
        if changes_nothing_built(filter(None, paths), recipe):
            commits.add(commit.decode())
    return commits


__all__ = ["changes_no_code", "changes_nothing_built", "idle_commits", "is_left_out"]

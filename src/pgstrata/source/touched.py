"""What commits change: paths, functions, views and words, as git's diffs without context tell them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgstrata.source.git_command import run_git
from pgstrata.source.idle import changes_no_code

CODE = ("*.c", "*.h", "*.y", "*.l", "*.sql", "*.dat")
"""Files whose changes are looked at line by line."""

AT_ONCE = 200
"""Commits whose diffs are read at a time, so that little of a history is in memory."""

MOST_SECONDS = 300.0
"""For the diffs of a whole range; of commits behind that only the paths are known."""

MOST_MESSAGE = 10_000
"""Characters of a message that are looked at."""

_MARK = b"\x01"
"""Before the hash of a commit in git's output: no line of a diff and no path begins with it."""

_CALLED = re.compile(rb"(\w+)\s*\(")
_DEFINED = re.compile(rb"(\w+)\(")
_VIEW = re.compile(rb"CREATE\s+(?:OR\s+REPLACE\s+)?(?:VIEW|FUNCTION)\s+(?:\w+\.)?(\w+)", re.IGNORECASE)
_COMMENT = re.compile(rb"\s*(?:\*|/\*|//|--|\*/|$)")


@dataclass
class Touched:
    """What a commit changes. paths: all of them. code: those of a server in which more than comments changed;
    names: of functions and views with such lines in them; message: in lower case."""

    paths: set[str] = field(default_factory=set)
    code: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    message: str = ""


def touched_by(
    repo: Path, commits: Sequence[str], check: Callable[[], None] = lambda: None
) -> dict[str, Touched]:
    """Returns what each commit of a line of first parents changes, but the first, from which the line starts.

    Takes MOST_SECONDS at most, and a block of AT_ONCE commits. check: raises where the end was asked for.
    Raises ServerError where git cannot tell.
    """
    begun = time.monotonic()
    changes = {commit: Touched() for commit in commits[1:]}
    for first in range(0, len(commits) - 1, AT_ONCE):
        check()
        block = commits[first : first + AT_ONCE + 1]
        _read_paths(changes, _log(repo, block, "--name-only", "-z"))
        _read_messages(changes, _log(repo, block, "--no-patch", "--format=%x01%H%n%B"))
        if time.monotonic() - begun < MOST_SECONDS:
            _read_diffs(changes, _log(repo, block, "--patch", "-U0", "--", *CODE))
    return changes


def defined_in(repo: Path, commit: str) -> dict[str, str]:
    """Returns the file of each function of the server by its name, as PostgreSQL's style has it: the name
    begins the line of the definition. Raises ServerError."""
    pattern = r"^[A-Za-z_][A-Za-z0-9_]*\("
    listed = run_git(
        repo,
        *("grep", "-I", "-z", "--no-textconv", "--no-color", "-E", pattern, commit, "--"),
        *("src/backend/*.c", "src/backend/*.y", "src/backend/*.l", "src/common/*.c", "src/port/*.c"),
        "contrib/*.c",
    )
    files: dict[str, str] = {}
    for line in listed.split(b"\n"):
        place, _, text = line.partition(b"\0")
        if match := _DEFINED.match(text):
            files.setdefault(match[1].decode(), place.partition(b":")[2].decode(errors="replace"))
    return files


def _log(repo: Path, block: Sequence[str], *options: str) -> bytes:
    shown = options[: options.index("--")] if "--" in options else options
    paths = options[len(shown) :] or ("--",)
    return run_git(
        repo,
        *("log", "--first-parent", "-m", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"),
        *("--src-prefix=a/", "--dst-prefix=b/", "--format=%x01%H", *shown),
        f"{block[0]}..{block[-1]}",
        *paths,
    )


def _entries(
    changes: Mapping[str, Touched], listed: bytes, end: bytes
) -> Iterable[tuple[Touched, list[bytes]]]:
    """Yields the commits that are asked for, each with its lines."""
    for entry in listed.split(_MARK)[1:]:
        commit, *lines = entry.split(end)
        if (touched := changes.get(commit.strip().decode())) is not None:
            yield touched, lines


def _read_paths(changes: Mapping[str, Touched], listed: bytes) -> None:
    for touched, paths in _entries(changes, listed, b"\0"):
        touched.paths |= {path.strip(b"\n").decode(errors="replace") for path in paths} - {""}


def _read_messages(changes: Mapping[str, Touched], listed: bytes) -> None:
    for touched, lines in _entries(changes, listed, b"\n"):
        touched.message = b"\n".join(lines).decode(errors="replace").lower()[:MOST_MESSAGE]


def _read_diffs(changes: Mapping[str, Touched], listed: bytes) -> None:
    touched, path, name = Touched(), "", b""
    for line in listed.split(b"\n"):
        if line.startswith(_MARK):
            touched, path, name = changes.get(line[1:].decode(), Touched()), "", b""
        elif line.startswith(b"diff --git "):
            # Without renames both sides have one name.
            both = line.removeprefix(b"diff --git ")
            where = both[len(both) // 2 + 1 :].strip(b'"')[2:]
            path, name = "" if changes_no_code(where) else where.decode(errors="replace"), b""
        elif line.startswith(b"@@ "):
            name = _name_in(line.split(b" @@", 1)[-1].strip(), _CALLED)
        elif line[:1] in b"+-" and not line.startswith((b"+++ ", b"--- ")) and line:
            text = line[1:]
            if not path or _COMMENT.match(text):
                continue
            name = _name_in(text, _DEFINED) or name
            touched.code.add(path)
            if name:
                touched.names.add(name.decode(errors="replace"))


def _name_in(text: bytes, function: re.Pattern[bytes]) -> bytes:
    """Returns the name of the view or function that is created in a text; empty if there is none."""
    if view := _VIEW.match(text):
        return view[1]
    match = function.search(text) if function is _CALLED else function.match(text)
    return match[1] if match else b""


__all__ = ["Touched", "defined_in", "touched_by"]

"""What old trees need on today's compilers: the table `old.toml`, applied to a copy.

A need holds for compilers or programs from a release on, and where the tree itself shows it: flags are
added by what stands in a file, an edit applies where its pattern does. Point releases took over many of these
changes, and development trees carry the next version's number before they have its code, so the versions of a
need only say in which trees to look; they end with the version after the last one that needs it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pgstrata.files.ownership import read_small
from pgstrata.server.find.model import version_number
from pgstrata.server.system.compiler import Compiler
from pgstrata.server.system.isolation import probe
from pgstrata.store.record import MendRecord

MOST_BYTES = 8 << 20
"""Of a file that shows what a tree needs; a configure of PostgreSQL has 1 MB."""


@dataclass(frozen=True)
class Edit:
    """In the files that fit `files` (a glob), `find` (a regular expression) becomes `put`."""

    files: str
    find: str
    put: str


@dataclass(frozen=True)
class Sign:
    """What a tree shows by the text of a file. find: a regular expression."""

    file: str
    find: str

    def stands_in(self, tree: Path) -> bool:
        """Returns whether the file is there and holds it."""
        path = tree / self.file
        if path.is_symlink() or not path.is_file():
            return False
        return re.search(self.find, read_small(path, MOST_BYTES), re.MULTILINE) is not None


@dataclass(frozen=True)
class Need:
    """A line of the table.

    first, last: versions of trees to look into, as the server counts, the last one included. since:
    `gcc 8`, `clang 6`, `flex 2.6`: holds with this program from this release on; any one of several, always
    where empty.
    if_found, unless_found: flags are added to a tree that shows all of these and none of those.
    """

    name: str
    reason: str
    first: int
    last: int
    since: tuple[tuple[str, tuple[int, ...]], ...]
    flags: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    if_found: tuple[Sign, ...] = ()
    unless_found: tuple[Sign, ...] = ()

    def adds_flags_to(self, tree: Path) -> bool:
        """Returns whether a tree shows that it needs the flags."""
        return (
            bool(self.flags)
            and all(sign.stands_in(tree) for sign in self.if_found)
            and not any(sign.stands_in(tree) for sign in self.unless_found)
        )

    def record(self) -> MendRecord:
        """Returns the patch in the form a run stores."""
        return MendRecord(name=self.name, reason=self.reason, flags=self.flags)


@cache
def needs() -> tuple[Need, ...]:
    """Returns all rows of the table of compatibility patches."""
    document = tomllib.loads((Path(__file__).parent / "old.toml").read_text(encoding="utf-8"))
    return tuple(_need(name, keys) for name, keys in document.items())


def _need(name: str, keys: Mapping[str, Any]) -> Need:
    last = version_number(keys["last"])
    # `last = "9.4"` means all of 9.4, `"10"` all of 10.
    if last % 100 == 0:
        last += 99
    since = []
    for text in keys.get("since", ()):
        program, _, release = text.partition(" ")
        since.append((program, _numbers(release)))
    return Need(
        name,
        keys["reason"],
        version_number(keys["first"]),
        last,
        tuple(since),
        tuple(keys.get("flags", ())),
        tuple(Edit(**edit) for edit in keys.get("edits", ())),
        tuple(Sign(**sign) for sign in keys.get("if_found", ())),
        tuple(Sign(**sign) for sign in keys.get("unless_found", ())),
    )


def needed(version_num: int, compiler: Compiler) -> list[Need]:
    """Returns the rows of the table that may apply to a tree of a version with this compiler and the programs
    of this machine."""
    return [
        need
        for need in needs()
        if need.first <= version_num <= need.last
        and (not need.since or any(_holds(program, release, compiler) for program, release in need.since))
    ]


def _holds(program: str, release: tuple[int, ...], compiler: Compiler) -> bool:
    if program in ("gcc", "clang"):
        return compiler.family == program and compiler.major >= release[0]
    return _release(program) >= release


@cache
def _release(program: str) -> tuple[int, ...]:
    """Returns the release of bison, flex or perl on this machine; if it is unknown, a release newer than all,
    as most are new."""
    if path := shutil.which(program):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if match := re.search(r"v?(\d{1,9}(?:\.\d{1,9})+)", probe([path, "--version"]).stdout):
                return _numbers(match[1])
    return (999,)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def apply_edits(tree: Path, wanted: Sequence[Need]) -> list[Need]:
    """Edits the copy of a tree. Returns the lines that changed something or whose flags it needs."""
    with_flags = [need for need in wanted if need.adds_flags_to(tree)]
    done = []
    for need in wanted:
        changed = [_edit(tree, edit) for edit in need.edits]
        if need in with_flags or any(changed):
            done.append(need)
    return done


def _edit(tree: Path, edit: Edit) -> bool:
    changed = False
    for path in sorted(tree.glob(edit.files)):
        if path.is_symlink() or not path.is_file():
            continue
        before = path.read_bytes()
        after = re.sub(edit.find.encode(), edit.put.encode(), before, flags=re.MULTILINE)
        if after != before:
            path.write_bytes(after)
            changed = True
    return changed


__all__ = ["Edit", "Need", "Sign", "apply_edits", "needed", "needs"]

"""Applying patches to the copy of a tree."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from pgstrata.server.source.failure import BuildError
from pgstrata.server.source.tools import need

_HUNK = re.compile(r"Hunk #(\d+) FAILED at (\d+)")
_FILE = re.compile(r"(?:checking|patching) file '?(.+?)'?(?: \(.*\))?$")


def apply_patch(tree: Path, patch: Path) -> None:
    """Applies a unified diff as `git diff`, `git format-patch` and `diff -u` make them (`patch -p1`).

    Raises BuildError with the file and the hunk that does not fit, and when a name leaves the tree.
    """
    need("patch")
    command = [
        "patch",
        "-p1",
        "--forward",
        "--batch",
        "--no-backup-if-mismatch",
        "--fuzz=2",
        "-i",
        str(patch),
    ]
    for step in (["--dry-run"], []):
        done = subprocess.run(
            [*command, *step],
            cwd=tree,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=120,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"},
        )
        if done.returncode != 0:
            raise _failed(patch, done.stdout + done.stderr)


def _failed(patch: Path, said: str) -> BuildError:
    file = "a file"
    for line in said.splitlines():
        if match := _FILE.match(line):
            file = match[1]
        if match := _HUNK.search(line):
            return _error(patch, f"hunk {match[1]} does not fit {file} at line {match[2]}", said)
        if "can't find file to patch" in line:
            missing = re.search(r"^\|(?:\+\+\+|---) (?:[ab]/)?(\S+)", said, re.MULTILINE)
            return _error(
                patch, f"there is no file {missing[1] if missing else 'as it names'} in the tree", said
            )
        if "Reversed (or previously applied)" in line:
            return _error(patch, f"what it does to {file} is in the tree already", said)
        if "Ignoring potentially dangerous file name" in line:
            return _error(patch, "it names a file outside the tree", said)
        if "Only garbage was found" in line:
            return _error(patch, "it is no unified diff", said)
    last = said.strip().splitlines()
    return _error(patch, last[-1] if last else "patch says nothing", said)


def _error(patch: Path, why: str, said: str) -> BuildError:
    return BuildError(
        f"the patch {patch.name} does not apply: {why}",
        "make it anew against this tree, or name the tree it was made for",
        errors=[why],
        log_end=said[-4000:],
    )


__all__ = ["apply_patch"]

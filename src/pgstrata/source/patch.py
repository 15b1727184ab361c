"""Applying patches to the copy of a tree."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from pgstrata.errors import BuildError
from pgstrata.files.user_files import read_bytes, shown
from pgstrata.server.system.account import server_account
from pgstrata.server.system.isolation import becoming, hand_over_tree
from pgstrata.source.tools import need

_UNIFIED = re.compile(rb"^(?:@@ -\d|diff --git )", re.MULTILINE)
_PATHS = re.compile(rb"^(?:--- |\+\+\+ |diff --git )(.+)", re.MULTILINE)
"""Lines that name files; of a rename alone there is only the last of them."""
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
"""How files of gzip, bzip2, xz and zstd begin."""
_HUNK = re.compile(r"Hunk #(\d+) FAILED at (\d+)")
_FILE = re.compile(r"(?:checking|patching) file '?(.+?)'?(?: \(.*\))?$")


MOST_BYTES = 64 << 20
"""Of one patch."""

SECONDS = 120.0
"""Longest time for one patch."""


def read_patch(file: Path) -> bytes:
    """Returns the content of a patch. Raises UsageError where it cannot be read or is too large."""
    return read_bytes(file, "patch", most=MOST_BYTES)


def changed_paths(content: bytes) -> set[bytes]:
    """Returns the paths that a unified diff names, without their first folder (`patch -p1`). A removed line
    that looks like a name is among them."""
    paths = set()
    for match in _PATHS.finditer(content):
        names = match[1].strip().split(b"\t")[:1]
        if match[0].startswith(b"diff"):
            names = names[0].split(b" ")
        paths |= {name.partition(b"/")[2] for name in names if name != b"/dev/null"}
    return paths


def apply_patch(tree: Path, patch: Path) -> None:
    """Applies a unified diff as `git diff`, `git format-patch` and `diff -u` make them (`patch -p1`).

    As root, the tree is given to the account of servers, which runs `patch`. Raises BuildError with the file
    and the hunk that does not fit, and when a name or a link leaves the tree; UsageError as `read_patch`.
    """
    need("patch")
    content, account = read_patch(patch), server_account()
    if not _UNIFIED.search(content):  # a script of ed would be executed
        raise _no_diff(patch, content)
    hand_over_tree(tree, account)
    leaving_before = _leaving_links(tree)
    command = [
        "patch",
        "-p1",
        "--forward",
        "--batch",
        "--no-backup-if-mismatch",
        "--fuzz=2",
        "--unified",
    ]
    for step in (["--dry-run"], []):
        try:
            done = subprocess.run(
                [*command, *step],
                cwd=tree,
                capture_output=True,
                input=content,
                timeout=SECONDS,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"},
                preexec_fn=becoming(account),
            )
        except subprocess.TimeoutExpired:
            raise _error(patch, f"patch did not end within {SECONDS:g} s", "") from None
        if done.returncode != 0:
            raise _failed(patch, (done.stdout + done.stderr).decode(errors="replace"))
    if leaving := _leaving_links(tree) - leaving_before:
        raise _error(patch, f"it makes {min(leaving)} a link out of the tree", "")


def _leaving_links(tree: Path) -> set[str]:
    """Returns the symbolic links that lead out of a tree, relative to it."""
    root = os.path.realpath(tree)
    links: set[str] = set()
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            path = f"{folder}/{name}"
            if os.path.islink(path) and not f"{os.path.realpath(path)}/".startswith(f"{root}/"):  # noqa: PTH114
                links.add(os.path.relpath(path, tree))
    return links


def _failed(patch: Path, output: str) -> BuildError:
    file = "a file"
    for line in output.splitlines():
        if match := _FILE.match(line):
            file = match[1]
        if match := _HUNK.search(line):
            return _error(patch, f"hunk {match[1]} does not fit {file} at line {match[2]}", output)
        if "can't find file to patch" in line:
            missing = re.search(r"^\|(?:\+\+\+|---) (?:[ab]/)?(\S+)", output, re.MULTILINE)
            return _error(
                patch, f"there is no file {missing[1] if missing else 'as it names'} in the tree", output
            )
        if "Reversed (or previously applied)" in line:
            return _error(patch, f"what it does to {file} is in the tree already", output)
        if "Ignoring potentially dangerous file name" in line:
            return _error(patch, "it names a file outside the tree", output)
        if "Only garbage was found" in line:
            return _no_diff(patch, b"")
    last = output.strip().splitlines()
    return _error(patch, last[-1] if last else "patch says nothing", output)


def _no_diff(patch: Path, content: bytes) -> BuildError:
    """Returns the error for a file that holds no unified diff."""
    why = "it is compressed" if content.startswith(_COMPRESSED) else "it holds no unified diff"
    advice = "unpack it" if content.startswith(_COMPRESSED) else "make it by git diff or git format-patch"
    return BuildError(f"the patch {shown(patch.name)} does not apply: {why}", advice, errors=[why])


def _error(patch: Path, why: str, output: str) -> BuildError:
    why = shown(why, 500)
    return BuildError(
        f"the patch {shown(patch.name)} does not apply: {why}",
        "make it anew on this tree, or name the tree it was made for",
        errors=[why],
        log_end=output[-4000:],
    )


__all__ = ["apply_patch", "changed_paths", "read_patch"]

"""A source tree: which PostgreSQL it is, what it is known by, and how a copy of it is written."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from pgstrata.errors import ServerError, UsageError
from pgstrata.files import digests
from pgstrata.files.ownership import check_executed, read_small
from pgstrata.files.unpacking import Unpacking, members, opened, parts_of
from pgstrata.files.user_files import is_folder, shown, user_path
from pgstrata.server.find.sources import Tree
from pgstrata.source.git_command import about, run_git

_VERSION = re.compile(r"\d+(?:\.\d+){0,2}(?:devel|(?:alpha|beta|rc)\d*)?")
_AC_INIT = re.compile(r"AC_INIT\(\s*\[PostgreSQL\]\s*,\s*\[([^\]]+)\]")
_MESON = re.compile(r"project\(\s*'postgresql'.*?version:\s*'([^']+)'", re.DOTALL)
MOST_VERSION_BYTES = 4 << 20
"""Of a file that says the version of a tree."""

NAMES_VERSION = ("configure.ac", "configure.in", "meson.build")
"""The files that say which version a tree is; the first that is there."""

# What a build leaves in a tree that was built where it lies.
_PRODUCTS = re.compile(r".*\.(o|a|so|bc|gcno|gcda|pc)|.*\.so\.[\d.]+|.*\.\d+\.dylib")
_PRODUCT_FILES = frozenset(
    {
        "GNUmakefile",
        "config.cache",
        "config.log",
        "config.status",
        "src/Makefile.global",
        "src/Makefile.port",
        "src/include/pg_config.h",
        "src/include/pg_config_ext.h",
        "src/include/pg_config_os.h",
        "src/include/pg_config_paths.h",
        "src/include/stamp-h",
        "src/include/stamp-ext-h",
        "src/port/pg_config_paths.h",
        "src/interfaces/libpq/pg_config_paths.h",
        "src/backend/postgres",
    }
)
_PRODUCT_FOLDERS = frozenset(
    {".git", ".svn", ".hg", "CVS", ".deps", "tmp_install", "tmp_check", "autom4te.cache"}
)


OWN = "copy it to a folder of your own (cp -r): what is built from it runs on this machine"


def version_in(name: str, text: str) -> str | None:
    """Returns the version in the text of a file of NAMES_VERSION; None if it names none."""
    match = (_MESON if name == "meson.build" else _AC_INIT).search(text)
    version = match and _VERSION.fullmatch(match[1].strip())
    return version[0] if version else None


def no_tree(where: str, advice: str = "name the folder that holds configure and src") -> UsageError:
    """Returns the error for a folder or a commit that is no source tree of PostgreSQL."""
    return UsageError(
        f"{where} is not a source tree of PostgreSQL: no configure.ac, configure.in or meson.build names it",
        advice,
    )


# --- folders ----------------------------------------------------------------------------------


def _read_version_file(file: Path) -> str:
    try:
        return read_small(file.resolve(), MOST_VERSION_BYTES)
    except (OSError, RuntimeError):  # of links in a circle
        return ""


def _entry(folder: Path, name: str) -> bytes:
    """Returns what a file adds to the digest of a tree: its name, whether it is a program, its content."""
    is_program = bool((folder / name).lstat().st_mode & stat.S_IXUSR)
    content = digests.of_file(folder / name)
    return f"{name}\0{is_program}\0{content}\0".encode(errors="surrogateescape")


def tree_of_folder(folder: Path) -> Tree:
    """Returns the tree as it lies in a folder, changed files included, without the files that a build left
    there.

    Only files below the folder are read, links are not followed, nothing is written to it.
    Raises UsageError where it is no source tree, ServerError where it cannot be read.
    """
    folder = Path(os.path.abspath(user_path(folder)))  # noqa: PTH100 - the name the user gave
    if not is_folder(folder):
        raise UsageError(
            f"there is no folder {shown(folder)}", "src: names a folder that holds a source tree"
        )
    version = None
    for name in NAMES_VERSION:
        if (folder / name).is_file():
            version = version_in(name, _read_version_file(folder / name))
            if version:
                break
    if version is None:
        raise no_tree(str(folder))
    try:
        check_executed(folder, f"the source tree {folder}", advice=OWN)
        files = sorted(_files(folder))
        digest = digests.of_parts(_entry(folder, name) for name in files)
    except OSError as error:
        raise ServerError(f"{error.filename} cannot be read: {error.strerror}") from error

    def write(target: Path) -> None:
        for name in files:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / name, target / name, follow_symlinks=False)

    facts = {"folder": str(folder), **_checkout(folder)}
    label = f"src{version}"
    if "commit" in facts:
        label += f"-{facts['commit'][:8]}" + ("+" if facts["changed"] else "")
    return Tree(f"src:{folder}", label, f"files:{digest}", version, write, facts, files.__contains__)


def _files(folder: Path) -> Iterator[str]:
    """Yields the names of the source files: those git knows or would, else all but the files that builds
    leave."""
    listed = _git_lists(folder)
    names = listed if listed is not None else _walk(folder)
    for name in names:
        try:
            mode = (folder / name).lstat().st_mode
        except FileNotFoundError:
            continue  # deleted in the checkout
        if stat.S_ISREG(mode):
            yield name


def _git_lists(folder: Path) -> list[str] | None:
    if not (folder / ".git").exists():
        return None
    try:
        out = run_git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    except ServerError:
        return None
    return [os.fsdecode(name) for name in out.split(b"\0") if name]


def _walk(folder: Path) -> Iterator[str]:
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _PRODUCT_FOLDERS]
        for name in names:
            inside = os.path.relpath(os.path.join(path, name), folder)  # noqa: PTH118
            if not _PRODUCTS.fullmatch(name) and inside not in _PRODUCT_FILES:
                yield inside


def _checkout(folder: Path) -> dict[str, Any]:
    """Returns the commit of a git checkout and whether its files were changed; empty for a folder that is no
    checkout."""
    if not (folder / ".git").exists():
        return {}
    try:
        commit = run_git(folder, "rev-parse", "HEAD").decode().strip()
        changed = bool(run_git(folder, "--no-optional-locks", "status", "--porcelain").strip())
        return {**about(folder, commit), "changed": changed}
    except ServerError:
        return {}


# --- archives ---------------------------------------------------------------------------------


def tree_of_archive(file: Path, origin: str = "", label: str = "", **facts: Any) -> Tree:
    """Returns the tree in a tar archive. Raises UsageError if it is no archive of a single source tree, or
    names files outside its folder."""
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is no file", "tar: names an archive of a source tree")
    try:
        check_executed(file, f"the archive {file}", advice=OWN)
        digest = digests.of_file(file)
        version = _version_in_archive(file)
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}", "tar: names an archive of a source tree") from None
    except OSError as error:
        raise UsageError(f"the archive {file} cannot be read: {error.strerror}") from error
    if version is None:
        raise no_tree(str(file))

    def write(target: Path) -> None:
        unpack(file, target)

    origin = origin or f"tar:{file.absolute()}"
    return Tree(
        origin,
        label or f"tar{version}",
        f"sha256:{digest}",
        version,
        write,
        {"archive": file.name, "sha256": digest, **facts},
        lambda name: _in_archive(file, name),
    )


def _in_archive(file: Path, wanted: str) -> bool:
    name = str(file)
    with file.open("rb") as content, opened(name, content) as archive:
        return any(
            member.isreg() and PurePosixPath(member.name).parts[1:] == (wanted,)
            for member in members(name, archive)
        )


def _version_in_archive(file: Path) -> str | None:
    name = str(file)
    with file.open("rb") as content, opened(name, content) as archive:
        for member in members(name, archive):
            path = PurePosixPath(member.name)
            if member.isreg() and path.name in NAMES_VERSION and len(path.parts) <= 2:
                source = archive.extractfile(member)
                assert source is not None
                text = source.read(1 << 20).decode(errors="replace")
                if version := version_in(path.name, text):
                    return version
    return None


def unpack(file: Path, target: Path) -> None:
    """Unpacks an archive's one folder into `target`, without that folder's own name.

    A member whose path or link leaves the folder, and one that is neither file, folder nor link, ends it
    with ArchiveError; nothing outside `target` is created or changed.
    """
    name = str(file)
    with (
        file.open("rb") as content,
        opened(name, content) as archive,
        Unpacking(name, target) as unpacking,
    ):
        top: str | None = None
        for member in members(name, archive):
            parts = parts_of(name, member.name)
            if not parts:
                continue
            top = top if top is not None else parts[0]
            if parts[0] != top:
                raise UsageError(f"{file} holds more than one folder: {top} and {parts[0]}")
            if len(parts) == 1 and not member.isdir():
                raise UsageError(f"{file} does not hold a folder with a source tree")
            unpacking.add(archive, member, strip=1)


__all__ = [
    "NAMES_VERSION",
    "OWN",
    "Tree",
    "no_tree",
    "tree_of_archive",
    "tree_of_folder",
    "unpack",
    "version_in",
]

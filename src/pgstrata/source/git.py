"""Trees of a git repository, by commit. Nothing is written to it: trees are read out of its objects."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from pgstrata.errors import ServerError, UsageError
from pgstrata.files import digests
from pgstrata.files.building import building, publish
from pgstrata.files.ownership import check_executed
from pgstrata.files.unpacking import Unpacking, parts_of
from pgstrata.files.user_files import is_folder, shown, user_path
from pgstrata.server.find.sources import Tree
from pgstrata.source.git_command import about, git_command, git_environment, run_git
from pgstrata.source.tree import NAMES_VERSION, OWN, no_tree, version_in
from pgstrata.suggest import several

FETCH_SECONDS = 3600.0
CLONE = "name the folder of a clone of PostgreSQL"
_URL = re.compile(r"(https?|git|ssh|file)://.+|[\w.-]+@[\w.-]+:.+")


def is_url(where: str) -> bool:
    """Returns whether a repository is named by an address, not by a folder."""
    return _URL.fullmatch(where) is not None


def public(url: str) -> str:
    """Returns an address without the password it may hold."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def check_ref(ref: str) -> None:
    """Raises UsageError for what can be no name of a commit."""
    if not ref or ref.startswith("-") or re.search(r"[\s\0\\*?\[]|@\{.*[^\d}].*\}", ref):
        raise UsageError(f"{ref!r} does not name a commit", "write a branch, a tag or the hash of a commit")


def repository(folder: Path) -> Path:
    """Returns the folder of a repository, bare or not. Raises UsageError if it is no repository."""
    if re.match(r"(?:https?|git|ssh|file):/", str(folder)):
        raise UsageError(f"{shown(folder)} is an address, not a folder", "git clone it, and name the clone")
    folder = Path(os.path.abspath(user_path(folder)))  # noqa: PTH100
    if not is_folder(folder):
        if folder.exists():
            raise UsageError(f"{shown(folder)} is a file, not a git repository", CLONE)
        raise UsageError(f"there is no folder {shown(folder)}", CLONE)
    try:
        check_executed(folder, f"the repository {folder}", advice=OWN, below=False)
        if (folder / ".git").exists():
            check_executed(folder / ".git", f"the repository {folder}", advice=OWN)
    except OSError as error:
        raise ServerError(f"{error.filename} cannot be read: {error.strerror}") from error
    try:
        run_git(folder, "rev-parse", "--git-dir")
    except ServerError as error:
        if "safe.directory" in error.hint or "no git" in error.message:
            raise
        raise UsageError(
            f"{folder} is not a git repository", f"{CLONE}; a server without git is src:DIR"
        ) from error
    return folder


def commit_of(repo: Path, ref: str) -> str:
    """Returns the full hash of the commit a name stands for; of a range A..B that of B.

    Raises UsageError with the nearest names where there is none.
    """
    check_ref(ref)
    end = re.split(r"\.{2,3}", ref)[-1] or "HEAD"
    for name in (end, f"origin/{end}"):
        try:
            wanted = f"{name}^{{commit}}"
            return (
                run_git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", wanted).decode().strip()
            )
        except ServerError as error:
            if error.hint:
                raise
    raise _no_ref(repo, end)


def _no_ref(repo: Path, ref: str) -> UsageError:
    listed = run_git(repo, "for-each-ref", "--format=%(refname:lstrip=2)").decode(errors="replace").split()
    names = sorted({name.removeprefix("origin/") for name in listed} - {"HEAD"})
    near = several(ref, names, 4) or _commits_like(repo, ref)
    if run_git(repo, "rev-parse", "--is-shallow-repository").strip() == b"true":
        hint = f"the clone is shallow, it lacks most of the history: git -C {repo} fetch --unshallow"
    elif near:
        hint = f"near are {', '.join(near)}"
    else:
        hint = f"there are {', '.join(names[:8])}" + (" …" if len(names) > 8 else "")
    return UsageError(f"there is no commit {ref!r} in {repo}", hint)


def _commits_like(repo: Path, ref: str) -> list[str]:
    """Returns commits whose hash begins like a mistyped hash: those with the longest common beginning, of six
    digits at least."""
    if not re.fullmatch(r"[0-9a-fA-F]{7,64}", ref):
        return []
    for length in range(len(ref) - 1, 5, -1):
        objects = run_git(repo, "rev-parse", f"--disambiguate={ref[:length]}").decode().split()
        kinds = {name: run_git(repo, "cat-file", "-t", name).strip() for name in objects}
        if near := [name[:12] for name, kind in kinds.items() if kind == b"commit"]:
            return near[:4]
    return []


def tree_of(repo: Path, ref: str, origin: str = "") -> Tree:
    """Returns the tree of a commit. Its identity is git's own hash of the tree: a commit that changes no file
    and its parent are the same server.

    Raises UsageError where there is no such commit, or it holds no PostgreSQL.
    """
    repo = repository(repo)
    commit = commit_of(repo, ref)
    tree = run_git(repo, "rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
    top = run_git(repo, "ls-tree", "--name-only", commit).decode(errors="replace").splitlines()
    version = None
    for name in NAMES_VERSION:
        if version is None and name in top:
            version = version_in(name, run_git(repo, "show", f"{commit}:{name}").decode(errors="replace"))
    if version is None:
        raise no_tree(f"commit {commit[:10]} of {repo}", CLONE)

    def write(target: Path) -> None:
        _export(repo, commit, target)

    facts = {"repository": origin.partition("#")[0].removeprefix("git:") or str(repo), "ref": ref}
    return Tree(
        origin or f"git:{repo}#{ref}",
        f"git{version}-{commit[:8]}",
        f"git:{tree}",
        version,
        write,
        {**facts, **about(repo, commit)},
        top.__contains__,
    )


def _export(repo: Path, commit: str, target: Path) -> None:
    """Writes the files of a commit as they are stored: no attribute of the tree and no filter of the
    repository's config changes them. PostgreSQL's trees have no links, and submodules are left out."""
    modified = float(run_git(repo, "log", "-1", "--no-show-signature", "--format=%ct", commit, "--"))
    listed = run_git(repo, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")
    name = f"commit {commit[:10]} of {repo}"
    files: list[tuple[str, str, bool]] = []
    for line in filter(None, listed):
        entry, _, path_bytes = line.partition(b"\t")
        mode, kind, blob = entry.decode("ascii").split()
        if kind == "blob" and mode in ("100644", "100755", "100664"):
            files.append((os.fsdecode(path_bytes), blob, mode == "100755"))
    with subprocess.Popen(
        git_command(repo, "cat-file", "--batch"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=git_environment(),
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            with Unpacking(name, target) as unpacking:
                for path, blob, executable in files:
                    process.stdin.write(f"{blob}\n".encode())
                    process.stdin.flush()
                    words = process.stdout.readline().split()
                    if len(words) != 3 or words[1] != b"blob":
                        raise ServerError(f"{shown(path)} of {name} cannot be read")
                    parts = parts_of(name, path)
                    unpacking.add_file(
                        parts, process.stdout, int(words[2]), executable=executable, modified=modified
                    )
                    process.stdout.read(1)  # the line's end behind the content
        except BrokenPipeError as error:
            raise ServerError(f"{name} cannot be read") from error
        except BaseException:
            process.kill()
            raise
        process.stdin.close()


def clone(url: str, ref: str, cache: Path, say: Callable[[str], None]) -> Path:
    """Returns the bare copy of a repository in the cache, with `ref` in it; fetched if it is not there yet,
    and if `ref` may have moved. Raises ServerError if the repository cannot be reached."""
    folder = cache / "repositories" / f"{digests.of(url)[:16]}.git"
    if folder.exists() and re.fullmatch(r"[0-9a-f]{40}", ref):
        try:
            commit_of(folder, ref)
            return folder
        except UsageError:
            pass  # newer than the copy
    try:
        if not folder.exists():
            say(f"fetching {public(url)}, which may take minutes; later only what is new")
            folder.parent.mkdir(parents=True, exist_ok=True)
            with building(folder) as new:
                options = ["--bare", "--quiet", "--end-of-options", url, str(new)]
                run_git(folder.parent, "clone", *options, seconds=FETCH_SECONDS)
                # Branches under their own names, so that a later fetch moves them.
                run_git(new, "config", "remote.origin.fetch", "+refs/heads/*:refs/heads/*")
                publish(new, folder)
        else:
            say(f"looking for what is new in {public(url)}")
            run_git(
                folder, "fetch", "--quiet", "--prune", "--tags", "--force", "origin", seconds=FETCH_SECONDS
            )
    except ServerError as error:
        if folder.exists():
            try:
                commit_of(folder, ref)
            except UsageError:
                raise error from None
            say(f"{public(url)} cannot be reached, the copy of before is used: {error.message}")
            return folder
        raise ServerError(
            f"the repository {public(url)} cannot be fetched: {error.message}",
            "check address and network; a clone on this machine is named git:DIR#REF",
        ) from error
    return folder


__all__ = ["check_ref", "clone", "commit_of", "is_url", "public", "repository", "tree_of"]

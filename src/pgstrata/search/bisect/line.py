"""What a search goes along: commits of a repository, releases, or configs, from a good end to a bad one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgstrata.campaign.study import Variant
from pgstrata.errors import ServerError, UsageError
from pgstrata.numbers import counted
from pgstrata.server.config.resolve import stack_of
from pgstrata.source.git import commit_of, repository, tree_of
from pgstrata.source.git_command import run_git

VariantOf = Callable[[str], Variant]
"""Gives the variant of a server: with the config and the build that all places on a line share."""

MOST_PATHS = 200
"""Lines of a diffstat that are shown."""


@dataclass(frozen=True)
class Stop:
    """One place on the line. id: what it is known by in the state."""

    id: str
    name: str
    variant: Variant = field(repr=False)
    subject: str = ""
    author: str = ""
    date: str = ""


@dataclass(frozen=True)
class Range:
    """kind: what its stops are, say `commit`. what: the whole in words. stops: the good end first.

    notes: what somebody should know beforehand.
    """

    kind: str
    what: str
    stops: Sequence[Stop]
    repo: Path | None = None
    notes: Sequence[str] = ()

    @property
    def n(self) -> int:
        """How many stops come after the good end."""
        return len(self.stops) - 1

    @property
    def extent(self) -> str:
        """What is searched, counted: the commits after the good end, or all releases or configs."""
        return counted(self.n + (self.kind != "commit"), self.kind)


@dataclass(frozen=True)
class Commit:
    """What a page says of a commit. diffstat: as git prints it."""

    hash: str
    author: str
    date: str
    message: str
    diffstat: str
    parents: Sequence[str] = ()


def commits(
    repo: Path, good: str, bad: str, variant_of: VariantOf, *, asked: tuple[str, str] = ("--good", "--bad")
) -> Range:
    """Returns the commits from `good` to `bad` by first parents. asked: where a user has named these ends.

    Raises UsageError for a ref that does not exist, ends that are exchanged, the same or without PostgreSQL,
    and a range that is not a line.
    """
    repo = repository(repo)
    first, last = commit_of(repo, good), commit_of(repo, bad)
    if first == last:
        raise UsageError(f"{good} and {bad} are the same commit, {first[:10]}", "name two different ones")
    if not is_ancestor(repo, first, last):
        raise _no_way(repo, good, bad, first, last, asked)
    format_ = "--format=%H%x00%an%x00%aI%x00%s"
    log = run_git(repo, "log", "--first-parent", "--reverse", format_, f"{first}..{last}", "--")
    lines = log.decode(errors="replace").rstrip("\n").split("\n")  # of git, not those of Unicode
    oldest = lines[0].split("\0")[0]
    if not _first_parent(repo, oldest) == first:
        raise _not_a_line(repo, good, bad, oldest, asked)
    for end in (first, last):
        tree_of(repo, end)
    log = run_git(repo, "log", "-1", format_, first, "--")
    lines = [log.decode(errors="replace").rstrip("\n"), *lines]
    stops = []
    for line in lines:
        hash_, author, date, subject = line.split("\0")
        variant = variant_of(f"git:{repo}#{hash_}")
        stops.append(Stop(hash_, hash_[:10], variant, subject, author, date))
    return Range("commit", f"{good}..{bad} of {repo}", stops, repo, _notes(repo))


def _notes(repo: Path) -> list[str]:
    notes = []
    try:
        bare = run_git(repo, "rev-parse", "--is-bare-repository").strip() == b"true"
        if not bare and run_git(repo, "status", "--porcelain", "--untracked-files=no").strip():
            notes.append(
                f"{repo} has changes that are not committed: they take no part, only commits are built"
            )
    except ServerError:
        pass  # a work tree that git does not understand has no part in this either
    return notes


def _first_parent(repo: Path, commit: str) -> str | None:
    parents = run_git(repo, "log", "-1", "--format=%P", commit, "--").decode().split()
    return parents[0] if parents else None


def is_ancestor(repo: Path, older: str, newer: str) -> bool:
    """Returns True if a commit is among the ancestors of another, whatever their dates: `rev-list` gives up
    where a clock has jumped."""
    try:
        return run_git(repo, "merge-base", older, newer).decode().strip() == older
    except ServerError:
        return False  # no commit in common


def is_shallow(repo: Path) -> bool:
    """Returns whether a clone lacks a part of its history."""
    return run_git(repo, "rev-parse", "--is-shallow-repository").strip() == b"true"


def _no_way(repo: Path, good: str, bad: str, first: str, last: str, asked: tuple[str, str]) -> UsageError:
    if is_ancestor(repo, last, first):
        return UsageError(
            f"{bad} ({asked[1]}) is older than {good} ({asked[0]})",
            f"exchange them: {asked[0]} {bad} {asked[1]} {good}; a change for the better is found, too",
        )
    if is_shallow(repo):
        return UsageError(
            f"no way leads from {good} to {bad} in {repo}, which is a shallow clone",
            f"it lacks a part of the history: git -C {repo} fetch --unshallow",
        )
    try:
        fork = run_git(repo, "merge-base", first, last).decode().strip()
    except ServerError:
        return UsageError(
            f"{good} and {bad} have no commit in common: there is no line between them",
            "name two commits of one history",
        )
    return UsageError(
        f"{good} and {bad} are on different branches, which part at {fork[:10]}: no line joins them",
        f"name two commits of one branch, say {asked[0]} {fork[:10]} {asked[1]} {bad}",
    )


def _not_a_line(repo: Path, good: str, bad: str, oldest: str, asked: tuple[str, str]) -> UsageError:
    if is_shallow(repo):
        return UsageError(
            f"the history between {good} and {bad} is cut off: {repo} is a shallow clone",
            f"git -C {repo} fetch --unshallow",
        )
    start = _first_parent(repo, oldest)
    near = f"say {asked[0]} {start[:10]}, where that branch left the line" if start else "name another commit"
    return UsageError(
        f"{good} is not on the line of first parents that leads to {bad}: it came in by a merge", near
    )


def about_commit(repo: Path, hash_: str) -> Commit:
    """Returns message and diffstat of a commit, for a page."""
    log = run_git(repo, "log", "-1", "--format=%H%x00%an%x00%aI%x00%P%x00%B", hash_, "--")
    commit_hash, author, date, parents, message = log.decode(errors="replace").split("\0", 4)
    stat = run_git(repo, "show", "--stat=100", "--format=", "--first-parent", hash_, "--")
    lines = stat.decode(errors="replace").rstrip().splitlines()
    if len(lines) > MOST_PATHS:
        lines = [*lines[:MOST_PATHS], " …", lines[-1]]
    return Commit(commit_hash, author, date, message.rstrip(), "\n".join(lines), parents.split())


def releases(specs: Sequence[str], variant_of: VariantOf) -> Range:
    """Returns a series of servers, say `pg:13`, `pg:14`, `pg:15`. Raises UsageError for fewer than two
    servers or a server that is named twice."""
    from pgstrata.server.find.acquire import check_spec

    _check_series("--releases", specs)
    for spec in specs:
        check_spec(spec)
        if spec.startswith("dsn:"):
            raise UsageError(
                f"--releases {spec}: a running server cannot take turns with others",
                "name pg:, release:, path:",
            )
    for older, newer in itertools.pairwise(specs):
        if _is_newer(older, newer):
            raise UsageError(
                f"--releases: {older} is newer than {newer} behind it",
                "name the oldest first; a change for the better is found, too",
            )
    stops = [Stop(spec, spec, variant_of(spec)) for spec in specs]
    return Range("release", f"{specs[0]} … {specs[-1]}", stops)


def _is_newer(first: str, second: str) -> bool:
    """Returns whether two releases are known by their numbers to be in the wrong order."""
    numbers = [re.fullmatch(r"(?:pg|release):(\d+(?:\.\d+)*)", spec) for spec in (first, second)]
    lower, upper = ([int(part) for part in match[1].split(".")] if match else [] for match in numbers)
    shared = min(len(lower), len(upper))  # pg:17 is the latest of 17
    return lower[:shared] > upper[:shared]


def configs(stacks: Sequence[str], variant: Variant) -> Range:
    """Returns a series of configs of one variant, each a stack like `base+a1`. Raises UsageError as
    `releases` does."""
    _check_series("--configs", stacks)
    names = ["+".join(Path(part).stem for part in stack_of(stack)) for stack in stacks]
    if len(set(names)) < len(names):
        names = list(stacks)
    stops = [
        Stop(stack, name, variant.replaced(config=stack_of(stack)))
        for stack, name in zip(stacks, names, strict=True)
    ]
    return Range("config", f"{names[0]} … {names[-1]} on {variant.server}", stops)


def _check_series(option: str, names: Sequence[str]) -> None:
    if len(names) < 2:
        raise UsageError(f"{option}: a search needs two ends", f"write {option} FIRST,SECOND,…")
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{option}: {twice} is there twice", "name each once, in their order")


def split_series(text: str) -> list[str]:
    """Returns the names of `a,b,c`."""
    return [name.strip() for name in re.split(r",", text) if name.strip()]


__all__ = [
    "Commit",
    "Range",
    "Stop",
    "VariantOf",
    "about_commit",
    "commits",
    "configs",
    "is_ancestor",
    "is_shallow",
    "releases",
    "split_series",
]

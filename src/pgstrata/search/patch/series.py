"""What is compared: a base commit and patches upon it, or a base and the commits of a branch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgstrata.campaign.study import Variant
from pgstrata.errors import BuildError, UsageError
from pgstrata.files.user_files import is_file, shown, user_path
from pgstrata.numbers import counted
from pgstrata.search.bisect.line import VariantOf, commits
from pgstrata.server.find.recipe import Build
from pgstrata.source.git import commit_of, repository, tree_of
from pgstrata.source.git_command import run_git
from pgstrata.source.idle import changes_nothing_built
from pgstrata.source.patch import apply_patch, changed_paths, read_patch

MOST = 30
"""Commits of a branch that are compared one by one."""


@dataclass(frozen=True)
class Member:
    """The base, or one of the series on it. name: its label. what: subject or file. paths: what it changes
    in the tree of the one before."""

    name: str
    variant: Variant = field(repr=False)
    what: str = ""
    paths: frozenset[bytes] = field(default=frozenset(), repr=False)


@dataclass(frozen=True)
class Series:
    """members: the base first, each with everything of those before it. not_built: a sentence for each that
    was left out because it changes nothing that is built."""

    repo: Path
    base: str
    members: Sequence[Member]
    notes: Sequence[str] = ()
    not_built: Sequence[str] = ()

    def built(self, recipe: Build) -> Series:
        """Returns the series without members that change nothing that is built with this recipe."""
        base, *others = self.members
        idle = [member for member in others if changes_nothing_built(member.paths, recipe)]
        sentences = tuple(
            f"{member.name} changes nothing that is built ({_shortened(member.paths)}): it is not compared"
            for member in idle
        )
        members = (base, *(member for member in others if member not in idle))
        return replace(self, members=members, not_built=sentences)


def series_of(
    repo: Path, base: str, names: Sequence[str], variant_of: VariantOf, *, each: bool = False
) -> Series:
    """Returns the series of files with patches, in their order, or of the name of a single branch. each: its
    commits one by one.

    Raises UsageError for a ref or file that is not there, a branch that does not hold the base, and a patch
    that does not apply, with its hunk and file.
    """
    repo = repository(repo)
    commit = commit_of(repo, base)
    first = Member("base", variant_of(f"git:{repo}#{commit}"), f"{base} ({commit[:10]})")
    files = [user_path(name) for name in names]
    if all(is_file(file) for file in files):
        if each:
            raise UsageError(
                "--each goes with a branch; of several patches each is compared anyway", "leave --each out"
            )
        return _of_files(repo, base, commit, first, files, variant_of)
    missing, file = next(pair for pair in zip(names, files, strict=True) if not is_file(pair[1]))
    if len(names) > 1 or file.suffix in (".patch", ".diff"):
        raise UsageError(f"there is no patch {shown(missing)}", "name files, or one branch")
    if file.exists():
        raise UsageError(
            f"{shown(missing)} is no file with a patch", "name the files in their order, or one branch"
        )
    return _of_branch(repo, base, commit, first, names[0], variant_of, each)


def _of_files(
    repo: Path, base: str, commit: str, first: Member, files: Sequence[Path], variant_of: VariantOf
) -> Series:
    patches = [str(file.resolve()) for file in files]
    twice = next((p for p in patches if patches.count(p) > 1), None)
    if twice is not None:
        raise UsageError(f"{shown(twice)} is there twice", "name each patch once, in the order they apply")
    check_patches(repo, commit, files)
    names = _labels([file.name.removesuffix(".patch").removesuffix(".diff") for file in files])
    members = [
        Member(
            name,
            first.variant.replaced(patches=patches[: number + 1]),
            files[number].name,
            # Of a patch without a name it is not known what it changes.
            frozenset(changed_paths(read_patch(files[number])) or {b"src"}),
        )
        for number, name in enumerate(names)
    ]
    return Series(repo, base, [first, *members])


def _of_branch(
    repo: Path, base: str, commit: str, first: Member, branch: str, variant_of: VariantOf, each: bool
) -> Series:
    tip = commit_of(repo, branch)
    if tip == commit:
        raise UsageError(f"{branch} is the base itself", "name a branch with commits of its own")
    fork = run_git(repo, "merge-base", commit, tip).decode().strip()
    if fork != commit:
        raise UsageError(
            f"{branch} is not made on {base}: other commits would be part of the difference",
            f"rebase it, or say --base {fork[:10]}, where it began",
        )
    line = commits(repo, base, branch, variant_of, asked=("--base", "BRANCH"))
    stops = line.stops[1:] if each else [line.stops[-1]]
    if len(stops) > MOST:
        raise UsageError(
            f"{branch} has {len(stops)} commits, at most {MOST} are compared one by one",
            "leave out --each, or search: pgstrata bisect",
        )
    names = _labels([stop.name for stop in stops] if each else [branch])
    members = []
    before = commit
    for name, stop in zip(names, stops, strict=True):
        what = f"{stop.name} {stop.subject}" if each else counted(line.n, "commit")
        changed = run_git(repo, "diff", "--name-only", "--no-renames", "-z", before, stop.id, "--")
        members.append(Member(name, stop.variant, what, frozenset(changed.split(b"\0")) - {b""}))
        before = stop.id
    return Series(repo, base, [first, *members], line.notes)


def check_patches(repo: Path, commit: str, files: Sequence[Path]) -> None:
    """Applies them to a copy of the tree, before anything is built. Raises UsageError with hunk and file."""
    tree = tree_of(repo, commit)
    with tempfile.TemporaryDirectory(prefix="pgstrata-patch-") as folder:
        tree.write(Path(folder))
        for file in files:
            try:
                apply_patch(Path(folder), file.resolve())
            except BuildError as error:
                raise UsageError(error.message, error.hint) from error


def _shortened(paths: Iterable[bytes]) -> str:
    """Returns the first of several paths, with the number of the others."""
    first, *more = sorted(path.decode(errors="replace") for path in paths) or ["no file"]
    return f"{shown(first)} and {len(more)} more" if more else shown(first)


def _labels(names: Sequence[str]) -> list[str]:
    """Returns a label for each name, short and unlike each other; `base` is taken."""
    labels: list[str] = []
    for name in names:
        plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)[:60].strip("-.") or "patch"
        number = 1
        while (label := plain if number == 1 else f"{plain}-{number}") in {*labels, "base"}:
            number += 1
        labels.append(label)
    return labels


__all__ = ["Member", "Series", "check_patches", "series_of"]

"""How likely each commit of a line is to have changed a step, before any server of it is built.

A mixture of what is known, of which each part is a distribution over all commits: the functions whose counted
instructions differ between the ends, the functions that the step executes, the kind of files that a commit
changes, with the words of its message, and nothing at all. As a part is the same for all commits, none is
ruled out: where all the others are wrong, a search takes log2(1 / share of that part) builds more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgstrata.source.idle import changes_no_code
from pgstrata.source.touched import Touched

UNIFORM, KIND, EXECUTED, DIFFERS = 0.1, 0.15, 0.25, 0.5
"""Shares of the parts. A part that tells nothing leaves its share to the others."""

NAMED = 0.05
"""Share that a view or function counts which a statement of the step names."""

OF_FILE = 0.1
"""What a change elsewhere in a function's file counts, against one in the function: compilers put small
functions into others."""

EXECUTED_FILE, HEADER, SERVER, BUILD, ELSEWHERE, IDLE = 1.0, 0.5, 0.2, 0.1, 0.02, 0.005
"""How likely a step is to meet a change of a file of this kind, against one of a file that it executes."""

WORDS = 1.5
"""What a word in a message counts that tells of speed, or names a function that the step executes."""

_SPEED = re.compile(
    r"\b(?:performan\w+|optimi[sz]\w*|speed\w*|fast\w*|slow\w*|overhead|cache\w*|inline\w*)\b"
)
_ELSEWHERE = re.compile(r"src/(?:bin|interfaces|pl|fe_utils|test|tools|tutorial)/|contrib/|.*win32|.*msvc")
_BUILD = re.compile(r"(?:.*/)?(?:configure|Makefile|meson)[^/]*|config/.*|src/(?:template|makefiles)/.*")


@dataclass(frozen=True)
class Executed:
    """What a step executes. shares: of the instructions, by function; differs: by function its share of what
    differs between both ends; files: by function the file that defines it; words: of the step's statements,
    among which views and functions of SQL are."""

    shares: Mapping[str, float] = field(default_factory=dict)
    differs: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    words: frozenset[str] = frozenset()


def prior_of(changes: Sequence[Touched], executed: Executed) -> list[float]:
    """Returns how likely each commit is to have made a change, in their order; all together 1."""
    named = dict.fromkeys(executed.words, NAMED)
    parts = (
        (UNIFORM, [1.0] * len(changes)),
        (KIND, _by_kind(changes, executed)),
        (EXECUTED, _by_functions(changes, named | dict(executed.shares), executed)),
        (DIFFERS, _by_functions(changes, executed.differs, executed)),
    )
    known = [(share, values, sum(values)) for share, values in parts if sum(values) > 0]
    whole = sum(share for share, _, _ in known)
    return [
        sum(share / whole * (values[place] / total) for share, values, total in known)
        for place in range(len(changes))
    ]


def _by_functions(changes: Sequence[Touched], shares: Mapping[str, float], executed: Executed) -> list[float]:
    """Returns, by commit, the shares of the functions that it changes, and a part of those of their files."""
    of_file: dict[str, float] = {}
    for name, share in shares.items():
        if (file := executed.files.get(name)) is not None:
            of_file[file] = of_file.get(file, 0.0) + share
    return [
        sum(shares.get(name, 0.0) for name in change.names)
        + OF_FILE * sum(of_file.get(path, 0.0) for path in change.code)
        for change in changes
    ]


def _by_kind(changes: Sequence[Touched], executed: Executed) -> list[float]:
    """Returns, by commit, the weight of the kind of its files, raised if the words of its message speak of
    speed."""
    files = frozenset(file for name, file in executed.files.items() if name in executed.shares)
    weights = []
    for change in changes:
        kind = max((_kind(path, change, files) for path in change.paths), default=IDLE)
        words = set(re.findall(r"\w{4,}", change.message))
        tells = _SPEED.search(change.message) or any(name.lower() in words for name in executed.shares)
        weights.append(kind * (WORDS if tells else 1.0))
    return weights


def _kind(path: str, touched: Touched, files: frozenset[str]) -> float:
    if changes_no_code(path.encode(errors="replace")):
        return IDLE
    if _BUILD.fullmatch(path):
        return BUILD
    if path.endswith((".c", ".h", ".y", ".l", ".sql", ".dat")) and path not in touched.code:
        return IDLE  # nothing but comments
    if path in files:
        return EXECUTED_FILE
    if _ELSEWHERE.match(path):
        return ELSEWHERE
    return HEADER if path.endswith(".h") else SERVER


__all__ = ["Executed", "prior_of"]

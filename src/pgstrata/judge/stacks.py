"""Folded stacks of a profile: reading them, adding them up, where they end and who called whom.

A folded stack is the frames from the outermost to the innermost with `;` between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from pgstrata.files.bounded import GZIP, BoundError, inflate
from pgstrata.files.disk import read_regular
from pgstrata.judge.functions import Arcs, line_of_frame
from pgstrata.judge.phases import REST, part_of_stack
from pgstrata.store.record import ProfileRecord

Stacks = Mapping[str, int]

MOST_BYTES = 64 << 20
"""Of the stacks of one role, unpacked."""

MOST_STACKS = 500_000
"""Different stacks of one role."""

CUT = "not known: stacks are cut"
"""The part of the server of samples whose stacks could not be unwound."""


def parse_folded(text: str) -> Counter[str]:
    """Returns the weights by stack, of lines `frame;frame;… weight`. Lines that are none are left out."""
    stacks: Counter[str] = Counter()
    for line in text.split("\n"):
        stack, _, weight = line.rpartition(" ")
        if stack and len(weight) < 20 and weight.isascii() and weight.isdigit():
            stacks[stack] += int(weight)
    return stacks


def stacks_in(path: Path) -> Counter[str]:
    """Returns the stacks in a file of a run; none where it is damaged or larger than it may be."""
    try:
        text = inflate(read_regular(path, MOST_BYTES), MOST_BYTES, GZIP)
    except (OSError, BoundError):
        return Counter()
    return parse_folded(text.decode("utf-8", "replace")) if text.count(b"\n") <= MOST_STACKS else Counter()


def recorded_stacks(folder: Path, profile: ProfileRecord) -> Counter[str]:
    """Returns the stacks that the record of a run in this folder names; none where there are none."""
    if profile.file is None:
        return Counter()
    path = (folder / profile.file).resolve()
    # A record from elsewhere must not name files of this machine.
    return stacks_in(path) if path.is_relative_to(folder.resolve()) else Counter()


def in_samples(stacks: Stacks, samples: int) -> Counter[str]:
    """Returns the stacks with weights that add up to about this number, each at least 1, for drawing."""
    total = sum(stacks.values())
    return Counter({s: max(1, round(w * samples / total)) for s, w in stacks.items()}) if total else Counter()


def add_up(many: Iterable[Stacks]) -> Counter[str]:
    """Returns all stacks added up to a single profile."""
    whole: Counter[str] = Counter()
    for stacks in many:
        whole.update(stacks)
    return whole


def folded_text(stacks: Stacks) -> str:
    """Returns the stacks as sorted lines, as drawing expects."""
    return "".join(f"{stack} {weight}\n" for stack, weight in sorted(stacks.items()))


def frames_of(stack: str) -> list[str]:
    """Returns the frames of a stack, the outermost first, without the name of the process."""
    return stack.split(";")[1:] or [stack]


def where_they_end(stacks: Stacks) -> Counter[tuple[str, str]]:
    """Returns the weights by part of the server and innermost function; the part is `CUT` where the stack
    does not reach the function that would tell it."""
    ends: Counter[tuple[str, str]] = Counter()
    for stack, weight in stacks.items():
        frames = frames_of(stack)
        part = part_of_stack(frames)
        if part == REST and frames[0].startswith("["):
            part = CUT
        ends[part, line_of_frame(frames[-1])] += weight
    return ends


def callers_in(stacks: Stacks) -> Arcs:
    """Returns of each function its callers, with the weight of the stacks in which they call it."""
    arcs: dict[str, dict[str, float]] = {}
    for stack, weight in stacks.items():
        names = list(map(line_of_frame, frames_of(stack)))
        # A function that calls itself counts once.
        for caller, callee in dict.fromkeys(pairwise(names)):
            if caller != callee:
                callers = arcs.setdefault(callee, {})
                callers[caller] = callers.get(caller, 0.0) + weight
    return arcs


__all__ = [
    "CUT",
    "MOST_BYTES",
    "MOST_STACKS",
    "Stacks",
    "add_up",
    "callers_in",
    "folded_text",
    "frames_of",
    "in_samples",
    "parse_folded",
    "recorded_stacks",
    "stacks_in",
    "where_they_end",
]

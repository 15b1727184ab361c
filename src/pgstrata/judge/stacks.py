"""Folded stacks of a profile: reading them, adding them up, where they end and who called whom.

A folded stack is the frames from the outermost to the innermost with `;` between them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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

# Among hundreds of functions a few move by 2 standard errors between profiles of the same server.
CERTAIN = 3.0

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


def shares(stacks: Stacks) -> tuple[dict[str, float], dict[str, float]]:
    """Returns own and total share of every function, 0 … 1. A function that calls itself counts once in
    total."""
    exclusive: Counter[str] = Counter()
    total: Counter[str] = Counter()
    whole = sum(stacks.values())
    if whole == 0:
        return {}, {}
    for stack, weight in stacks.items():
        # the outermost frame is the name of the process
        frames = stack.split(";")[1:] or [stack]
        exclusive[frames[-1]] += weight
        for function in set(frames):
            total[function] += weight
    return {f: w / whole for f, w in exclusive.items()}, {f: w / whole for f, w in total.items()}


@dataclass(frozen=True)
class ShareChange:
    """A function whose own share differs. error: standard error of the difference of the shares."""

    function: str
    own_base: float
    own_share: float
    total_base: float
    total: float
    error: float

    @property
    def change(self) -> float:
        return self.own_share - self.own_base


def moved(base: Stacks, base_samples: int, other: Stacks, samples: int, most: int = 15) -> list[ShareChange]:
    """Returns the functions whose own share changed by more than CERTAIN standard errors, the largest change
    first.

    The standard error is that of the difference of two proportions, p (1 − p) ÷ n each, with samples
    taken as independent. p is taken as if one more sample had been there: a function that was never seen has
    no error of 0.
    """
    if not base_samples or not samples:
        return []
    own_base, total_base = shares(base)
    own_other, total = shares(other)
    changes = []
    for function in {**own_base, **own_other}:
        before, after = own_base.get(function, 0.0), own_other.get(function, 0.0)
        error = math.sqrt(_variance(before, base_samples) + _variance(after, samples))
        if abs(after - before) > CERTAIN * error:
            changes.append(
                ShareChange(
                    function, before, after, total_base.get(function, 0.0), total.get(function, 0.0), error
                )
            )
    return sorted(changes, key=lambda m: (-abs(m.change), m.function))[:most]


def _variance(share: float, samples: int) -> float:
    share = min(1.0, (share * samples + 1) / (samples + 2))
    return share * (1 - share) / samples


__all__ = [
    "CERTAIN",
    "CUT",
    "MOST_BYTES",
    "MOST_STACKS",
    "ShareChange",
    "Stacks",
    "add_up",
    "callers_in",
    "folded_text",
    "frames_of",
    "in_samples",
    "moved",
    "parse_folded",
    "recorded_stacks",
    "shares",
    "stacks_in",
    "where_they_end",
]

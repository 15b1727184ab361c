"""Folded stacks of a profile: adding them up, shares of functions, which shares changed.

A folded stack is the frames from the outermost to the innermost with `;` between them. The share of a
function is the part of all weight in stacks that end in it (own) or hold it anywhere (total).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Stacks = Mapping[str, int]

# Among hundreds of functions a few move by 2 standard errors between profiles of the same server.
CERTAIN = 3.0


def parse_folded(text: str) -> Counter[str]:
    """Returns the weights by stack, of lines `frame;frame;… weight`. Lines that are none are left out."""
    stacks: Counter[str] = Counter()
    for line in text.split("\n"):
        stack, _, weight = line.rpartition(" ")
        if stack and len(weight) < 20 and weight.isascii() and weight.isdigit():
            stacks[stack] += int(weight)
    return stacks


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

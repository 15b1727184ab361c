"""What every machine is asked before it takes part, whatever the machines are there for."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pgstrata
from pgstrata import numbers
from pgstrata.fleet.roles import Machine, UnfitError
from pgstrata.fleet.tasks import Answer, Look, SeenMachine, Task, Unable, decode_answer, encode

CLOCK_SECONDS = 60.0
"""By so much the clock of a machine may be wrong: which of two runs is the newer is told by it."""


def look_at(
    machine: Machine, others: Sequence[Machine], look: Look, driver: str, names: Sequence[str]
) -> Generator[bytes | None, Any, SeenMachine]:
    """Asks a machine what it is. driver: version and build of the client's; names: globs of the machines
    that may take part, none: all. Raises UnfitError where it takes no part."""
    before = time.time()
    seen = yield from asked(look)
    if not isinstance(seen, SeenMachine):
        raise UnfitError(words_of(seen))
    machine.doing = "is looked at"
    machine.name, machine.host, machine.kind = _name(seen, others), seen.host, seen.kind
    machine.alike, machine.shares = seen.alike, seen.shares
    for other in others:
        if other.host == seen.host and other.state not in ("out", "gone"):
            raise UnfitError(
                f"it is a second worker on the host of {other.address}: two comparisons on one machine "
                "disturb each other; start one worker on each"
            )
    if (seen.pgstrata, seen.driver) != (pgstrata.__version__, driver):
        raise UnfitError(
            f"it has pgstrata {seen.pgstrata} with {seen.driver}, and the client pgstrata "
            f"{pgstrata.__version__} with {driver}: install the same release, in the same build"
        )
    wrong = max(before - seen.clock, seen.clock - time.time())
    if wrong > CLOCK_SECONDS:
        raise UnfitError(
            f"its clock is {numbers.clock(wrong)} {'behind' if seen.clock < before else 'ahead'}: "
            "set it (timedatectl set-ntp true)"
        )
    if names and not any(fnmatchcase(machine.name, name) for name in names):
        raise UnfitError(f"the campaign names others: {', '.join(names)}")
    return seen


def asked(task: Task) -> Generator[bytes | None, Any, Answer]:
    """Asks a machine something, and returns what it answers."""
    answer = yield encode(task)
    return decode_answer(answer)


def words_of(answer: Answer) -> str:
    """Returns in words an answer that is not the one that was asked for."""
    if isinstance(answer, Unable):
        return answer.message + (f"; {answer.hint}" if answer.hint else "")
    return f"it answered with {type(answer).__name__}"


def _name(seen: SeenMachine, others: Sequence[Machine]) -> str:
    """Returns the host's name, with a part of its identity if another machine has the same name."""
    if any(other.name == seen.name and other.host != seen.host for other in others):
        return f"{seen.name}-{seen.host[:4]}"
    return seen.name


__all__ = ["asked", "look_at", "words_of"]

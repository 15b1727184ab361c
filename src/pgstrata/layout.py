"""Where the memory of a measured process lies: drawn by the kernel at each start, or here for several alike.

Code that lies elsewhere runs at another speed: the same server started again was faster or slower by a
percent on a machine where that was tried (benchmarks/results/layouts.md), for as long as its processes lived
(Mytkowicz, Diwan, Hauswirth and Sweeney, Producing wrong data without doing anything obviously wrong, 2009).
Processes of the same program that are compared get the same layout, so that it cancels.

Where Linux does not randomize, an address space is laid out by the program, the size of its environment and
the limit of its stack (personality(2), ADDR_NO_RANDOMIZE; `mmap_base` in the kernel's sources): libraries and
shared memory lie as far below the stack as that may grow, 128 MiB at least.
"""

from __future__ import annotations

import ctypes
import os
import resource
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NO_RANDOMIZE = 0x0040000
_ASK = 0xFFFFFFFF
# Loaded here: between fork and exec nothing may be imported, another thread could hold the lock.
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.personality.argtypes = [ctypes.c_ulong]

_PAGE = 4096
_PAGES = 1 << 16
"""So many places that libraries and shared memory may have."""

_LEAST_STACK = 256 << 20
"""Above what the kernel takes for the least."""

_GRAIN, _GRAINS = 16, 256
"""A stack begins at a multiple of so many bytes, and at so many of them."""

_ENVIRONMENT = 16 << 10
"""Bytes that arguments and environment are filled up to, or a multiple of it where they need more."""

_FILLER = "PGSTRATA_LAYOUT"

_POINTER = 8
"""Bytes of one to each argument and variable, beside them."""


@dataclass(frozen=True)
class Layout:
    """One that several processes can be given. pages: by so many libraries and shared memory lie lower;
    grains: of 16 bytes, by which the stack begins lower."""

    pages: int
    grains: int

    def filled(self, command: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment, filled up so that together with the command it takes the same bytes for
        every participant: both lie above the stack."""
        words = [*command, *(f"{name}={value}" for name, value in env.items()), f"{_FILLER}="]
        used = sum(len(os.fsencode(word)) + 1 for word in (command[0], *words)) + _POINTER * len(words)
        wanted = -(-used // _ENVIRONMENT) * _ENVIRONMENT + self.grains * _GRAIN
        return {**env, _FILLER: "x" * (wanted - used)}

    def take(self) -> None:
        """Applies this layout in a child between fork and exec: the program it becomes has this layout."""
        not_randomized()
        _, hard = resource.getrlimit(resource.RLIMIT_STACK)
        soft = _LEAST_STACK + self.pages * _PAGE
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def draw() -> Layout | None:
    """Returns a layout drawn by chance; None where the kernel does not allow a choice, as in some
    containers."""
    if not _may_choose():
        return None
    return Layout(secrets.randbelow(_PAGES), secrets.randbelow(_GRAINS))


def not_randomized() -> None:
    """Disables address space randomization in a child between fork and exec: the program lies where it always
    does, if that is permitted."""
    _LIBC.personality(_LIBC.personality(_ASK) | _NO_RANDOMIZE)


def _may_choose() -> bool:
    """Returns whether the kernel lets this thread choose its layout, by trying; the setting is of this thread
    only, and of what it starts."""
    now = _LIBC.personality(_ASK)
    if now == -1 or _LIBC.personality(now | _NO_RANDOMIZE) == -1:
        return False
    _LIBC.personality(now)
    return True


__all__ = ["Layout", "draw", "not_randomized"]

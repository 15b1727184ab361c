"""Storage that answers later (`io_delay`): by a small library that is preloaded into a server.

The library is compiled from `delay.c` beside this file, which says what is delayed, and kept in the cache.
The kernel's device mapper delays disks, too, but by ticks of its clock: 11 ms at least with 250 a second.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import BuildError, ServerError, UsageError
from pgstrata.files import digests
from pgstrata.files.building import building, publish
from pgstrata.server.find.cache import ADVICE, cache_dir, cache_folder, use
from pgstrata.server.system.account import check_reachable, server_account
from pgstrata.server.system.compiler import find_compiler

SOURCE = Path(__file__).with_name("delay.c")
FOLDER = "delay"
LONGEST_SECONDS = 10.0

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", re.ASCII)

_TRIES = 20
_TOO_LONG = 1.5
"""A sleep that takes so many times what was asked for is another delay."""

_PR_SET_TIMERSLACK = 29

DELAYED_BY = "a preloaded library"
"""What people are told of it, and runs keep."""


@dataclass(frozen=True)
class Delay:
    """What a wait for the disk takes longer. library: the compiled one that makes it so."""

    written: str
    seconds: float
    library: Path

    def env(self, data: Path, wal: Path | None, env: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment of a server whose files in these folders answer later, added to the
        environment it has anyway."""
        preloaded = [str(self.library), *filter(None, [env.get("LD_PRELOAD")])]
        return {
            **env,
            "LD_PRELOAD": ":".join(preloaded),
            "PGSTRATA_IO_DELAY": str(round(self.seconds * 1e9)),
            "PGSTRATA_IO_DELAY_DATA": os.path.realpath(data),
            "PGSTRATA_IO_DELAY_WAL": os.path.realpath(wal) if wal is not None else "",
        }


def delay_seconds(text: str) -> float:
    """Returns the seconds of a delay such as `5ms`. Raises UsageError."""
    match = _WRITTEN.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= LONGEST_SECONDS:
        raise UsageError(
            f"io_delay = {text!r} is no delay",
            f'write it like io_delay = "2ms": above 0, with us, ms or s, {LONGEST_SECONDS:.0f} s at most',
        )
    return seconds


def find_delay(text: str | None) -> Delay | None:
    """Returns the delay, with its library compiled if need be; None for none.

    Raises UsageError where it is none, or one that this kernel cannot make, ServerError where there can be no
    library.
    """
    if text is None:
        return None
    seconds = delay_seconds(text)
    shortest = shortest_sleep(seconds)
    if shortest > _TOO_LONG * seconds:
        raise UsageError(
            f"io_delay = {text!r}: this kernel does not sleep for so short a time: the shortest of "
            f"{_TRIES} sleeps took {shortest * 1e6:.0f} us",
            f'io_delay = "{shortest * 1e6 * 2:.0f}us", or a longer one',
        )
    library = _library()
    check_reachable(library.parent, server_account(), "the library that delays")
    return Delay(text.strip(), seconds, library)


def shortest_sleep(seconds: float) -> float:
    """Returns the shortest of several sleeps as it really took, in seconds, with the kernel's timers as exact
    as possible."""
    libc, shortest = ctypes.CDLL(None, use_errno=True), [float("inf")]

    def sleep() -> None:
        # Of this thread alone, which ends.
        libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
        until = time.monotonic() + max(0.1, 2 * seconds)
        for _ in range(_TRIES):
            begun = time.monotonic()
            time.sleep(seconds)
            shortest[0] = min(shortest[0], time.monotonic() - begun)
            if time.monotonic() > until:
                break

    thread = threading.Thread(target=sleep)
    thread.start()
    thread.join()
    return shortest[0]


def _library() -> Path:
    try:
        compiler = find_compiler("")
    except BuildError as error:
        raise ServerError(
            f"io_delay needs a C compiler for the library that delays: {error.message}", error.hint
        ) from error
    text = SOURCE.read_bytes()
    key = digests.of(b"\0".join([text, compiler.version.encode(), platform.machine().encode()]))
    final = cache_folder(FOLDER, make=True) / key[:16]
    made_one = final / "delay.so"
    if made_one.is_file():
        # Root's, or this user's: `cache_folder` has looked at what it lies in.
        cache_folder(FOLDER, final.name)
        use(final)
        return made_one
    try:
        with building(final) as place:
            command = [
                *compiler.command,
                "-O2",
                "-fPIC",
                "-shared",
                "-o",
                str(place / "delay.so"),
                str(SOURCE),
            ]
            done = subprocess.run(
                [*command, "-ldl"], capture_output=True, text=True, errors="replace", timeout=120
            )
            if done.returncode:
                complaint = (done.stderr.strip().splitlines() or ["nothing"])[0]
                raise ServerError(
                    f"the library that delays cannot be compiled: {compiler.text} says: {complaint}"
                )
            (place / "delay.so").chmod(0o755)
            publish(place, final)
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ServerError(
            f"the library that delays cannot be made in {cache_dir()}: {why}", ADVICE
        ) from error
    use(final)
    return made_one


__all__ = ["DELAYED_BY", "Delay", "delay_seconds", "find_delay", "shortest_sleep"]

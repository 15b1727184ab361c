"""Storage that answers later (`io_delay`): by a disk that the kernel delays, where it has what that takes
(`delayed_disk`), else by a small library that is preloaded into a server.

The library is compiled from `delay.c` beside this file, which says what is delayed, and kept in the cache.
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
from typing import Literal

from pgstrata.errors import BuildError, ServerError, UsageError
from pgstrata.files import digests
from pgstrata.files.building import building, publish
from pgstrata.server.find.cache import ADVICE, cache_dir, cache_folder, use
from pgstrata.server.system.account import check_reachable, server_account
from pgstrata.server.system.compiler import find_compiler
from pgstrata.server.system.delayed_disk import FILE_SYSTEM, check_kernel

SOURCE = Path(__file__).with_name("delay.c")
FOLDER = "delay"
LONGEST_SECONDS = 10.0

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", re.ASCII)

_TRIES = 20
_TOO_LONG = 1.5
"""A sleep that takes so many times what was asked for is another delay."""

_PR_SET_TIMERSLACK = 29

DelayedBy = Literal["device", "library"]


@dataclass(frozen=True)
class Delay:
    """What a wait for the disk takes longer. library: the compiled one that makes it so, None where the
    disk of a cluster is a delayed device; by: what people are told of it, and why it is no other."""

    written: str
    seconds: float
    library: Path | None
    by: str

    def env(self, data: Path, wal: Path | None, env: Mapping[str, str]) -> dict[str, str]:
        """The environment of a server whose files in these folders answer later, with what it has anyway."""
        if self.library is None:
            return dict(env)
        preloaded = [str(self.library), *filter(None, [env.get("LD_PRELOAD")])]
        return {
            **env,
            "LD_PRELOAD": ":".join(preloaded),
            "PGSTRATA_IO_DELAY": str(round(self.seconds * 1e9)),
            "PGSTRATA_IO_DELAY_DATA": os.path.realpath(data),
            "PGSTRATA_IO_DELAY_WAL": os.path.realpath(wal) if wal is not None else "",
        }


def delay_seconds(text: str) -> float:
    """`5ms` in seconds. Raises UsageError."""
    match = _WRITTEN.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= LONGEST_SECONDS:
        raise UsageError(
            f"io_delay = {text!r} is no delay",
            f'write it like io_delay = "2ms": above 0, with us, ms or s, {LONGEST_SECONDS:.0f} s at most',
        )
    return seconds


def find_delay(text: str | None, by: DelayedBy | None = None) -> Delay | None:
    """The delay, by a device where this kernel can, or by the library, compiled if need be; None for none.

    by: one of them and no other. Raises UsageError where it is none, or one that this kernel cannot make in
    that way, ServerError where the library cannot be made.
    """
    if text is None:
        return None
    seconds = delay_seconds(text)
    reason = "as asked" if by == "library" else ""
    if not reason:
        try:
            check_kernel(seconds)
        except UsageError as error:
            if by == "device":
                raise UsageError(
                    f"io_delay = {text!r} by a device cannot be: {error.message}",
                    f'{error.hint}; or io_delay_by = "library"',
                ) from error
            reason = f"since {error.message}"
        else:
            how = f"the kernel's device mapper, below a file system ({FILE_SYSTEM}) of its own"
            return Delay(text.strip(), seconds, None, how)
    shortest = shortest_sleep(seconds)
    if shortest > _TOO_LONG * seconds:
        raise UsageError(
            f"io_delay = {text!r}: this kernel does not sleep for so short a time: the shortest of "
            f"{_TRIES} sleeps took {shortest * 1e6:.0f} us",
            f'io_delay = "{shortest * 1e6 * 2:.0f}us", or a longer one',
        )
    library = _library()
    check_reachable(library.parent, server_account(), "the library that delays")
    return Delay(text.strip(), seconds, library, f"a preloaded library, {reason}")


def shortest_sleep(seconds: float) -> float:
    """What the shortest of some sleeps really took, as exact as the kernel can make them."""
    libc, found = ctypes.CDLL(None, use_errno=True), [float("inf")]

    def sleep() -> None:
        # Of this thread alone, which ends.
        libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
        until = time.monotonic() + max(0.1, 2 * seconds)
        for _ in range(_TRIES):
            begun = time.monotonic()
            time.sleep(seconds)
            found[0] = min(found[0], time.monotonic() - begun)
            if time.monotonic() > until:
                break

    thread = threading.Thread(target=sleep)
    thread.start()
    thread.join()
    return found[0]


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
        with building(final) as made:
            command = [
                *compiler.command,
                "-O2",
                "-fPIC",
                "-shared",
                "-o",
                str(made / "delay.so"),
                str(SOURCE),
            ]
            done = subprocess.run(
                [*command, "-ldl"], capture_output=True, text=True, errors="replace", timeout=120
            )
            if done.returncode:
                said = (done.stderr.strip().splitlines() or ["nothing"])[0]
                raise ServerError(f"the library that delays cannot be compiled: {compiler.text} says: {said}")
            (made / "delay.so").chmod(0o755)
            publish(made, final)
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ServerError(
            f"the library that delays cannot be made in {cache_dir()}: {why}", ADVICE
        ) from error
    use(final)
    return made_one


__all__ = ["Delay", "DelayedBy", "delay_seconds", "find_delay", "shortest_sleep"]

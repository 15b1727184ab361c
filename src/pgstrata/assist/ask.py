"""Asks pgstrata itself: each answer is a command in a process of its own, so that it can be ended in time."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import msgspec

from pgstrata.errors import PgstrataError
from pgstrata.process_end import FIRST_SECONDS
from pgstrata.server.system.process import die_with_parent

LONGEST_SECONDS = 86_400.0
READING_SECONDS = 60.0
"""Longest time of an answer that is only read."""
MOST_BYTES = 16 << 20
"""Of an answer; what a command says beside it is kept up to a thousandth of that."""
END_SECONDS = FIRST_SECONDS + 3.0
"""After a signal a command ends by itself within this time."""


class AskError(PgstrataError):
    """A command ended without an answer."""


async def ask(arguments: Sequence[str], seconds: float, accepted: Sequence[int] = (0,)) -> Any:
    """Runs a command of pgstrata and returns the JSON that it prints.

    seconds: after these, and when the task is cancelled, the command is interrupted as by Ctrl-C: it leaves
    nothing running. accepted: exit codes of an answer. Raises AskError with the command's own sentence.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "pgstrata", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        preexec_fn=partial(die_with_parent, signal.SIGINT),
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(seconds):
            answer, stderr, code = await asyncio.gather(
                _read(process.stdout, MOST_BYTES), _last(process.stderr), process.wait()
            )
    except TimeoutError:
        raise AskError(
            f"no answer within {seconds:.0f} s",
            "ask for fewer steps or fewer seconds, or let a person allow more: pgstrata mcp --max-seconds",
        ) from None
    finally:
        await _end(process)
    if code not in accepted:
        raise _failed(stderr, code)
    try:
        return msgspec.json.decode(answer)
    except msgspec.DecodeError:
        raise _failed(stderr, code) from None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Interrupts a command that still runs, and kills it where it does not end."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    # Shielded: a question that is cancelled cannot cut short its end.
    with anyio.CancelScope(shield=True):
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
                return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _read(stream: asyncio.StreamReader, most: int) -> bytes:
    parts, size = [], 0
    while part := await stream.read(1 << 16):
        size += len(part)
        if size > most:
            raise AskError(f"the answer has more than {most >> 20} MB", "ask for fewer steps")
        parts.append(part)
    return b"".join(parts)


async def _last(stream: asyncio.StreamReader) -> str:
    """Returns the end of what a command says: its errors stand last."""
    end = b""
    while part := await stream.read(1 << 14):
        end = (end + part)[-MOST_BYTES // 1000 :]
    return end.decode(errors="replace")


def _failed(stderr: str, code: int) -> AskError:
    """Returns the error that a command has printed, its next step as the hint."""
    lines = stderr.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(("error: ", "failed: "))]
    if not starts:
        return AskError(f"pgstrata ended with code {code} and no word")
    sentence = lines[starts[-1]].partition(": ")[2]
    return AskError(sentence, " ".join(line.strip() for line in lines[starts[-1] + 1 :][:3]))


__all__ = ["LONGEST_SECONDS", "READING_SECONDS", "AskError", "ask"]

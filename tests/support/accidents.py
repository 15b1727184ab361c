"""A full disk, or a process that is killed as by the kernel's OOM killer, at any moment of a command.

Afterwards the command ends with a sentence, nothing runs or is left half made, and the same command goes on.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from support.commands import Command
from support.kills import CLEAN_SECONDS, Room
from support.ledger import Ledger

FULL, KILLED = "full disk", "killed process"
VICTIMS = (
    "postgres",
    "pgstrata-driver",
    "initdb",
    "valgrind.bin",
    "callgrind-amd64-linux",
    "python",
    "make",
    "git",
)
"""Names of processes that a command starts; the kernel kills any of them."""


@dataclass(frozen=True)
class Accident:
    """What happened to a command, and what was wrong with how it ended."""

    command: str
    kind: str
    after: float
    victim: str
    code: int
    sentence: str
    faults: tuple[str, ...]

    def __str__(self) -> str:
        wrong = "; ".join(self.faults) or "right"
        what = f"{self.kind} {self.victim}".strip()
        return f"{self.command}: {what} after {self.after:.1f} s: code {self.code}, {wrong}: {self.sentence}"


@dataclass
class Tally:
    """Accidents, and those that came when the command was over or had nothing to lose."""

    accidents: list[Accident] = field(default_factory=list)
    late: int = 0

    @property
    def faults(self) -> list[str]:
        return [str(accident) for accident in self.accidents if accident.faults]


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Takes all the space of a disk meanwhile."""
    filler = folder / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))
        yield
    finally:
        filler.unlink()


def victim_of(running: subprocess.Popen[bytes], draw: random.Random) -> psutil.Process | None:
    """A process that the command has started, drawn at random."""
    processes = []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(running.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.name().startswith(VICTIMS):
                    processes.append(process)
    return draw.choice(processes) if processes else None


def meet(room: Room, command: Command, kind: str, after: float, draw: random.Random) -> Accident | None:
    """Lets an accident happen, and the same command follow; None where the command was over before."""
    for path in (room.results, room.data, room.place / "new.traffic"):
        subprocess.run(["rm", "-rf", path], check=True)
    if command.fresh:
        subprocess.run(["rm", "-rf", room.cache], check=True)
        room.cache.mkdir()
    running = room.start(*command.arguments, **command.env)
    name = ""
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(after)
            return None
        with contextlib.ExitStack() as stack:
            if kind == FULL:
                stack.enter_context(filled(room.place))
            elif (victim := victim_of(running, draw)) is not None:
                with contextlib.suppress(psutil.Error):
                    name = f"{victim.name()} {' '.join(victim.cmdline()[1:3])[:60]}"
                    victim.kill()
            code = _ended(running, CLEAN_SECONDS + 10 * command.seconds)
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
    output = room.printed
    faults = list(_faults(room, command, code, output))
    sentence = next((line for line in output.splitlines()[::-1] if "error" in line or "failed" in line), "")
    again = room.start(*command.arguments, **command.env)
    follows = _ended(again, CLEAN_SECONDS + 30 * command.seconds)
    # Of a command that was over in time the results are there, which some refuse to make again.
    if follows not in (command.codes if code not in command.codes else (*command.codes, 2)):
        faults.append(f"the same command ends with {follows}: {room.printed[-400:]}")
    faults += room.left_after(3)
    return Accident(command.name, kind, after, name, code, sentence[:160], tuple(faults))


def _ended(running: subprocess.Popen[bytes], seconds: float) -> int:
    """The exit code of a command, that of a kill where it does not end in time."""
    try:
        return running.wait(seconds)
    except subprocess.TimeoutExpired:
        running.kill()
        return running.wait()


def _faults(room: Room, command: Command, code: int, output: str) -> Iterator[str]:
    if code not in (1, *command.codes):
        yield f"exit code {code}: {output[-600:]}"
    if "Traceback" in output or "defect" in output:
        yield f"traceback: {output[-1500:]}"
    if code == 1 and 1 not in command.codes and "error" not in output and "failed" not in output:
        yield f"no sentence: {output[-400:]}"
    yield from room.left_after(5)


def study(
    room: Room,
    commands: list[Command],
    number: int,
    seed: int,
    factor: float,
    say: Callable[[str], None],
    ledger: Ledger,
) -> Tally:
    """Lets `number` accidents happen in all pieces, each kind to each command in turn, at moments drawn at
    random."""
    draw, tally = random.Random(seed), Tally()
    tally.accidents += [Accident(**{**entry, "faults": tuple(entry["faults"])}) for entry in ledger.before]
    known: dict[str, float] = {}
    met = Counter((accident.command, accident.kind) for accident in tally.accidents)
    turns = [(command, kind) for kind in (FULL, KILLED) for command in commands]
    while len(tally.accidents) < number and not ledger.over():
        command, kind = min(turns, key=lambda turn: met[turn[0].name, turn[1]])
        after = draw.uniform(0, known.get(command.name, command.seconds * factor))
        at = time.monotonic()
        accident = meet(room, command, kind, after, draw)
        if accident is None:
            tally.late += 1
            known[command.name] = min(after, time.monotonic() - at)
            continue
        tally.accidents.append(accident)
        met[command.name, kind] += 1
        ledger.add(asdict(accident))
        say(f"{len(tally.accidents)}/{number} {accident}")
    return tally

"""SIGINT at a random moment of every command: how long the end takes, and what is left."""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from pgstrata.server.system.process import die_with_parent
from support.commands import RESULTS, Command, Workshop
from support.kills import CLEAN_SECONDS, INT, Room
from support.ledger import Ledger

FIRST_SECONDS, SECOND_SECONDS = 5.0, 1.0
"""A command ends so soon after the first SIGINT, and after a second one."""

CUT_SHORT = "the next start removes what is left"
"""Printed where cleaning up took too long: folders may be left then, processes may not."""


class Load:
    """Processes that are busy at the priority of pgstrata, and how much of a CPU each of them gets.

    number: how many there would be without other programs, which may take the place of some.
    """

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]], number: int) -> None:
        self._processes = [psutil.Process(process.pid) for process in processes]
        self._expected = min(1.0, len(os.sched_getaffinity(0)) / (number + 1))

    def cpu_seconds(self) -> float:
        """CPU time of one of them until now, on average."""
        times = [process.cpu_times() for process in self._processes]
        return float(sum(cpu_time.user + cpu_time.system for cpu_time in times) / max(1, len(times)))

    def slowdown(self, cpu_seconds: float, seconds: float) -> float:
        """How many times less CPU time than this load alone would leave there was: 1 unless other programs
        used the machine, too."""
        return max(1.0, self._expected * seconds / max(cpu_seconds, 0.01)) if self._processes else 1.0


@contextmanager
def load(number: int, started: int | None = None) -> Iterator[Load]:
    """Keeps `started` processes busy, all `number` of them without."""
    many = number if started is None else min(started, number)
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command, preexec_fn=die_with_parent) for _ in range(many)]
    try:
        yield Load(busy, number)
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()


@dataclass(frozen=True)
class Strike:
    """An interrupted command.

    moment: what it was doing; load: of the machine, average of the last minute; after: seconds from its start
    to the first SIGINT; pause: to the second one, None without; raw_seconds: from the last SIGINT to the end;
    slowdown: by programs that are no part of the load of the study; faults: what was wrong, in a few words.
    """

    command: str
    moment: str
    load: float
    after: float
    pause: float | None
    group: bool
    raw_seconds: float
    slowdown: float
    is_cut_short: bool
    faults: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """How long the end would have taken under the load of the study alone."""
        return self.raw_seconds / self.slowdown

    def __str__(self) -> str:
        second = "" if self.pause is None else f", again after {self.pause:.2f} s"
        to = "group" if self.group else "process"
        cut = ", cut short" if self.is_cut_short else ""
        wrong = "; ".join(self.faults) or "nothing left"
        return (
            f"{self.command}: {to} after {self.after:.2f} s ({self.moment}){second}; ended after "
            f"{self.seconds:.2f} s (by the clock {self.raw_seconds:.2f} s){cut}; {wrong}"
        )


@dataclass
class Study:
    """Strikes of several lanes and the seconds that each command is known to take here."""

    commands: Sequence[Command]
    draw: random.Random
    strikes: list[Strike] = field(default_factory=list)
    late: int = 0
    begun: Counter[str] = field(default_factory=Counter)
    errors: list[BaseException] = field(default_factory=list)
    known: dict[str, float] = field(default_factory=dict)
    pace: float = 1.0
    """How many times slower than under its own load alone the study is of late."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def table(self) -> str:
        """p50, p99 and the longest end of each command, after one SIGINT and after the second of two."""
        lines = [f"{'command':<18}{'once':>6}{'p50':>7}{'p99':>7}{'max':>7}{'twice':>7}{'p50':>7}{'max':>7}"]
        for name in [*dict.fromkeys(strike.command for strike in self.strikes), ""]:
            mine = [strike for strike in self.strikes if name in ("", strike.command)]
            once = sorted(strike.seconds for strike in mine if strike.pause is None)
            twice = sorted(strike.seconds for strike in mine if strike.pause is not None)
            lines.append(
                f"{name or 'all':<18}{len(once):>6}{_at(once, 0.5)}{_at(once, 0.99)}{_at(once, 1)}"
                f"{len(twice):>7}{_at(twice, 0.5)}{_at(twice, 1)}"
            )
        quick = (f"{share} {limit} s: {100 * sum(s <= limit for s in seconds) / max(1, len(seconds)):.1f} %"
                 for share, limit, seconds in self._limits())  # fmt: skip
        lines.append("ended within " + ", ".join(quick))
        faults = sum(bool(strike.faults) for strike in self.strikes)
        cut = sum(strike.is_cut_short for strike in self.strikes)
        lines.append(
            f"{len(self.strikes)} interrupts, {self.late} too late, {cut} cut short, {faults} with faults"
        )
        return "\n".join(lines)

    def _limits(self) -> Iterator[tuple[str, float, list[float]]]:
        yield "once", FIRST_SECONDS, [strike.seconds for strike in self.strikes if strike.pause is None]
        yield "twice", SECOND_SECONDS, [strike.seconds for strike in self.strikes if strike.pause is not None]


def _at(seconds: Sequence[float], share: float) -> str:
    if not seconds:
        return f"{'':>7}"
    return f"{seconds[max(0, math.ceil(share * len(seconds)) - 1)]:>7.2f}"


def strike(
    room: Room, busy: Load, command: Command, after: float, pause: float | None, group: bool
) -> tuple[Strike | None, float]:
    """Starts a command, interrupts it and returns what came of that, or None where it had ended before; and
    the seconds that it took."""
    _empty(room, command)
    begun = time.monotonic()
    running = room.start(*command.arguments, **command.env)
    try:
        try:
            code = running.wait(after)
        except subprocess.TimeoutExpired:
            pass
        else:
            took = time.monotonic() - begun
            if code in command.codes:
                return None, took
            fault = f"ended by itself with exit code {code}: {room.printed[-1500:]}"
            return Strike(
                command.name, "", os.getloadavg()[0], took, None, group, 0.0, 1.0, False, (fault,)
            ), took
        room.look()
        moment = _moment(room, running)
        at, again, used = time.monotonic(), None, busy.cpu_seconds()
        _send(running, group)
        if pause is not None:
            try:
                code = running.wait(pause)
            except subprocess.TimeoutExpired:
                room.look()
                at = again = time.monotonic()
                used = busy.cpu_seconds()
                _send(running, group)
        try:
            code = running.wait(CLEAN_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            code = running.wait()
        seconds = time.monotonic() - at
        slowdown = busy.slowdown(busy.cpu_seconds() - used, seconds)
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
    is_cut_short = CUT_SHORT in room.printed
    faults = list(_faults(room, command, code, seconds / slowdown, slowdown, again is not None, is_cut_short))
    second = pause if again is not None else None
    struck = Strike(
        command.name,
        moment,
        os.getloadavg()[0],
        after,
        second,
        group,
        seconds,
        slowdown,
        is_cut_short,
        tuple(faults),
    )
    if faults:
        room.next_start()
    return struck, time.monotonic() - begun


def _moment(room: Room, running: subprocess.Popen[bytes]) -> str:
    """What a command is doing: the programs that it has started, and what it has said last."""
    names: Counter[str] = Counter()
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(running.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                names[process.name()] += 1
    last_line = (room.printed.strip().splitlines() or ["nothing said"])[-1]
    return f"{', '.join(sorted(names)) or 'alone'}: {last_line[:80]}"


def _faults(
    room: Room, command: Command, code: int, seconds: float, slowdown: float, again: bool, is_cut_short: bool
) -> Iterator[str]:
    """slowdown: seconds until what a command has killed has to be gone."""
    most = SECOND_SECONDS if again else FIRST_SECONDS
    if seconds > most:
        yield f"took {seconds:.2f} s"
    # It may end by itself just then, and Python may not have begun yet, or be about to end.
    ours = "pgstrata" in room.printed
    if code not in (128 + INT, -INT, *command.codes) and (ours or code != 1):
        yield f"exit code {code}: {room.printed[-500:]}"
    if ("Traceback" in room.printed and ours) or "defect" in room.printed:
        yield f"traceback: {room.printed[-1500:]}"
    if is_cut_short:
        yield from room.left_after(slowdown, "process")
        room.look()
        room.next_start()
        # The same command would clear these: it has results in a folder of its own.
        for folder in room.results.rglob("*.building"):
            room.next_start(folder.parents[3])
    if left := room.left_after(slowdown):
        yield from left
        yield f"said: {room.printed[-300:]}"


def _send(running: subprocess.Popen[bytes], group: bool) -> None:
    if group:
        os.killpg(running.pid, signal.SIGINT)
    else:
        running.send_signal(signal.SIGINT)


def _empty(room: Room, command: Command) -> None:
    shutil.rmtree(room.place / RESULTS, ignore_errors=True)
    (room.place / "new.traffic").unlink(missing_ok=True)
    if command.fresh:
        shutil.rmtree(room.cache)
        room.cache.mkdir()


def study(
    rooms: Sequence[Room],
    busy: Load,
    shop: Workshop,
    number: int,
    seed: int,
    say: Callable[[str], None],
    factor: float,
    ledger: Ledger,
) -> Study:
    """Interrupts `number` times in all pieces, at moments drawn at random, in every room beside the others.

    Each command is interrupted as often as any other. factor: how many times as long as on an idle machine
    commands take here.
    """
    tally = Study(shop.commands, random.Random(seed))
    tally.strikes += [Strike(**{**entry, "faults": tuple(entry["faults"])}) for entry in ledger.before]
    tally.begun.update(past.command for past in tally.strikes)

    def lane(room: Room) -> None:
        while True:
            with tally.lock:
                if tally.begun.total() >= number or ledger.over():
                    return
                command = min(tally.commands, key=lambda candidate: tally.begun[candidate.name])
                tally.begun[command.name] += 1
                most = tally.known.get(command.name, command.seconds * factor * tally.pace)
                after = tally.draw.uniform(0, most)
                pause = tally.draw.uniform(0.25, 1.5) if tally.draw.random() < 0.3 else None
                group = tally.draw.random() < 0.5
            struck, seconds = strike(room, busy, command, after, pause, group)
            with tally.lock:
                if struck is None:
                    tally.late += 1
                    tally.begun[command.name] -= 1
                    tally.known[command.name] = min(seconds, most)
                    continue
                tally.strikes.append(struck)
                tally.pace += 0.3 * (struck.slowdown - tally.pace)
                ledger.add(asdict(struck))
                say(f"{len(tally.strikes)}/{number} {struck}")

    def guarded(room: Room) -> None:
        try:
            lane(room)
        except BaseException as error:
            tally.errors.append(error)

    threads = [threading.Thread(target=guarded, args=(room,)) for room in rooms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def rooms_in(place: Path, number: int) -> list[Path]:
    """Folders of lanes below `place`."""
    return [place / f"lane-{n}" for n in range(number)]

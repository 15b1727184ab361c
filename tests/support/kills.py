"""Killing pgstrata in a phase of its work, and counting what is left of it afterwards.

A `Room` is a private place for shared memory, so that every segment in it is pgstrata's; without root it is
the machine's, and what was there before does not count. A `Phase` is a campaign and when to strike.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from pgstrata.server.system import control_groups
from support.interleaved import text as interleaved
from support.program import environment, living_in

KILL, INT, TERM, HUP = signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP
SIGNALS = (KILL, INT, TERM, HUP)
CLEAN_SECONDS = 120.0
"""How long pgstrata may take to clean up on a machine that does much else."""


class Room:
    """Runs pgstrata below `place` and finds what is left of it: processes, shared memory, groups, folders."""

    NAMESPACES: tuple[str, ...] = ("--ipc", "--mount")

    def __init__(self, place: Path) -> None:
        self.place = place
        self.data, self.results = place / "data", place / "results"
        self.cache, self.temporary = place / "cache", place / "tmp"
        for folder in (self.cache, self.temporary):
            folder.mkdir(exist_ok=True)
        self.output = place / "said"
        self._holder: subprocess.Popen[bytes] | None = None
        self._seen: set[str] = set()
        self._before: set[str] = set()

    def __enter__(self) -> Room:
        if os.geteuid() == 0:
            # Shared memory of its own: System V by a namespace, POSIX by a file system.
            inside = f"{self.mounts()} && echo ready && exec sleep 100000"
            self._holder = subprocess.Popen(
                ["unshare", *self.NAMESPACES, "sh", "-c", inside], stdout=subprocess.PIPE, cwd="/"
            )
            assert self._holder.stdout is not None
            if self._holder.stdout.readline() != b"ready\n":
                self._holder.wait()
                self._holder = None
        self._before = set(self._memory()) | {f"process {process.pid}" for process in living_in(self.place)}
        return self

    def __exit__(self, *unused: object) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()
            assert self._holder.stdout is not None
            self._holder.stdout.close()

    def mounts(self) -> str:
        """A shell command that mounts what the room has apart from the machine."""
        return "mount -t tmpfs -o mode=1777 tmpfs /dev/shm"

    def start(self, *arguments: str | Path, **more: str) -> subprocess.Popen[bytes]:
        """Starts pgstrata in a process group of its own, as a terminal does, with SIGINT at its default,
        which the parent may have ignored; its output is in `said`. more: of its environment."""
        program = [*self.interpreter(), "-m", "pgstrata", *map(str, arguments)]
        with self.output.open("wb") as output:
            return subprocess.Popen(
                [*self.inside(), *program],
                cwd=self.place,
                env=environment(**{"PGSTRATA_CACHE": str(self.cache), "TMPDIR": str(self.temporary), **more}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )

    @property
    def printed(self) -> str:
        return self.output.read_text()

    def next_start(self, results: Path | None = None) -> None:
        """The next pgstrata: it clears what it finds, and then has nothing to do."""
        options: list[str | Path] = ["--data-dir", self.data, "--results", results or self.results]
        options.append("--no-report")
        self.start("run", "--server", "path:/nowhere", "--workload", "pgbench", *options).wait(CLEAN_SECONDS)
        assert "there is no PostgreSQL in /nowhere" in self.printed, self.printed

    def look(self) -> None:
        """Remembers which clusters there are: groups are named after them."""
        if self.data.is_dir():
            self._seen |= {path.name for path in self.data.iterdir()}

    def left(self) -> list[str]:
        """All that is left, each in a few words."""
        here = {f"process {process.pid}" for process in living_in(self.place)}
        leftovers = sorted(here - self._before)
        leftovers += sorted(set(self._memory()) - self._before)
        leftovers += [f"group {g}" for g in groups_here() if any(name in g.name for name in self._seen)]
        leftovers += [f"folder {p}" for p in (self.data, self.temporary) if p.is_dir() for p in p.iterdir()]
        hidden = [
            *self.results.rglob("*.building"),
            *self.cache.rglob(".*building*"),
            *self.cache.rglob("*.part"),
            *self.cache.glob("building/*"),
        ]
        leftovers += [f"folder {path}" for path in hidden]
        return leftovers

    def left_after(self, seconds: float, kind: str = "") -> list[str]:
        """What is still left, of a kind or at all, after some time in which it may go by itself."""
        until = time.monotonic() + seconds
        while (left := [what for what in self.left() if what.startswith(kind)]) and time.monotonic() < until:
            time.sleep(0.1)
        return left

    def interpreter(self) -> list[str]:
        """The beginning of a command that runs Python in the room."""
        return [sys.executable]

    def inside(self) -> list[str]:
        """The beginning of a command that enters the room."""
        if self._holder is None:
            return []
        return ["nsenter", "--target", str(self._holder.pid), *self.NAMESPACES, f"--wdns={self.place}"]

    def _memory(self) -> Iterator[str]:
        """Segments and semaphores as the kernel lists them, not as pgstrata finds them."""
        mine = [] if self._holder else [str(os.geteuid())]
        for kind, column in (("shm", 7), ("sem", 4)):
            listed = self._asked("cat", f"/proc/sysvipc/{kind}").splitlines()[1:]
            for row in (line.split() for line in listed):
                if not mine or row[column] in mine:
                    yield f"{kind} {row[1]}"
        who = ["-user", mine[0]] if mine else []
        for path in self._asked("find", "/dev/shm", "-type", "f", *who).split():
            yield f"file {path}"

    def _asked(self, *command: str) -> str:
        return subprocess.run([*self.inside(), *command], capture_output=True, text=True, cwd="/").stdout


@dataclass(frozen=True)
class Phase:
    """Where pgstrata is struck.

    campaign: text of its file, with {server}, a spec. begun: whether the phase has begun, asked with the
    running program; spread: seconds after that within which it is struck. fresh: the cache is emptied before.
    """

    name: str
    campaign: str
    begun: Callable[[Room, psutil.Process], bool]
    spread: float
    fresh: bool = False


@dataclass
class Tally:
    """What a loop has done: strikes by phase and signal, those that came too late, and what was left."""

    strikes: Counter[tuple[str, str]] = field(default_factory=Counter)
    late: int = 0
    left: list[str] = field(default_factory=list)

    def table(self) -> str:
        names = [s.name for s in SIGNALS]
        lines = [f"{'phase':<24}" + "".join(f"{name:>9}" for name in names)]
        for phase in dict.fromkeys(phase for phase, _ in self.strikes):
            lines.append(f"{phase:<24}" + "".join(f"{self.strikes[phase, name]:>9}" for name in names))
        total = sum(self.strikes.values())
        return "\n".join(
            [*lines, f"{total} kills, {self.late} came too late, {len(self.left)} left something"]
        )


def strike(room: Room, phase: Phase, server: str, number: signal.Signals, after: float, tally: Tally) -> None:
    """Runs the campaign of a phase, sends one signal and looks for what is left.

    After a signal that can be caught nothing may be left when pgstrata has ended; after kill -9 no
    process may live, and nothing may be left when the next pgstrata has started.
    """
    if phase.fresh:
        shutil.rmtree(room.cache)
        room.cache.mkdir()
    shutil.rmtree(room.results, ignore_errors=True)
    file = room.place / "campaign.toml"
    file.write_text(f'name = "kills"\n{phase.campaign.format(server=server)}')
    running = room.start("run", file, "--no-report")
    try:
        about = psutil.Process(running.pid)
        while running.poll() is None and not _begun(phase, room, about):
            time.sleep(0.03)  # the look at all processes takes its time, too
        time.sleep(after)
        room.look()
        if running.poll() is not None:
            assert running.returncode == 0, room.printed
            tally.late += 1
            left = room.left_after(5)
        else:
            running.send_signal(number)
            code = running.wait(CLEAN_SECONDS)
            # It may have ended by itself between the look and the signal.
            tally.strikes[phase.name, number.name] += 1
            if number == KILL:
                left = room.left_after(20, "process")
                room.look()
                room.next_start()
                left += room.left_after(5)
            else:
                assert code in (128 + number, 0), f"exit code {code}\n{room.printed}"
                left = room.left_after(1)
                assert "Traceback" not in room.printed and "defect" not in room.printed, room.printed
        tally.left += [f"{phase.name}, {number.name} after {after:.3f} s: {what}" for what in left]
        if left:
            room.next_start()
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()


def _begun(phase: Phase, room: Room, program: psutil.Process) -> bool:
    room.look()
    try:
        return phase.begun(room, program)
    except psutil.Error:
        return False


def loop(
    room: Room, phases: list[Phase], server: str, kills: int, seed: int, say: Callable[[str], None]
) -> Tally:
    """Strikes `kills` times, every phase as often as any other, with signals and moments drawn at random."""
    draw, tally, number = random.Random(seed), Tally(), 0
    while sum(tally.strikes.values()) < kills:
        phase = phases[number % len(phases)]
        number += 1
        sent, after = draw.choice(SIGNALS), draw.uniform(0, phase.spread)
        before = len(tally.left)
        strike(room, phase, server, sent, after, tally)
        left = "; ".join(tally.left[before:]) or "nothing left"
        say(f"{sum(tally.strikes.values())}/{kills} {phase.name} {sent.name} after {after:.2f} s; {left}")
        assert number < 4 * kills, f"most kills come too late:\n{tally.table()}"
    return tally


# --- phases -----------------------------------------------------------------------------------


def runs(name: str, *words: str) -> Callable[[Room, psutil.Process], bool]:
    """A descendant of this name, or of any with "", whose command line has these words."""

    def begun(room: Room, program: psutil.Process) -> bool:
        for process in program.children(recursive=True):
            if name in ("", process.name()) and all(word in " ".join(process.cmdline()) for word in words):
                return True
        return False

    return begun


def has_segment(room: Room, program: psutil.Process) -> bool:
    """A server that initdb runs has its shared memory: that stands in its pid file."""
    for file in room.data.glob("*/data/postmaster.pid"):
        lines = file.read_text().splitlines()
        if len(lines) > 6 and lines[0].startswith("-") and lines[6].strip():
            return True
    return False


def has_group(room: Room, program: psutil.Process) -> bool:
    """There is a control group, and soon a server in it."""
    return any(name in group.name for name in room._seen for group in groups_here())


def groups_here() -> set[Path]:
    """Control groups that pgstrata has made."""
    places = control_groups.version_2()
    for controller in ("memory", "freezer"):
        places += control_groups.version_1(controller)
    return {group for place in places for group in place.parent.glob("pgstrata-*")}


def has_folder(room: Room, program: psutil.Process) -> bool:
    return room.data.is_dir() and any(room.data.iterdir())


def works(room: Room, program: psutil.Process) -> bool:
    """A backend serves the driver."""
    return any(
        words and words[0].startswith("postgres: ") and " pgstrata " in f"{words[0]} "
        for words in (process.cmdline() for process in program.children(recursive=True))
    )


ONE = """
data_dir = "data"
[[variants]]
server = "{server}"
[[workloads]]
name = "pgbench"
[workloads.options]
scale = 1
builtin = ["select-only"]
modes = ["simple"]
clients = [2]
seconds = 3
"""
LIMITED = ONE.replace('server = "{server}"\n', 'server = "{server}"\nmemory = "256MB"\n')
VERDICT, WINDOWS = (
    interleaved(
        "{server}", ["point-query"], slice_=slice_, more='until = "verdict"\nmax_seconds = 8', seconds=3
    )
    for slice_ in (0.5, 0.02)
)
ROUNDS = interleaved("{server}", ["update-index"])
FROZEN = interleaved("{server}", ["update-index"], more='turns = "frozen"\nwindow_seconds = 0.2', writes=4)
TPCDS = """
data_dir = "data"
[[variants]]
server = "{server}"
[[workloads]]
name = "tpcds"
[workloads.options]
scale = 0.01
queries = "3 7 9"
streams = 2
time_limit = 60
"""


def phases(limited: bool, archive: Path) -> list[Phase]:
    """All there are.

    limited: groups can be made here, so the phases with one are among them; archive: the source of a server.
    """
    source = ONE.replace("{server}", f"tar:{archive}")
    several = [
        Phase("beginning", ONE, has_folder, 0.2),
        Phase("initdb", ONE, runs("initdb"), 3.0),
        Phase("memory of initdb", ONE, has_segment, 0.3),
        Phase("start of the server", ONE, runs("postgres", "-D"), 0.5),
        Phase("load and measuring", ONE, works, 4.0),
        Phase("until the verdict", VERDICT, works, 6.0),
        Phase("windows", WINDOWS, works, 6.0),
        Phase("snapshots and rounds", ROUNDS, runs("cp"), 4.0),
        Phase("frozen turns", FROZEN, works, 5.0),
        Phase("configuring a build", source, runs("", "/configure"), 5.0),
        Phase("build", source, runs("make"), 10.0),
        Phase("TPC-DS data", TPCDS, runs("tpcgen-cli"), 4.0, fresh=True),
        Phase("TPC-DS answers", TPCDS, runs("python", "tpcds.answering"), 2.0, fresh=True),
        Phase("TPC-DS", TPCDS, works, 6.0),
    ]
    if limited:
        several += [Phase("group", LIMITED, has_group, 0.3), Phase("limited server", LIMITED, works, 3.0)]
    return several


def end_when(room: Room, file: Path, number: signal.Signals, reached: Callable[[], bool]) -> None:
    """Ends pgstrata by a signal as soon as something is there."""
    running = room.start("run", file, "--no-report")
    try:
        until = time.monotonic() + 240
        while running.poll() is None and not reached():
            assert time.monotonic() < until, room.printed
            time.sleep(0.01)
        assert running.poll() is None, room.printed
        running.send_signal(number)
        assert running.wait(CLEAN_SECONDS) == (-KILL if number == KILL else 128 + number), room.printed
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
    assert not any(what.startswith("process") for what in room.left_after(20))


def run(room: Room, *arguments: str | Path) -> str:
    """Runs a campaign to its end, and returns what was said."""
    running = room.start("run", *arguments)
    assert running.wait(240) == 0, room.printed
    return room.printed

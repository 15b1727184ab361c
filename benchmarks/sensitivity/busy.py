"""How often verdicts are wrong on a busy machine, of equal servers and of a planted slowdown.

    python benchmarks/sensitivity/busy.py --hours 4
    python benchmarks/sensitivity/busy.py --hours 1 --condition "2 loops" --procedure verdict
    python benchmarks/sensitivity/busy.py --print           the tables of what is there, without measuring
    python benchmarks/sensitivity/busy.py --smoke           minutes; says nothing but that it works

Beside each load, a server is compared with itself, and with itself slowed down by slow.c (--planted, 3 %), by
each procedure with a campaign's defaults, all CPUs available, nothing pinned by hand:

    fixed     windows of 20 ms, a fixed 2.5 s of each server     six reading steps of sysbench
    verdict   windows of 20 ms until the verdict is known        the same
    slices    slices of 0.5 s with connections of their own      the same
    frozen    frozen turns                                       two writing steps of sysbench
    rounds    whole rounds in turn                               the same

The exception is --max-seconds (60): beside a load that never ends, `verdict` would take its 240 s each time.

Each finished campaign is one line of --out with all of its verdicts. The cell with the smallest part of its
verdicts comes next, and the same command goes on where it was stopped, in whatever way. A cell is done with
--verdicts (200), or --planted-verdicts (20) of a slowed server. Wrong words of equal servers are `slower` and
`faster`, of a slowed one `same` and `faster`.

`--condition others --planted-verdicts 0` starts no load: the machine is busy with whatever else runs on it,
and the load average of each campaign is kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgstrata.server.system.process import die_with_parent

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sensitivity.measure import append, begun, build, read

Json = dict[str, Any]

READING = ["point-query", "random-points=100", "points-covered-si", "range-notcovered-pk"]
READING += ["read-only=10", "read-only=100"]
WRITING = ["update-index", "read-write=10"]
WINDOWS = 'order = "interleaved"\nslice_seconds = 0.02'
ROUNDS = 'order = "interleaved"\nslice_seconds = 0.02\nrounds = 10'
SAME = ("server", "rows", "max_seconds", "planted")
"""Arguments that may not differ between the lines of one file."""

LOOP = "while True: pass"
HOG = """
import numpy
a = numpy.ones(1 << 25)
b = numpy.empty_like(a)
while True:
    numpy.copyto(b, a)
"""
SYNC = """
import os, sys
with open(sys.argv[1], "wb", buffering=0) as file:
    for number in range(1 << 60):
        file.seek((number % 256) << 20)
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())
"""
COMPILE = """
import subprocess, sys
text = "".join(f"int f{n}(int x) {{ int y = x; for (int i = 0; i < x; i++) y += i * {n}; return y; }}\\n"
               for n in range(3000))
while True:
    subprocess.run(["cc", "-O2", "-c", "-x", "c", "-o", "/dev/null", "-"], input=text.encode(), check=True)
"""


@dataclass(frozen=True)
class Procedure:
    """How servers are compared. head: of the campaign; more: options of its workload."""

    steps: Sequence[str]
    head: str
    more: str = ""


PROCEDURES: Mapping[str, Procedure] = {
    "fixed": Procedure(READING, WINDOWS, "read_seconds = 2.5"),
    "verdict": Procedure(READING, f'{WINDOWS}\nuntil = "verdict"'),
    "slices": Procedure(READING, 'order = "interleaved"\nslice_seconds = 0.5', "read_seconds = 10"),
    "frozen": Procedure(WRITING, ROUNDS, "write_seconds = 1"),
    "rounds": Procedure(WRITING, f'{ROUNDS}\nturns = "rounds"', "write_seconds = 1"),
}

OTHERS = "others"
"""A condition that starts nothing: the machine is busy with whatever else runs on it."""


class Loads:
    """Programs beside the measurement. folder: where those that write do so; server: of another campaign."""

    def __init__(self, folder: Path, server: str) -> None:
        self._folder, self._server = folder, server
        self._running: list[subprocess.Popen[bytes]] = []
        self._over = threading.Event()

    def python(self, text: str, number: int, *words: object) -> None:
        """Starts this many programs."""
        for _ in range(number):
            command = [sys.executable, "-c", text, *map(str, words)]
            self._running.append(
                subprocess.Popen(
                    command,
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    preexec_fn=die_with_parent,
                )
            )

    def on_and_off(self) -> None:
        """Two busy loops that work for 3 s and rest for 3 s."""
        self.python(LOOP, 2)
        loops = list(self._running)

        def switch() -> None:
            for number in itertools.cycle((signal.SIGSTOP, signal.SIGCONT)):
                if self._over.wait(3):
                    return
                for loop in loops:
                    loop.send_signal(number)

        threading.Thread(target=switch, daemon=True).start()

    def campaign(self) -> None:
        """Another pgstrata, which compares a server with itself as well."""
        file = write(
            self._folder / "beside", self._server, 10_000, PROCEDURES["verdict"], "max_seconds = 600"
        )
        place = file.parent
        words = [
            "--no-report",
            "--fresh",
            "--results",
            str(place / "results"),
            "--data-dir",
            str(place / "data"),
        ]
        command = [sys.executable, "-m", "pgstrata", "run", str(file), *words]
        self.python(f"import subprocess\nwhile True:\n    subprocess.run({command})", 1)

    def begin(self, condition: str) -> None:
        """Starts what a condition asks for."""
        begin: Mapping[str, Callable[[], None]] = {
            "quiet": lambda: None,
            OTHERS: lambda: None,
            **{f"{n} loop{'s' * (n > 1)}": lambda n=n: self.python(LOOP, n) for n in (1, 2, 4, 8)},  # type: ignore[misc]
            "4 compilers": lambda: self.python(COMPILE, 4),
            "memory": lambda: self.python(HOG, 1),
            "fsync": lambda: self.python(SYNC, 1, self._folder / "sync"),
            "on and off": self.on_and_off,
            "campaign": self.campaign,
        }
        begin[condition]()

    def end(self) -> None:
        """Ends all of them; a campaign takes its servers with it."""
        self._over.set()
        for process in self._running:
            with ExitStack() as stack:
                stack.callback(process.wait)
                for number in (signal.SIGCONT, signal.SIGTERM):
                    os.killpg(process.pid, number)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)


CONDITIONS: tuple[str, ...] = (
    *("quiet", "1 loop", "2 loops", "4 loops", "8 loops"),
    *("4 compilers", "memory", "fsync", "on and off", "campaign"),
)


@contextmanager
def beside(condition: str, folder: Path, server: str) -> Iterator[None]:
    """Keeps the machine busy meanwhile."""
    loads = Loads(folder, server)
    try:
        loads.begin(condition)
        time.sleep(0.5)
        yield
    finally:
        loads.end()


def write(
    place: Path,
    server: str,
    rows: int,
    procedure: Procedure,
    more: str = "",
    env: Sequence[Mapping[str, str]] = ({}, {}),
) -> Path:
    """Writes a campaign into a folder of its own that compares a server with itself. more: of its head; env:
    environment variables of both."""
    place.mkdir(parents=True, exist_ok=True)
    variants = "".join(
        f'[[variants]]\nserver = "{server}"\nlabel = "{label}"\n'
        f"env = {{ {', '.join(f'{name} = {json.dumps(value)}' for name, value in of.items())} }}\n"
        for label, of in zip(("base", "other"), env, strict=True)
    )
    file = place / "busy.toml"
    file.write_text(
        f"{procedure.head}\n{more}\n{variants}"
        f'[[workloads]]\nname = "sysbench"\n[workloads.options]\nrows = {rows}\n{procedure.more}\n'
        f"cache_seconds = 0\nsettle_base = 0\nsteps = {json.dumps(list(procedure.steps))}\n"
    )
    return file


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """pgstrata to its end, orderly where the benchmark is stopped."""
    command = [sys.executable, "-m", "pgstrata", *map(str, words)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=die_with_parent)
    try:
        out, error = process.communicate()
    except BaseException:
        process.terminate()
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, error)


@dataclass(frozen=True)
class Compared:
    """A finished campaign. steps: as `pgstrata compare` prints them; wall, measured: seconds."""

    steps: Sequence[Json]
    wall: float
    measured: float


def compare(
    a: argparse.Namespace, folder: Path, procedure: Procedure, more: str, burn: int, condition: str = "quiet"
) -> Compared:
    """Compares the server with itself, slowed down by `burn`, beside a load. Raises SystemExit where that
    fails."""
    env = [{"LD_PRELOAD": str(folder / "slow.so"), "PGSTRATA_BURN": str(rounds)} for rounds in (0, burn)]
    place = Path(tempfile.mkdtemp(prefix="campaign-", dir=folder))
    place.chmod(0o755)
    file, results = write(place, a.server, a.rows, procedure, more, env), place / "results"
    begin = time.monotonic()
    with beside(condition, folder, a.server):
        done = run("run", file, "--no-report", "--results", results, "--data-dir", place / "data")
    wall = time.monotonic() - begin
    asked = run("compare", "base", "other", "--format", "json", "--results", results)
    if done.returncode or asked.returncode:
        raise SystemExit(f"{condition}: {done.stdout[-2000:]}{done.stderr[-2000:]}{asked.stderr[-2000:]}")
    records = [json.loads(path.read_text()) for path in results.glob("*/*/*/*/run.json")]
    measured = sum(s["seconds"] for record in records for s in record["steps"] if s.get("slices"))
    return Compared(json.loads(asked.stdout)[0]["steps"], round(wall, 1), round(measured, 1))


def line_of(a: argparse.Namespace, folder: Path, burn: int, job: Json) -> Json:
    """One campaign beside its load, as a line of the file."""
    more = f"max_seconds = {a.max_seconds}" if job["procedure"] == "verdict" else ""
    compared = compare(a, folder, PROCEDURES[job["procedure"]], more, burn, job["condition"])
    kept = ("step", "word", "ratio", "low", "high", "n", "disturbance")
    steps = [{name: step.get(name) for name in kept} for step in compared.steps]
    times = {"wall": compared.wall, "measured": compared.measured, "load": round(os.getloadavg()[1], 1)}
    return {**job, "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **times, "steps": steps}


def calibrated(a: argparse.Namespace, folder: Path) -> int:
    """Rounds that slow down a message of point-query by the planted share: from two that are tried."""
    burn = 20_000
    fixed = Procedure(["point-query"], WINDOWS, "read_seconds = 10")
    for _ in range(2):
        ratio = compare(a, folder, fixed, "other_load = 1.0", burn).steps[0]["ratio"]
        print(f"burning {burn} makes the rate {ratio:.4f} of what it was", flush=True)
        burn = max(1, round(burn * (1 / (1 - a.planted) - 1) / max(1e-3, 1 / ratio - 1)))
    return burn


def jobs(a: argparse.Namespace, lines: Sequence[Json]) -> Iterator[Json]:
    """What is still to do, the cell with the fewest verdicts first."""
    cells = [
        (share, condition, procedure)
        for share in (0.0, a.planted)
        for condition in a.condition or CONDITIONS
        for procedure in a.procedure or PROCEDURES
    ]
    wanted = {cell: a.verdicts if cell[0] == 0 else a.planted_verdicts for cell in cells}
    there = dict.fromkeys(cells, 0)
    for line in lines:
        cell = (line["share"], line["condition"], line["procedure"])
        if cell in there:
            there[cell] += len(line["steps"])
    while True:
        share = {cell: there[cell] / wanted[cell] for cell in cells if there[cell] < wanted[cell]}
        if not share:
            return
        cell = min(share, key=lambda cell: (share[cell], cells.index(cell)))
        there[cell] += len(PROCEDURES[cell[2]].steps)
        yield dict(zip(("share", "condition", "procedure"), cell, strict=True))


def measure(a: argparse.Namespace) -> None:
    """Makes campaigns until all cells are done or the time is up."""
    end = time.monotonic() + a.hours * 3600
    with tempfile.TemporaryDirectory(prefix="pgstrata-busy-", dir="/var/tmp") as name:
        folder = Path(name)
        build(folder)
        lines = begun(a, SAME, lambda: {"burn": calibrated(a, folder) if a.planted_verdicts else 0})
        for job in jobs(a, lines[1:]):
            if time.monotonic() > end:
                print("the time is up; the same command goes on")
                return
            line = line_of(a, folder, lines[0]["burn"] if job["share"] else 0, job)
            append(a.out, line)
            words = " ".join(step["word"] for step in line["steps"])
            print(
                f"{job['share']:.0%} {job['condition']}, {job['procedure']}: {words}, {line['wall']} s",
                flush=True,
            )


def table(lines: Sequence[Json], planted: float) -> str:
    """Markdown: a table of equal servers, and one of a slowed one."""
    texts = []
    for share in (0.0, planted):
        rows = [
            f"{'Equal servers' if share == 0 else f'{share:.0%} slower'}:\n",
            "| beside it | procedure | verdicts | slower | faster | same | unclear | of these disturbed "
            "| intervals without the truth | measured of the time |",
            "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for condition, procedure in itertools.product((*CONDITIONS, OTHERS), PROCEDURES):
            chosen = [
                x
                for x in lines
                if (x["share"], x["condition"], x["procedure"]) == (share, condition, procedure)
            ]
            steps = [step for line in chosen for step in line["steps"]]
            if not steps:
                continue
            words = [step["word"] for step in steps]
            counts = " | ".join(str(words.count(word)) for word in ("slower", "faster", "same", "unclear"))
            disturbed = sum(bool(step["disturbance"]) for step in steps)
            judged = [s for s in steps if s["low"] is not None and not s["disturbance"]]
            truth = 1 - share
            out = sum(not s["low"] <= truth <= s["high"] for s in judged)
            time_share = sum(x["measured"] for x in chosen) / sum(x["wall"] for x in chosen)
            rows.append(
                f"| {condition} | {procedure} | {len(steps)} | {counts} | {disturbed} "
                f"| {out} of {len(judged)} | {time_share:.2f} |"
            )
        if len(rows) > 3:
            texts.append("\n".join(rows))
    return "\n\n".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=1.0, help="longest time; default: 1")
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--verdicts", type=int, default=200, help="of equal servers in each cell")
    parser.add_argument("--planted-verdicts", type=int, default=20, help="of a slowed one in each cell")
    parser.add_argument("--planted", type=float, default=0.03, help="the slowdown, as a share")
    parser.add_argument("--max-seconds", type=float, default=60.0, help="of a step until its verdict")
    parser.add_argument(
        "--condition", action="append", choices=(*CONDITIONS, OTHERS), help="default: all but others"
    )
    parser.add_argument("--procedure", action="append", choices=list(PROCEDURES), help="default: all")
    parser.add_argument("--out", type=Path, default=Path("busy.jsonl"), help="default: busy.jsonl")
    parser.add_argument("--print", action="store_true", help="only the tables of what is there")
    parser.add_argument("--smoke", action="store_true", help="one campaign of each kind on few rows")
    a = parser.parse_args()
    if a.smoke:
        a.rows, a.verdicts, a.planted_verdicts, a.max_seconds, a.out = (
            1000,
            1,
            1,
            4.0,
            Path("busy-smoke.jsonl"),
        )
    if not a.print:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; the same command goes on"))
        measure(a)
    lines = read(a.out)
    if not lines:
        raise SystemExit(f"{a.out} holds nothing yet")
    print(f"\n{table(lines[1:], lines[0]['arguments']['planted'])}")


if __name__ == "__main__":
    main()

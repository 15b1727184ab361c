"""Compares pull requests that change nothing, as `ci/compare.sh` does in a pipeline: how many are alarms?

python benchmarks/pull_requests.py --repo ~/postgresql --folder /var/tmp/pulls --hours 1

Each adds a function that nothing calls to a file of the server that is drawn: all code behind it moves. It is
built, its instructions are counted, and its rates measured beside busy loops. The commits lie in the folder,
and their objects in the repository, to which nothing is written. The same command goes on where it was
stopped, and prints the table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

WHO = b"pgstrata <benchmark@localhost> 1700000000 +0000"

FOLDERS = tuple(
    f"src/backend/{name}/" for name in ("access", "executor", "optimizer", "storage", "utils/adt")
)
"""Whose code the steps execute."""

MOST_LINES = 40
"""Of the function that is added."""

SECONDS_OF_RATES = "60"
"""Of each step, at most."""

COMPARE = Path(__file__).parents[1] / "ci" / "compare.sh"


@dataclass(frozen=True)
class Outcome:
    """What a pipeline said of a pull request. by: instructions or rate; code: of `pgstrata check`; load: the
    load average before it."""

    number: int
    by: str
    path: str
    code: int
    seconds: float
    load: float


def git(repo: Path, *arguments: str, given: bytes | None = None) -> bytes:
    """Returns what git prints. Raises CalledProcessError."""
    command = ["git", "-C", str(repo), *arguments]
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout


def added_function(number: int, lines: int) -> bytes:
    """Returns a function that nothing calls and that the compiler keeps."""
    name = f"pgstrata_unused_{number}"
    body = "".join(f"\tx[{n}] = x[{n + 1}] * {n + 3} + x[0];\n" for n in range(lines))
    return f"\nextern void {name}(int *x);\n\nvoid\n{name}(int *x)\n{{\n{body}}}\n".encode()


def change_of(number: int, paths: Sequence[str]) -> tuple[str, bytes]:
    """Returns the file that a pull request changes, and what it adds to its end."""
    rng = random.Random(number)
    return rng.choice(paths), added_function(number, rng.randint(1, MOST_LINES))


def make_pulls(repo: Path, base: str, history: Path, count: int) -> list[str]:
    """Makes branches `base` and `pull-1` … in a new repository, and returns the file that each changes."""
    commit = git(repo, "rev-parse", f"{base}^{{commit}}").decode().strip()
    listed = git(repo, "ls-tree", "-r", "--name-only", commit, "--", *FOLDERS).decode().split()
    paths = [path for path in listed if path.endswith(".c")]
    changes = [change_of(number, paths) for number in range(1, count + 1)]
    if not history.exists():
        git(repo, "init", "--quiet", "--bare", str(history))
        objects = (repo / os.fsdecode(git(repo, "rev-parse", "--git-path", "objects").strip())).resolve()
        (history / "objects/info/alternates").write_text(f"{objects}\n")
    stream = [b"reset refs/heads/base\nfrom %s\n\n" % commit.encode()]
    for number, (path, text) in enumerate(changes, 1):
        source = git(repo, "show", f"{commit}:{path}") + text
        subject = f"Add a function to {path}\n".encode()
        stream += [
            b"reset refs/heads/pull-%d\n" % number,
            b"commit refs/heads/pull-%d\ncommitter %s\ndata %d\n%s" % (number, WHO, len(subject), subject),
            b"from %s\nM 100644 inline %s\ndata %d\n%s\n"
            % (commit.encode(), path.encode(), len(source), source),
        ]
    git(history, "fast-import", "--quiet", "--force", given=b"".join(stream))
    return [path for path, _ in changes]


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Runs `count` processes that use all the CPU time they get."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def compare(number: int, by: str, path: str, folder: Path) -> Outcome:
    """Does what a pipeline does with a pull request. Raises SystemExit where that fails."""
    place = folder / by / str(number)
    place.mkdir(parents=True, exist_ok=True)
    load, begun = os.getloadavg()[0], time.monotonic()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PGSTRATA_BASE": f"git:{folder / 'history'}#base",
        "PGSTRATA_NEW": f"git:{folder / 'history'}#pull-{number}",
        "PGSTRATA_BY": by,
        "PGSTRATA_MAX_SECONDS": SECONDS_OF_RATES,
    }
    with (place / "log").open("w") as log:
        done = subprocess.run([COMPARE], cwd=place, env=environment, stdout=log, stderr=log, check=False)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"pull request {number} by {by} ended with {done.returncode}: see {place / 'log'}")
    return Outcome(number, by, path, done.returncode, round(time.monotonic() - begun, 1), round(load, 1))


def table(outcomes: Sequence[Outcome]) -> str:
    """Returns how the pull requests ended, in Markdown."""
    lines = [
        "| by | pull requests | nothing slower | slower | cannot tell | seconds, median | load |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for by in sorted({outcome.by for outcome in outcomes}):
        those = [outcome for outcome in outcomes if outcome.by == by]
        counts = [sum(outcome.code == code for outcome in those) for code in (0, 1, 3)]
        seconds = sorted(outcome.seconds for outcome in those)[len(those) // 2]
        loads = [outcome.load for outcome in those]
        cells = [by, len(those), *counts, f"{seconds:.0f}", f"{min(loads)} to {max(loads)}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repo", type=Path, required=True, help="a repository of PostgreSQL")
    parser.add_argument("--base", default="HEAD", help="the commit on which they stand")
    parser.add_argument("--folder", type=Path, required=True, help="of the commits and all results")
    parser.add_argument("--pulls", type=int, default=50, help="how many")
    parser.add_argument("--by", action="append", choices=("instructions", "rate"), help="default: both")
    parser.add_argument("--loops", type=int, default=2, help="busy loops beside")
    parser.add_argument("--hours", type=float, default=24.0, help="begin nothing new after so long")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "outcomes.jsonl"
    lines = state.read_text().splitlines() if state.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    there = {(outcome.number, outcome.by) for outcome in outcomes}
    paths = make_pulls(arguments.repo, arguments.base, folder / "history", arguments.pulls)
    deadline = time.monotonic() + 3600 * arguments.hours
    with busy_loops(arguments.loops):
        for number, path in enumerate(paths, 1):
            for by in arguments.by or ("instructions", "rate"):
                if (number, by) not in there and time.monotonic() < deadline:
                    outcomes.append(compare(number, by, path, folder))
                    with state.open("a") as file:
                        file.write(json.dumps(asdict(outcomes[-1])) + "\n")
    print(table(outcomes))


if __name__ == "__main__":
    main()

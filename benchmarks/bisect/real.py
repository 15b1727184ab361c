"""Searches over histories of real servers: of commits that do nothing, among which some cost time.

    python benchmarks/bisect/real.py --archive postgresql-17.11.tar.bz2

Makes a repository of a released source tree, with a branch for each search. The commits of a branch do what
most commits do to a step that does not use them: they reword a comment, or add a function that nobody calls,
which moves the code behind it. A slow one, at a place that is drawn, adds an empty loop to a function of the
executor that every query passes once; another function in each search. How many turns make so many percent is
measured first, on a branch with one slow commit. Prints a table of what was planted and what was found, and
exits with 1 unless that is the same in every search.

Timed, a machine of its own is needed: --by rate. Servers are built into pgstrata's cache and stay there. The
same command goes on after a stop.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

EXECUTOR = "src/backend/executor"
PASSED = (
    "execMain.c:standard_ExecutorStart",
    "execMain.c:standard_ExecutorRun",
    "execMain.c:standard_ExecutorFinish",
    "execMain.c:standard_ExecutorEnd",
    "execUtils.c:CreateExecutorState",
    "execUtils.c:FreeExecutorState",
    "execTuples.c:ExecInitScanTupleSlot",
    "execScan.c:ExecAssignScanProjectionInfo",
    "nodeIndexscan.c:ExecInitIndexScan",
    "nodeIndexscan.c:ExecEndIndexScan",
)
"""Functions that a query by primary key passes once."""

LOOP = """/* Work that nobody asked for. */
static void
needless_work_%(number)d(void)
{
	for (volatile int i = 0; i < %(turns)d; i++)
		;
}

"""
HARMLESS = (
    "src/backend/utils/adt/bool.c",
    "src/backend/utils/adt/float.c",
    "src/backend/utils/adt/cash.c",
    "src/backend/utils/adt/geo_ops.c",
    "src/backend/utils/adt/uuid.c",
    "src/backend/utils/adt/xid.c",
    "src/backend/commands/comment.c",
    "src/backend/commands/conversioncmds.c",
)
TRIED_TURNS = 1000
"""Of the loop by which is measured what a turn costs."""


@dataclass(frozen=True)
class Slow:
    """A slow commit. place: its number on the branch, from 1; effect: share that it is meant to cost; where:
    `file:function` of the executor."""

    place: int
    effect: float
    where: str


def drawn(searches: int, changes: int, effects: Sequence[float], commits: int, seed: int) -> list[list[Slow]]:
    """What is planted in each search: all places differ, the effects take turns, and so do the functions."""
    dice = random.Random(seed)
    places = dice.sample(range(1, commits + 1), searches * changes)
    where = dice.sample(PASSED, len(PASSED))
    all_ = [
        Slow(place, effects[(i // changes + i % changes) % len(effects)], where[i % len(where)])
        for i, place in enumerate(places)
    ]
    return [sorted(all_[i : i + changes], key=lambda slow: slow.place) for i in range(0, len(all_), changes)]


# --- the repository -----------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> str:
    """Runs git as somebody whose name does not depend on this machine."""
    who = ["-c", "user.name=maker", "-c", "user.email=maker@example.org", "-c", "gc.auto=0"]
    done = subprocess.run(
        ["git", *who, "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def has_tag(folder: Path, tag: str) -> bool:
    return (folder / ".git/refs/tags" / tag).exists()


def make_base(archive: Path, folder: Path) -> None:
    """The repository with the release, tagged `release`, and a slow commit on it, tagged `tried`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, members=[_stripped(m) for m in tar if "/" in m.name], filter="data")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "The release")
    add_slow(folder, 1, "execMain.c:standard_ExecutorRun", TRIED_TURNS)
    git(folder, "tag", "tried")
    git(folder, "tag", "release", "tried^")


def make_branch(folder: Path, name: str, slow: Mapping[int, tuple[str, int]], commits: int) -> None:
    """A branch of `commits` commits on the release, its end tagged `name`, each slow one `name-NUMBER`.

    slow: by its number on the branch the function that gets a loop, and the turns of that.
    """
    git(folder, "checkout", "-q", "--detach", "release")
    dice = random.Random(0)  # the same commits that do nothing on all branches
    for number in range(1, commits + 1):
        if number in slow:
            add_slow(folder, number, *slow[number])
            git(folder, "tag", "-f", f"{name}-{number}")
        else:
            file = folder / dice.choice(HARMLESS)
            _harmless(file, number, dice)
            git(folder, "commit", "-qam", f"Tidy {file.name} ({number})")
    git(folder, "tag", name)


def _stripped(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(name=member.name.partition("/")[2], deep=False)


def add_slow(folder: Path, number: int, where: str, turns: int) -> None:
    """Commits a loop at the beginning of a function, `file:function`."""
    name, function = where.split(":")
    file = folder / EXECUTOR / name
    before, head, behind = file.read_text(encoding="utf-8").partition(f"\n{function}(")
    assert head, where
    before, line, kind = before.rpartition("\n")
    arguments, brace, body = behind.partition("\n{\n")
    loop = LOOP % {"number": number, "turns": turns}
    text = before + line + loop + kind + head + arguments + brace + f"\tneedless_work_{number}();\n\n" + body
    file.write_text(text, encoding="utf-8")
    git(folder, "commit", "-qam", f"Check more in {function}\n\n{turns} turns of a loop.")


def _harmless(file: Path, number: int, dice: random.Random) -> None:
    text = file.read_text(encoding="utf-8")
    match dice.choice(("comment", "comment", "function")):
        case "function":
            text += f"\nint\tspare_function_{number}(int i);\n\nint\nspare_function_{number}(int i)\n"
            text += "{\n\treturn i * " + str(number) + ";\n}\n"
        case _:
            text += f"\n/* Looked at once more ({number}). */\n"
    file.write_text(text, encoding="utf-8")


# --- the searches -------------------------------------------------------------------------------


def search(repo: Path, bad: str, folder: Path, by: str, seconds: float) -> Json:
    """What pgstrata finds between the release and `bad`. Exits where that fails."""
    how = ["--by", by, "--seconds", str(seconds), "--set", "settle_base=0"]
    command = [
        *(sys.executable, "-m", "pgstrata", "bisect", "--repo", str(repo), "--good", "release", "--bad", bad),
        *("--step", "point-query", *how, "--results", str(folder), "--format", "json"),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(done.returncode)
    answer: Json = json.loads(done.stdout)
    return answer


def more(ratio: Json) -> float:
    """Share by which an operation costs more, in time or instructions."""
    return math.expm1(-ratio["log_ratio"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Searches over histories of real servers.")
    parser.add_argument("--archive", type=Path, required=True, help="source of a released PostgreSQL, a tar")
    parser.add_argument("--searches", type=int, default=10)
    parser.add_argument("--only", help="of the searches these, by their numbers: 1,2")
    parser.add_argument("--changes", type=int, default=1, help="slow commits in each history")
    parser.add_argument("--effects", default="3,5", help="percent that slow commits cost, in turns")
    parser.add_argument("--commits", type=int, default=64, help="of each history")
    parser.add_argument("--by", choices=("instructions", "rate"), default="instructions")
    parser.add_argument("--seconds", type=float, default=20.0, help="measured of each server, by the rate")
    parser.add_argument("--seed", type=int, default=1, help="of the places")
    parser.add_argument("--folder", type=Path, default=Path("bisect-history"))
    wanted = parser.parse_args()
    effects = [float(percent) / 100 for percent in wanted.effects.split(",")]
    planted = drawn(wanted.searches, wanted.changes, effects, wanted.commits, wanted.seed)

    repo = wanted.folder / "repo"
    if not has_tag(repo, "release"):
        make_base(wanted.archive, repo)
    tried = search(repo, "tried", wanted.folder / f"tried-{wanted.by}", wanted.by, wanted.seconds)
    if tried["state"] != "found":
        print(f"what a turn of the loop costs is not known: {tried['answer']}", file=sys.stderr)
        return 1
    turn = more(tried["effect"]) / TRIED_TURNS
    series = f"{wanted.by}-{wanted.commits}-{wanted.changes}-{wanted.effects}-{wanted.seed}"
    for number, slow in enumerate(planted, 1):
        if not has_tag(repo, f"{series}-{number}"):
            turns = {
                slow_commit.place: (slow_commit.where, round(slow_commit.effect / turn))
                for slow_commit in slow
            }
            make_branch(repo, f"{series}-{number}", turns, wanted.commits)
    only = [int(number) for number in wanted.only.split(",")] if wanted.only else range(1, len(planted) + 1)
    rows = []
    for number in only:
        slow, name = planted[number - 1], f"{series}-{number}"
        answer = search(repo, name, wanted.folder / name, wanted.by, wanted.seconds)
        rows.append(row(number, slow, answer))
        print(f"{number}: {answer['answer']}", file=sys.stderr)
    print("| search | planted | found | probability | more than before it | builds | comparisons | seconds |")
    print("|---:|---|---|---|---|---:|---:|---:|")
    for text, _ in rows:
        print(text)
    right = sum(good for _, good in rows)
    print(f"\nfound {right} of {len(rows)}")
    return 0 if right == len(rows) else 1


def row(number: int, slow: Sequence[Slow], answer: Json) -> tuple[str, bool]:
    """A line of the table, and whether exactly what was planted was found. Seconds: of builds + the rest."""
    places = [(slow_commit.place, slow_commit.place) for slow_commit in slow]
    groups = answer["groups"]
    named = [(group["first"]["position"], group["last"]["position"]) for group in groups]
    right = answer["state"] == "found" and named == places
    measured = answer["measured"]
    built = {side["position"] for m in measured for side in (m["base"], m["other"])} - {0}
    building = sum(m["build_seconds"] for m in measured)
    cells = [
        str(number),
        "; ".join(
            f"{slow_commit.place}: {slow_commit.effect * 100:g} %, {slow_commit.where.partition(':')[2]}"
            for slow_commit in slow
        ),
        ", ".join(str(a) if a == b else f"{a} … {b}" for a, b in named) or "nothing",
        ", ".join(_probability(group["probability"]) for group in groups),
        ", ".join(_effect(group["against_parent"]) for group in groups),
        str(len(built)),
        str(len(measured)),
        f"{building:.0f} + {sum(m['seconds'] for m in measured) - building:.0f}",
    ]
    return f"| {' | '.join(cells)} |", right


def _probability(value: float) -> str:
    return "> 99.9 %" if value > 0.999 else f"{value * 100:.1f} %"


def _effect(ratio: Json | None) -> str:
    return "–" if ratio is None else f"{more(ratio) * 100:.2f} ± {ratio['error'] * 100:.2f} %"


if __name__ == "__main__":
    sys.exit(main())

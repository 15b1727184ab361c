"""A search over a real history: a repository made from a released tree, one commit of which costs time.

    python benchmarks/bisect/real.py --archive FILE.tar.bz2 [--place 23] [--loop 300] [--commits 64]

Prints the place that was found, the effect, and the times. Servers are built into pgstrata's cache and stay
there. The same command goes on after a stop.

Commits of no weight do what most commits do to a step that does not use them: they reword a comment, or add a
function that nobody calls, which moves the code behind it. The slow commit adds work to
`standard_ExecutorRun`, which every query passes once.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

EXECUTOR = "src/backend/executor/execMain.c"
LOOP = """
/* Work that nobody asked for. */
static void
needless_work(void)
{
	for (volatile int i = 0; i < %d; i++)
		;
}

"""
PLACES = (
    "src/backend/utils/adt/bool.c",
    "src/backend/utils/adt/float.c",
    "src/backend/utils/adt/cash.c",
    "src/backend/utils/adt/geo_ops.c",
    "src/backend/utils/adt/uuid.c",
    "src/backend/utils/adt/xid.c",
    "src/backend/commands/comment.c",
    "src/backend/commands/conversioncmds.c",
)


def git(folder: Path, *arguments: str) -> str:
    """Runs git as somebody whose name does not depend on this machine."""
    who = ["-c", "user.name=maker", "-c", "user.email=maker@example.org", "-c", "gc.auto=0"]
    done = subprocess.run(
        ["git", *who, "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def make_history(
    archive: Path, folder: Path, slow: Mapping[int, int], commits: int = 64, seed: int = 1
) -> None:
    """Writes the repository: tags `good` and `bad` at its ends, `slow-N` at each slow commit.

    slow: by its place among the commits (from 1) how many turns of an empty loop it adds to every query.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, members=[_stripped(m) for m in tar if "/" in m.name], filter="data")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "The release")
    git(folder, "tag", "good")
    dice = random.Random(seed)
    for number in range(1, commits + 1):
        if number in slow:
            _slow(folder, slow[number], number)
            git(folder, "commit", "-qam", f"Check more in the executor\n\n{slow[number]} turns of a loop.")
            git(folder, "tag", f"slow-{number}")
        else:
            file = folder / dice.choice(PLACES)
            _harmless(file, number, dice)
            git(folder, "commit", "-qam", f"Tidy {file.name} ({number})")
    git(folder, "tag", "bad")


def _stripped(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(name=member.name.partition("/")[2], deep=False)


def _slow(folder: Path, turns: int, number: int) -> None:
    file = folder / EXECUTOR
    text = file.read_text(encoding="utf-8")
    head = "void\nstandard_ExecutorRun("
    name = f"needless_work_{number}"
    text = text.replace(head, (LOOP % turns).replace("needless_work", name).lstrip("\n") + head, 1)
    call = "\tsendTuples = ("
    assert call in text
    file.write_text(text.replace(call, f"\t{name}();\n\n{call}", 1), encoding="utf-8")


def _harmless(file: Path, number: int, dice: random.Random) -> None:
    text = file.read_text(encoding="utf-8")
    match dice.choice(("comment", "comment", "function")):
        case "function":
            text += f"\nint\tspare_function_{number}(int i);\n\nint\nspare_function_{number}(int i)\n"
            text += "{\n\treturn i * " + str(number) + ";\n}\n"
        case _:
            text += f"\n/* Looked at once more ({number}). */\n"
    file.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="A search over a history of real servers.")
    parser.add_argument("--archive", type=Path, required=True, help="source of a released PostgreSQL, a tar")
    parser.add_argument("--place", type=int, default=23, help="of the slow commit, from 1")
    parser.add_argument("--loop", type=int, default=300, help="turns of an empty loop it adds to each query")
    parser.add_argument("--commits", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0, help="measured of each server")
    parser.add_argument("--folder", type=Path, default=Path("bisect-history"))
    wanted = parser.parse_args()
    name = f"{wanted.commits}-{wanted.place}-{wanted.loop}"
    repo = wanted.folder / f"repo-{name}"
    if not (repo / ".git/refs/tags/bad").exists():
        make_history(wanted.archive, repo, {wanted.place: wanted.loop}, wanted.commits)
    begun = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "pgstrata",
        "bisect",
        "--repo",
        str(repo),
        "--good",
        "good",
        "--bad",
        "bad",
    ]
    command += ["--step", "point-query", "--set", "settle_base=0", "--seconds", str(wanted.seconds)]
    command += ["--results", str(wanted.folder / f"search-{name}"), "--format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 3):
        return done.returncode
    found = json.loads(done.stdout)
    truth = git(repo, "rev-parse", f"slow-{wanted.place}")
    named = [(group["first"]["id"], group["last"]["id"]) for group in found["groups"]]
    builds = len({m["other"]["id"] for m in found["measured"]} | {m["base"]["id"] for m in found["measured"]})
    print(found["answer"])
    print(
        f"{'found' if named == [(truth, truth)] else 'NOT found'}: planted at {wanted.place}; "
        f"{builds} builds, "
        f"{sum(m['build_seconds'] for m in found['measured']):.0f} s; {len(found['measured'])} measurements, "
        f"{sum(m['seconds'] - m['build_seconds'] for m in found['measured']):.0f} s; "
        f"{time.monotonic() - begun:.0f} s this time"
    )
    return 0 if named == [(truth, truth)] else 1


if __name__ == "__main__":
    sys.exit(main())

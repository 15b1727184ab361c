"""Watches real commits of PostgreSQL with slow ones among them: which does it date, and what does it cost?

python benchmarks/watch/real.py --repo ~/postgresql --newest f20c427834 --folder /var/tmp/real --hours 1

Takes the 100 commits up to the newest one, by first parents, as they are, and puts four slow ones in between
at places that are drawn: three undo what once made PostgreSQL faster, one is planted. The history lies in the
folder, and its objects in the repository, to which nothing is written. The same command goes on where it was
stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMITS, FIRST_PLACE, SEED = 100, 15, 1
"""Real commits, and position from which on slow ones are planted, behind a commit that changes most files."""

WHO = "pgstrata <benchmark@localhost>"

SCRIPT = """\
SELECT sum(x::text::int) FROM generate_series(100000001, 100000500) x;
SELECT sum(pronargs) FROM pg_proc;
"""
"""Reads 500 integers of nine digits, and a table of about 3,400 rows."""

WATCH = """\
name = "real"
repository = "history"
branch = "planted"
since = "{anchor}"
data_dir = "clusters"
every = 16
builds = 60

[[series]]
steps = ["point-query", "random-points=100", "update-index"]

[[series]]
workload = "pgbench"
steps = ["select-only-simple-c1", "tpcb-like-prepared-c1", "reads-prepared-c1"]
set = ['builtin=["select-only", "tpcb-like"]', 'scripts=["reads.sql"]', "reads_only=true"]
"""


@dataclass(frozen=True)
class Slow:
    """A slow commit: an edit of a file, `pattern` by `text`. known: where it is known from."""

    subject: str
    known: str
    path: str
    pattern: str
    text: str

    def edit(self, source: bytes) -> bytes:
        """Returns the slower file. Raises SystemExit where it has nothing to edit."""
        edited, times = re.subn(self.pattern.encode(), self.text.encode(), source, flags=re.DOTALL)
        if not times:
            raise SystemExit(f"{self.path} has nothing that {self.pattern!r} matches")
        return edited


SLOW = (
    Slow(
        "Collect the tuples of a page by one function for all cases",
        "undoes a97bbe1f1d of 2024",
        "src/backend/access/heap/heapam.c",
        r"\tif \(likely\(all_visible\)\)\n\t\{\n\t\tif \(likely\(!check_serializable\)\)"
        r".*?\n\t\}\n\telse\n\t\{.*?\n\t\}\n",
        "\tscan->rs_ntuples = page_collect_tuples(scan, snapshot, page, buffer,\n"
        "\t\t\t\t\t\t\t\t\t\t   block, lines, all_visible,\n"
        "\t\t\t\t\t\t\t\t\t\t   check_serializable);\n",
    ),
    Slow(
        "Read integers without the quick path for plain digits",
        "undoes 3845577cb5 of 2023, the repair of 6fcda9aba8",
        "src/backend/utils/adt/numutils.c",
        r"\t/\* leave it up to the slow path to look for leading spaces \*/\n",
        "\tgoto slow;\n",
    ),
    Slow(
        "Take every snapshot anew, also where no transaction has ended since",
        "undoes 623a9ba79b of 2020",
        "src/backend/storage/ipc/procarray.c",
        r"if \(GetSnapshotDataReuse\(snapshot\)\)",
        "if (false && GetSnapshotDataReuse(snapshot))",
    ),
    Slow(
        "Count the characters of a query before it is parsed",
        "planted",
        "src/backend/parser/parser.c",
        r"(\tint\t\t\tyyresult;\n)(\n\t/\* initialize the flex scanner)",
        r'\1\n\tif (pg_mbstrlen(str) > PG_INT32_MAX / 2)\n\t\telog(ERROR, "query is too long");\n\2',
    ),
)


def git(repo: Path, *arguments: str, given: bytes | None = None) -> bytes:
    """Returns what git prints. Raises CalledProcessError."""
    command = ["git", "-C", str(repo), *arguments]
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout


def places(seed: int) -> dict[int, Slow]:
    """Returns the slow commits by the position of the real commit that each one follows."""
    rng = random.Random(seed)
    return dict(zip(rng.sample(range(FIRST_PLACE, COMMITS), len(SLOW)), SLOW, strict=True))


def make_history(repo: Path, newest: str, history: Path, slow: Mapping[int, Slow]) -> str:
    """Makes the branch `planted` in a new repository, and returns the commit on which it begins."""
    listed = git(repo, "rev-list", "--first-parent", f"--max-count={COMMITS + 1}", newest).decode().split()
    anchor, *commits = reversed(listed)
    if history.exists():
        return anchor
    git(repo, "init", "--quiet", "--bare", str(history))
    objects = (repo / os.fsdecode(git(repo, "rev-parse", "--git-path", "objects").strip())).resolve()
    (history / "objects/info/alternates").write_text(f"{objects}\n")
    stream = [b"reset refs/heads/planted\nfrom %s\n\n" % anchor.encode()]
    edits: dict[str, Slow] = {}
    before = anchor
    for position, commit in enumerate(commits, 1):
        shown = git(
            repo, "show", "--no-patch", "--date=raw", "--format=%an <%ae> %ad%n%cn <%ce> %cd%n%B", commit
        )
        author, committer, message = shown.split(b"\n", 2)
        stream.append(_header(author, committer, message))
        raw = git(repo, "diff-tree", "-r", "-z", "--no-renames", before, commit).split(b"\0")
        for about, path in zip(raw[0::2], raw[1::2], strict=False):
            _, mode, _, blob, status = about.split()
            if status == b"D":
                stream.append(b"D %s\n" % path)
            elif (edit := edits.get(os.fsdecode(path))) is not None:
                stream.append(_file(edit, git(repo, "cat-file", "blob", blob.decode())))
            else:
                stream.append(b"M %s %s %s\n" % (mode, blob, path))
        if planted := slow.get(position):
            who = b"%s %s" % (WHO.encode(), b" ".join(committer.split()[-2:]))
            stream.append(_header(who, who, planted.subject.encode() + b"\n"))
            stream.append(_file(planted, git(repo, "show", f"{commit}:{planted.path}")))
            edits[planted.path] = planted
        before = commit
    git(history, "fast-import", "--quiet", given=b"".join(stream))
    return anchor


def _header(author: bytes, committer: bytes, message: bytes) -> bytes:
    text = b"commit refs/heads/planted\nauthor %s\ncommitter %s\ndata %d\n%s\n"
    return text % (author, committer, len(message), message)


def _file(slow: Slow, source: bytes) -> bytes:
    edited = slow.edit(source)
    return b"M 100644 inline %s\ndata %d\n%s\n" % (slow.path.encode(), len(edited), edited)


def tables(watched: Mapping[str, Any], commits: Sequence[str], subjects: Sequence[str]) -> list[str]:
    """Returns what the slow commits were dated to, other changes, and the cost, in Markdown.

    commits, subjects: of the line.
    """
    place = {commit: position for position, commit in enumerate([watched["anchor"], *commits])}
    alarms, planted = watched["alarms"], {subjects.index(slow.subject) + 1 for slow in SLOW}
    lines = ["| position | slow commit | known from | dated to | more |", "|---:|---|---|---|---|"]
    for slow in sorted(SLOW, key=lambda slow: subjects.index(slow.subject)):
        position = subjects.index(slow.subject) + 1
        there = [a for a in alarms if position in _stretch(a, place)]
        lines.append(
            f"| {position} | {slow.subject} | {slow.known} | {_dates(there, place)} | {_moves(there)} |"
        )
    others = [a for a in alarms if not planted & set(_stretch(a, place))]
    lines += ["", "| other changes | dated to | more |", "|---|---|---|"]
    lines += [f"| {a['subject']} | {_dates([a], place)} | {_moves([a])} |" for a in others]
    lines += ["", "| position | commit | seconds | CPU | of it the build |", "|---:|---|---:|---:|---:|"]
    for cost in sorted(watched["costs"], key=lambda cost: str(cost["at"])):
        same = f", same code as {cost['same_as'][:10]}" if cost["same_as"] else ""
        lines.append(
            f"| {place[cost['commit']]} | {cost['commit'][:10]}{same} | {cost['seconds']:.0f} |"
            f" {cost['cpu_seconds']:.0f} | {cost['build_cpu_seconds']:.0f} |"
        )
    return [*lines, "", f"{len(watched['costs'])} of {watched['commits']} measured, {watched['left']} left"]


def _stretch(alarm: Mapping[str, Any], place: Mapping[str, int]) -> range:
    """Returns the positions of the commits that may have made a change."""
    if alarm["commits"]:
        return range(place[alarm["commits"][0]], place[alarm["commits"][-1]] + 1)
    return range(place[alarm["good"]] + 1, place[alarm["bad"]] + 1)


def _dates(alarms: Sequence[Mapping[str, Any]], place: Mapping[str, int]) -> str:
    stretches = [_stretch(alarm, place) for alarm in alarms]
    return "; ".join(" … ".join(str(n) for n in sorted({s[0], s[-1]})) for s in stretches) or "not found"


def _moves(alarms: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{n} {s['ratio'] - 1:+.2%}" for a in alarms for n, s in a["series"].items())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repo", type=Path, required=True, help="a repository of PostgreSQL")
    parser.add_argument("--newest", default="HEAD", help="the newest real commit")
    parser.add_argument("--folder", type=Path, required=True, help="of the history and all results")
    parser.add_argument("--hours", type=float, default=24.0, help="begin nothing new after so long")
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    folder, history = arguments.folder.resolve(), arguments.folder.resolve() / "history"
    folder.mkdir(parents=True, exist_ok=True)
    anchor = make_history(arguments.repo, arguments.newest, history, places(arguments.seed))
    (folder / "real.toml").write_text(WATCH.format(anchor=anchor))
    (folder / "reads.sql").write_text(SCRIPT)
    (folder / "clusters").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pgstrata", "watch", "real.toml", "--once", "--format", "json"]
    command += ["--site", "site", "--hours", str(arguments.hours)]
    printed = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=False)
    if printed.returncode not in (0, 1, 3) or not printed.stdout:
        raise SystemExit(printed.returncode or 1)
    listed = git(history, "log", "--reverse", "--format=%H %s", f"{anchor}..planted").decode().splitlines()
    commits, subjects = zip(*(line.split(" ", 1) for line in listed), strict=True)
    print(*tables(json.loads(printed.stdout), commits, subjects), sep="\n")


if __name__ == "__main__":
    main()

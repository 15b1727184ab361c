"""How long pgstrata takes to build a server, beside configure and `make -j` of the same parts by hand, and
for the next commit with ccache.

    python benchmarks/build_time.py --repo DIR --first REF --next REF [--pairs N] [--check]

Builds, each from nothing: N pairs by hand and by pgstrata without ccache, whose order changes from pair to
pair; then by pgstrata with an empty ccache, and of the next commit with what ccache holds. CPU seconds are
those of all processes of a build; on a machine that others use the clock tells of them, too, so that ratios
are those of a pair, and the median of all pairs counts. The seconds of each stage tell where the clock's go.
With --check it exits 1 where pgstrata takes more than 1.1 times as much CPU or time as by hand, or the next
commit more than a quarter of the CPU of the first without ccache.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from pgstrata.source.autoconf import LEAST, MEASURED, PARTS
from pgstrata.source.failure import log_end
from pgstrata.source.shell import NICE
from pgstrata.source.tools import jobs

MOST_BY_HAND, MOST_NEXT = 1.1, 0.25


STAGES = ("source", "configure", "compile", "install", "rest")
_STAGE = re.compile(r"\s+building .*: (\w+)")


@dataclass(frozen=True)
class Took:
    """Seconds of a build by the clock, of CPU in all its processes, and of its stages by the clock; `rest` is
    before and after them: the program's start, clearing up."""

    what: str
    clock: float
    cpu: float
    stages: dict[str, float]


class Watch:
    """The clock of one build, stage by stage."""

    def __init__(self, what: str) -> None:
        self._what, self._stages = what, dict.fromkeys(STAGES, 0.0)
        self._before, self._begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        self._stage, self._since = "rest", self._begun

    def enter(self, stage: str) -> None:
        """From now on it is another stage."""
        now = time.monotonic()
        self._stages[self._stage] += now - self._since
        self._stage, self._since = stage, now

    def stop(self) -> Took:
        """What it took; to be called when all processes are over."""
        self.enter("rest")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - self._before.ru_utime - self._before.ru_stime
        took = Took(self._what, self._since - self._begun, cpu, self._stages)
        print(f"{self._what}: {took.clock:.0f} s, {took.cpu:.0f} s of CPU", file=sys.stderr, flush=True)
        return took


def by_hand(repo: Path, ref: str, folder: Path) -> Took:
    """configure, then make and make install of the parts that pgstrata builds, as one would type it."""
    inside = f"cd tree && nice -n {NICE}"
    unpack = f"mkdir tree && git -C {shlex.quote(str(repo))} archive {shlex.quote(ref)} | tar -x -C tree"
    without = " ".join(f"--without-{name}" for name in LEAST)
    configure = f"{inside} ./configure --prefix={folder}/installed {without} CFLAGS='-O2 -g'"
    contrib = [f"contrib/{name}" for name in MEASURED]
    parts = " ".join([*PARTS, *contrib])
    headers = (
        "if grep -q '^generated-headers' src/backend/Makefile; then make -C src/backend generated-headers; fi"
    )
    each = f"for part in {parts}; do [ ! -f $part/Makefile ] || %s || exit 1; done"
    make = f"{inside} sh -c {shlex.quote(headers + '; ' + each % f'make -j{jobs()} -C $part all')}"
    install = f"{inside} sh -c {shlex.quote(each % 'make -C $part install')}"
    watch = Watch("by hand")
    for stage, line in zip(STAGES, (unpack, configure, make, install), strict=False):
        watch.enter(stage)
        with (folder / "log").open("ab") as log:
            done = subprocess.run(["sh", "-c", line], cwd=folder, stdout=log, stderr=log)
        _check(done.returncode, "by hand", folder)
    return watch.stop()


def by_pgstrata(what: str, repo: Path, ref: str, folder: Path, *, ccache: bool) -> Took:
    """`pgstrata servers build` with a cache of its own below `folder`."""
    command = [sys.executable, "-u", "-m", "pgstrata", "servers", "build", f"git:{repo}#{ref}"]
    env = {"PGSTRATA_CACHE": str(folder / "cache"), "CCACHE_DIR": str(folder / "ccache")}
    env |= {} if ccache else {"PGSTRATA_CCACHE": "0"}
    watch = Watch(what)
    with (
        (folder / "log").open("a") as log,
        subprocess.Popen(
            command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            if match := _STAGE.match(line):
                watch.enter(match[1])
            elif line.startswith("built "):
                watch.enter("rest")
    _check(process.returncode, what, folder)
    return watch.stop()


def _check(code: int, what: str, folder: Path) -> None:
    """Ends the program with the end of the log where a build failed."""
    if code:
        sys.exit(f"{what} failed:\n{log_end((folder / 'log').read_text(errors='replace'))}")


def _pairs(repo: Path, ref: str, place: Path, number: int) -> list[tuple[Took, Took]]:
    """By hand and by pgstrata without ccache; who is first changes from pair to pair."""
    pairs = []
    for pair in range(number):
        hand, ours = place / f"hand{pair}", place / f"own{pair}"
        hand.mkdir()
        ours.mkdir()
        todo: list[Callable[[], Took]] = [
            partial(by_hand, repo, ref, hand),
            partial(by_pgstrata, "pgstrata, no ccache", repo, ref, ours, ccache=False),
        ]
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        took = {which: todo[which]() for which in order}
        pairs.append((took[0], took[1]))
        shutil.rmtree(hand)
        shutil.rmtree(ours)
    return pairs


def main() -> int:
    parser = argparse.ArgumentParser(description="The time of builds, beside make by hand.")
    parser.add_argument("--repo", type=Path, required=True, help="a git repository of PostgreSQL")
    parser.add_argument("--first", required=True, help="a commit")
    parser.add_argument("--next", help="the one after it; none: only the pairs")
    parser.add_argument("--pairs", type=int, default=3, help="builds by hand and by pgstrata (3)")
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    wanted = parser.parse_args()
    repo = wanted.repo.resolve()
    following: list[Took] = []
    with tempfile.TemporaryDirectory(prefix="build-time-") as name:
        place = Path(name)
        place.chmod(0o755)  # for the account that servers run as
        pairs = _pairs(repo, wanted.first, place, wanted.pairs)
        if wanted.next:
            (folder := place / "ccache").mkdir()
            for what, ref in (("empty ccache", wanted.first), ("next commit", wanted.next)):
                following.append(by_pgstrata(f"pgstrata, {what}", repo, ref, folder, ccache=True))
    cpu = median(ours.cpu / hand.cpu for hand, ours in pairs)
    clock = median(ours.clock / hand.clock for hand, ours in pairs)
    print(f"| build, -j{jobs()} | seconds | of CPU | {' | '.join(STAGES)} |\n|---{'|---:' * 7}|")
    for took in (*(build for pair in pairs for build in pair), *following):
        stages = " | ".join(f"{took.stages[stage]:.1f}" for stage in STAGES)
        print(f"| {took.what} | {took.clock:.0f} | {took.cpu:.0f} | {stages} |")
    print(f"pgstrata ÷ by hand, median of {len(pairs)} pairs: {cpu:.2f} of CPU, {clock:.2f} by the clock")
    good = cpu <= MOST_BY_HAND and clock <= MOST_BY_HAND
    if following:
        plain = median(ours.cpu for _, ours in pairs)
        print(f"next commit ÷ without ccache: {following[-1].cpu / plain:.2f} of CPU")
        good = good and following[-1].cpu <= MOST_NEXT * plain
    return 0 if good or not wanted.check else 1


if __name__ == "__main__":
    sys.exit(main())

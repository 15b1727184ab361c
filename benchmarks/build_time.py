"""How long pgstrata takes to build a server, beside configure and `make -j` of the same parts by hand, and
for the next commit with ccache.

    python benchmarks/build_time.py --repo DIR --first REF --next REF [--check]

Four builds, each from nothing: by hand, by pgstrata without ccache, by pgstrata with an empty ccache, then
of the next commit with what ccache holds. CPU seconds are those of all processes of a build; they are what is
compared, because on a machine that others use a clock tells mostly of them. With --check it exits 1 where
pgstrata takes more than 1.1 times as much CPU as by hand, or the next commit more than a quarter of the first
without ccache.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgstrata.server.source.autoconf import LEAST, MEASURED, PARTS
from pgstrata.server.source.failure import log_end
from pgstrata.server.source.shell import NICE
from pgstrata.server.source.tools import jobs

MOST_BY_HAND, MOST_NEXT = 1.1, 0.25


@dataclass(frozen=True)
class Took:
    """Seconds of a build by the clock, and of CPU in all its processes."""

    what: str
    clock: float
    cpu: float


def timed(what: str, *commands: list[str], folder: Path, env: Mapping[str, str] | None = None) -> Took:
    """Runs commands one after the other; ends the program with the log's end where one fails."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    log = folder / "log"
    for command in commands:
        with log.open("ab") as output:
            done = subprocess.run(
                command, cwd=folder, env={**os.environ, **(env or {})}, stdout=output, stderr=output
            )
        if done.returncode:
            sys.exit(f"{what} failed:\n{log_end(log.read_text(errors='replace'))}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    took = Took(what, time.monotonic() - begun, cpu)
    print(f"{what}: {took.clock:.0f} s, {took.cpu:.0f} s of CPU", file=sys.stderr, flush=True)
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
    return timed(
        "by hand", *(["sh", "-c", line] for line in (unpack, configure, make, install)), folder=folder
    )


def by_pgstrata(what: str, repo: Path, ref: str, folder: Path, *, ccache: bool) -> Took:
    """`pgstrata servers build` with a cache of its own below `folder`."""
    command = [sys.executable, "-m", "pgstrata", "servers", "build", f"git:{repo}#{ref}"]
    env = {"PGSTRATA_CACHE": str(folder / "cache"), "CCACHE_DIR": str(folder / "ccache")}
    return timed(what, command, folder=folder, env=env | ({} if ccache else {"PGSTRATA_CCACHE": "0"}))


def main() -> int:
    parser = argparse.ArgumentParser(description="The time of builds, beside make by hand.")
    parser.add_argument("--repo", type=Path, required=True, help="a git repository of PostgreSQL")
    parser.add_argument("--first", required=True, help="a commit")
    parser.add_argument("--next", required=True, help="the one after it")
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    wanted = parser.parse_args()
    repo = wanted.repo.resolve()
    with tempfile.TemporaryDirectory(prefix="build-time-") as place:
        Path(place).chmod(0o755)  # for the account that servers run as
        folders = [Path(place) / name for name in ("hand", "plain", "ccache")]
        for folder in folders:
            folder.mkdir()
        hand = by_hand(repo, wanted.first, folders[0])
        plain = by_pgstrata("pgstrata, no ccache", repo, wanted.first, folders[1], ccache=False)
        filled = by_pgstrata("pgstrata, empty ccache", repo, wanted.first, folders[2], ccache=True)
        following = by_pgstrata("pgstrata, next commit", repo, wanted.next, folders[2], ccache=True)
    print(f"| build, -j{jobs()} | seconds | of CPU | CPU, by hand = 1 |\n|---|---:|---:|---:|")
    for took in (hand, plain, filled, following):
        print(f"| {took.what} | {took.clock:.0f} | {took.cpu:.0f} | {took.cpu / hand.cpu:.2f} |")
    good = plain.cpu <= MOST_BY_HAND * hand.cpu and following.cpu <= MOST_NEXT * plain.cpu
    return 0 if good or not wanted.check else 1


if __name__ == "__main__":
    sys.exit(main())

"""A campaign through a real Slurm: controller and one node on this machine, made for it and ended after it.

    python benchmarks/fleet/slurm.py [--keep]

Starts munged, slurmctld and slurmd (Debian's slurm-wlm) with folders, ports and keys of their own, puts a
fleet up with `pgstrata fleet up slurm:bench`, runs one campaign on it, and takes everything down. Says what
the job was given. Needs root.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from pgstrata.store import Results

CONFIG = """
ClusterName=pgstrata
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=26817
SlurmdPort=26818
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={megabytes} State=UNKNOWN
PartitionName=bench Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

CAMPAIGN = """
name = "slurm"
order = "interleaved"
placement = "free"
slice_seconds = 0.05
margin = 0.5

[fleet]
qualify_seconds = 3

[[variants]]
server = "pg:16"

[[variants]]
server = "pg:17"

[[workloads]]
name = "sysbench"
[workloads.options]
rows = 10_000
read_seconds = 8
warmup = 1
cache_seconds = 0
settle_base = 0
steps = ["point-query"]
"""


class Slurm:
    """Controller and node."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.environ = {**os.environ, "SLURM_CONF": str(place / "slurm.conf"), "NO_COLOR": "1"}

    def __enter__(self) -> Slurm:
        host = socket.gethostname()
        for name in ("state", "spool"):
            (self._place / name).mkdir()
        (self._place / "munge.key").write_bytes(os.urandom(1024))
        (self._place / "munge.key").chmod(0o600)
        (self._place / "slurm.conf").write_text(
            CONFIG.format(
                host=host,
                place=self._place,
                cpus=os.cpu_count(),
                megabytes=(psutil.virtual_memory().total >> 20) * 9 // 10,
            )
        )
        names = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munge.pid",
                 "log-file": "munge.log", "seed-file": "munge.seed"}  # fmt: skip
        words = [f"--{key}={self._place}/{name}" for key, name in names.items()]
        self._start("munged", "--foreground", "--force", *words)
        wait(lambda: (self._place / "munge.socket").exists(), 20, "munged")
        self._start("slurmctld", "-D", "-c")
        self._start("slurmd", "-D", "-N", host)
        wait(lambda: "idle" in self.say("sinfo", "-h", "-o", "%t"), 60, "the node")
        return self

    def _start(self, *command: str) -> None:
        with (self._place / f"{command[0]}.out").open("wb") as log:
            self._daemons.append(subprocess.Popen(command, env=self.environ, stdout=log, stderr=log))

    def say(self, *command: str) -> str:
        return subprocess.run(command, env=self.environ, capture_output=True, text=True).stdout.strip()

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def wait(what: Callable[[], object], seconds: float, why: str) -> None:
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            raise SystemExit(f"{why}: not within {seconds:.0f} s")
        time.sleep(0.2)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help="leave the results and all logs behind")
    options = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="pgsl", dir="/tmp"))
    place.chmod(0o755)
    try:
        return _study(place)
    finally:
        if options.keep:
            print(f"results and logs: {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)


def _study(place: Path) -> int:
    (place / "slurm.toml").write_text(CAMPAIGN)
    with Slurm(place) as slurm:

        def pgstrata(*words: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "pgstrata", *words]
            done = subprocess.run(
                command,
                cwd=place,
                env=slurm.environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            print(done.stdout, end="", flush=True)
            return done

        begun = time.monotonic()
        up = pgstrata(
            "fleet", "up", "slurm:bench", "--without-tls", "--listen", "127.0.0.1", "--name", "slurm"
        )
        if up.returncode != 0:
            return 1
        try:
            wait(lambda: "R" in slurm.say("squeue", "-h", "-o", "%t"), 60, "the job")
            print(
                "job: "
                + slurm.say(
                    "squeue", "-h", "-o", "%j, %D node with %C CPUs, partition %P, shared with others: %h"
                )
            )
            address = next(word for word in up.stdout.split() if word.startswith("tcp://")).rstrip(",")
            code = pgstrata("run", "slurm.toml", "--fleet", address).returncode
        finally:
            pgstrata("fleet", "down", "--name", "slurm")
        wait(lambda: not slurm.say("squeue", "-h"), 60, "the job ends with its fleet")
        seconds = time.monotonic() - begun
    runs = Results(place / "results").runs()
    good = code == 0 and len(runs) == 2 and all(run.done for run in runs)
    print(f"exit code {code}, {len(runs)} runs, all in {seconds:.0f} s; no job is left")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

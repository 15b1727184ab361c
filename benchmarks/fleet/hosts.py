"""A campaign on three hosts of its own, of which one is killed and one unplugged in the middle.

    python benchmarks/fleet/hosts.py [--repeats 6] [--keep]

Three network namespaces on one machine, each with a name of its own, sshd, and a worker that `pgstrata fleet
up ssh:hosts.txt` puts there. In the middle of a comparison the worker of the second is killed (its nanny
starts another one), and the link of the third is cut for good. Says whether the campaign came to its end
complete, what was begun again, and what was left running. Needs root, iproute2 and openssh-server; all three
hosts share the machine's CPUs, so the rates mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from pgstrata.store import Results

HOSTS = (1, 2, 3)
BRIDGE = "pgsfleet"
NETWORK = "10.77.13"
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"

CAMPAIGN = """
name = "hosts"
order = "interleaved"
placement = "free"
slice_seconds = 0.05
repeats = {repeats}
margin = 0.5

[fleet]
qualify_seconds = 3
silent_seconds = 15

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
steps = ["point-query", "read-only=10"]
"""


def run(*words: str, check: bool = True) -> str:
    return subprocess.run(words, check=check, capture_output=True, text=True).stdout


class Hosts:
    """The namespaces, their links and their sshd."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Hosts:
        self._clear()
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{NETWORK}.254/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        home = self.place / "home" / ".ssh"
        home.mkdir(parents=True, mode=0o700)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "id_ed25519"))
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.place / "host_key"))
        key = (self.place / "host_key.pub").read_text().rsplit(" ", 1)[0].strip()
        (home / "known_hosts").write_text("".join(f"{NETWORK}.{n} {key}\n" for n in HOSTS))
        (self.place / "authorized").write_text((home / "id_ed25519.pub").read_text())
        Path("/run/sshd").mkdir(exist_ok=True)
        for number in HOSTS:
            self._host(number)
        return self

    def _host(self, number: int) -> None:
        space = f"{BRIDGE}{number}"
        run("ip", "netns", "add", space)
        run("ip", "link", "add", f"{BRIDGE}v{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "link", "set", f"{BRIDGE}v{number}", "master", BRIDGE, "up")
        run("ip", "-n", space, "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", space, "link", "set", device, "up")
        config = self.place / f"sshd{number}"
        # Three hosts of one kernel pass for machines; the name says which is which.
        config.write_text(
            f"Port 22\nListenAddress {NETWORK}.{number}\nHostKey {self.place}/host_key\nUsePAM no\n"
            f"PidFile none\nStrictModes no\nPermitRootLogin yes\nAuthorizedKeysFile {self.place}/authorized\n"
            f"SetEnv PGSTRATA_MACHINE=host{number} PGSTRATA_CACHE={os.environ.get('PGSTRATA_CACHE', '')} "
            f"TMPDIR={self.place}\n"
        )
        command = ["ip", "netns", "exec", space, SSHD, "-D", "-e", "-f", str(config)]
        log = (self.place / f"sshd{number}.log").open("wb")
        self._daemons.append(subprocess.Popen(command, stdout=log, stderr=log))

    def workers(self, number: int) -> list[psutil.Process]:
        """Everything that runs in a namespace."""
        pids = run("ip", "netns", "pids", f"{BRIDGE}{number}", check=False).split()
        processes = []
        for pid in map(int, pids):
            try:
                processes.append(psutil.Process(pid))
            except psutil.Error:
                continue
        return processes

    def servers(self, number: int) -> list[int]:
        return [p.pid for p in self.workers(number) if _name(p) in ("postgres", "pgstrata-driver")]

    def kill_worker(self, number: int) -> None:
        """The worker, not its nanny: what a machine without memory does."""
        victims = [p for p in self.workers(number) if "spawn_main" in " ".join(_command(p))]
        for victim in victims:
            victim.kill()

    def unplug(self, number: int) -> None:
        run("ip", "link", "set", f"{BRIDGE}v{number}", "down")

    def _clear(self) -> None:
        for number in HOSTS:
            for process in self.workers(number):
                process.kill()
            run("ip", "netns", "del", f"{BRIDGE}{number}", check=False)
            run("ip", "link", "del", f"{BRIDGE}v{number}", check=False)
        run("ip", "link", "del", BRIDGE, check=False)

    def __exit__(self, *_: object) -> None:
        for daemon in self._daemons:
            daemon.kill()
            daemon.wait()
        self._clear()


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def wait(what: Callable[[], object], seconds: float, why: str) -> None:
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            raise SystemExit(f"{why}: not within {seconds:.0f} s")
        time.sleep(0.2)


def pgstrata(place: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pgstrata", *words],
        cwd=place,
        env={**os.environ, "HOME": str(place / "home"), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--keep", action="store_true", help="leave the results and the report behind")
    options = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="pgsh", dir="/tmp"))
    place.chmod(0o755)
    try:
        return _study(place, options.repeats)
    finally:
        if options.keep:
            print(f"results: {place}/results")
        else:
            shutil.rmtree(place, ignore_errors=True)


def _study(place: Path, repeats: int) -> int:
    (place / "hosts.toml").write_text(CAMPAIGN.format(repeats=repeats))
    (place / "hosts.txt").write_text("".join(f"root@{NETWORK}.{n}\n" for n in HOSTS) + f"root@{NETWORK}.9\n")
    with Hosts(place) as hosts:
        begun = time.monotonic()
        up = pgstrata(place, "fleet", "up", "ssh:hosts.txt", "--without-tls", "--name", BRIDGE)
        output = up.communicate()[0]
        print(output, end="")
        if up.returncode != 0:
            return 1
        address = next(word for word in output.split() if word.startswith("tcp://")).rstrip(",")
        print(f"up in {time.monotonic() - begun:.0f} s")
        begun = time.monotonic()
        client = pgstrata(place, "run", "hosts.toml", "--fleet", address, "--format", "json")
        events = _break_it(client, hosts)
        code = client.wait()
        seconds = time.monotonic() - begun
        left = {number: hosts.servers(number) for number in HOSTS}
        print(pgstrata(place, "fleet", "down", "--name", BRIDGE).communicate()[0], end="")
        wait(lambda: not any(_workers(hosts, n) for n in (1, 2)), 60, "workers end with their fleet")
    runs = Results(place / "results").runs()
    again = [e for e in events if e["event"] == "comparison-again"]
    print(f"exit code {code} after {seconds:.0f} s")
    print(f"runs: {len(runs)} of {2 * repeats}, {sum(run.done for run in runs)} done")
    for event in again:
        print(f"begun again: repeat {event['repeat']}, {event['machine']}: {event['reason']}")
    machines = {
        repeat: {run.machine for run in runs if run.repeat == repeat} for repeat in range(1, repeats + 1)
    }
    print(f"machines by repeat: { ({k: sorted(v) for k, v in machines.items()}) }")
    print(f"servers and drivers left on the hosts at the end: {left}")
    report = pgstrata(place, "report", "results")
    print(report.communicate()[0], end="")
    whole = len(runs) == 2 * repeats and all(run.done for run in runs)
    apart = all(len(names) == 1 for names in machines.values())
    good = code == 0 and whole and apart and len(again) >= 2 and not any(left.values())
    print("complete" if good else "NOT as it should be")
    return 0 if good else 1


def _workers(hosts: Hosts, number: int) -> list[psutil.Process]:
    return [p for p in hosts.workers(number) if "dask" in " ".join(_command(p))]


def _break_it(client: subprocess.Popen[str], hosts: Hosts) -> list[dict[str, object]]:
    """Kills the worker of the second host and unplugs the third while each measures; what the client says."""
    events: list[dict[str, object]] = []
    assert client.stdout is not None
    killed = unplugged = False
    for line in client.stdout:
        try:
            event = json.loads(line)
        except ValueError:
            print(f"  {line.rstrip()}")
            continue
        events.append(event)
        if event["event"] != "progress":
            print("  " + ", ".join(str(v) for v in event.values() if v not in ("", {}, None)))
        if event["event"] == "comparison-begins":
            if event["machine"] == "host2" and not killed:
                wait(lambda: hosts.servers(2), 60, "a server on host2")
                hosts.kill_worker(2)
                killed = True
            if event["machine"] == "host3" and not unplugged:
                wait(lambda: hosts.servers(3), 60, "a server on host3")
                hosts.unplug(3)
                unplugged = True
    return events


if __name__ == "__main__":
    sys.exit(main())

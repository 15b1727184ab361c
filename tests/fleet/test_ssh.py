"""A fleet by ssh: its key travels to the hosts into a private folder, and everything is gone at the end."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from distributed import Client
from distributed.security import Security

from pgstrata.fleet.certificates import certificates_in
from support.program import Program, environment, living_in

SERVER = """
import asyncio, os, signal, sys
import asyncssh

async def handle(process):
    "Runs a command as sshd does, and ends it with its connection."
    child = await asyncio.create_subprocess_shell(
        process.command, stdin=-1, stdout=-1, stderr=-1, start_new_session=True)
    try:
        await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
        waits = [asyncio.ensure_future(child.wait()), asyncio.ensure_future(process.channel.wait_closed())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if child.returncode is not None:
            await process.stdout.drain()
            process.exit(child.returncode)
    finally:
        try:
            os.killpg(child.pid, signal.SIGTERM if child.returncode is None else signal.SIGKILL)
        except ProcessLookupError:
            pass

async def main():
    await asyncssh.listen("127.0.0.1", int(sys.argv[1]), server_host_keys=[sys.argv[2]],
                          authorized_client_keys=sys.argv[3], process_factory=handle, encoding=None)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def host(place: Path) -> Iterator[str]:
    """A server of ssh on loopback, and a home with a key for it; the line of hosts.txt."""
    keys = place / "home/.ssh"
    keys.mkdir(parents=True, mode=0o700)
    for file in (keys / "id_ed25519", place / "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    public = (place / "host_key.pub").read_text().split()[:2]
    (keys / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n")
    (place / "server.py").write_text(SERVER)
    files = [place / "server.py", port, place / "host_key", keys / "id_ed25519.pub"]
    command = [sys.executable, *map(str, files)]
    server = subprocess.Popen(command, env=environment(PGSTRATA_CACHE=str(place / "cache")))
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        until = time.monotonic() + 20  # workers see that their connection is gone
        while living_in(place) and time.monotonic() < until:
            time.sleep(0.1)


def folders() -> set[Path]:
    return set(Path("/tmp").glob("pgstrata-fleet-" + "?" * 32))


def test_up_and_down(place: Path, host: str, pgstrata: Program, tmp_path: Path) -> None:
    before = folders()
    env = {"HOME": str(place / "home"), "PGSTRATA_CACHE": str(place / "cache")}
    (place / "hosts.txt").write_text(f"{host}\n")
    up = pgstrata("fleet", "up", "ssh:hosts.txt", **env)
    try:
        assert up.returncode == 0, up.stdout + up.stderr + (place / "cache/fleets/fleet.log").read_text()
        assert "scheduler tls://127.0.0.1:" in up.stdout
        keys = place / "cache/fleets/fleet.tls"
        (folder,) = folders() - before
        for private in (keys, folder):
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
            assert stat.S_IMODE((private / "fleet.key").stat().st_mode) == 0o600
        status = pgstrata("fleet", "status", "--format", "json", **env)
        ((fleet),) = json.loads(status.stdout)
        (machine,) = fleet["machines"]
        assert machine["doing"] == "free", status.stdout  # it has answered a task: it is restricted
        marker = tmp_path / "marker"
        with dask.config.set(certificates_in(keys).settings()):
            client = Client(fleet["scheduler"], security=Security(), set_as_default=False, timeout=20)
        for attack in (client.run_on_scheduler, client.run):
            with pytest.raises(Exception, match=r"disallowed|no part of a task"):
                attack(os.system, f"touch {marker}")
        client.close(timeout=5)
        assert not marker.exists()
    finally:
        down = pgstrata("fleet", "down", **env)
    assert down.returncode == 0, down.stderr
    assert folders() == before and not keys.exists()

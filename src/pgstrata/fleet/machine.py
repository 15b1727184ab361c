"""The machine a worker runs on: who it is, of which kind, and what a campaign must know before it begins."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pgstrata
from pgstrata.driver.path import find_driver
from pgstrata.errors import PgstrataError, ServerError
from pgstrata.files import digests
from pgstrata.fleet.tasks import Look, SeenMachine
from pgstrata.observe import machine
from pgstrata.server.cluster.storage import default_data_dir
from pgstrata.server.find import prebuilt

NAME = "PGSTRATA_MACHINE"
"""In the environment of a worker: it passes for a machine of this name, to try a fleet on one host."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def look(task: Look) -> SeenMachine:
    """Returns the facts of this machine. Raises PgstrataError if there is no driver."""
    host = machine.facts(Path(task.data_dir) if task.data_dir else default_data_dir())
    facts = [
        host.cpu_model,
        host.cpus,
        host.memory_bytes,
        host.kernel,
        host.os,
        host.data_dir_fs,
        host.data_dir_device,
        host.virtual,
    ]
    memory = f"{(host.memory_bytes or 0) / 2**30:.0f} GB"
    disk = f"{host.data_dir_fs or 'disk'} on {host.data_dir_device or 'what is not seen'}"
    passes_for = os.environ.get(NAME, "")
    return SeenMachine(
        name=passes_for or socket.gethostname(),
        host=f"{_boot()}{f'/{passes_for}' if passes_for else ''}",
        kind=f"{host.cpu_model}, {host.cpus} CPUs, {memory}, Linux {host.kernel}, {disk}",
        alike=machine.kind_of_code(),
        fingerprint=digests.of(json.dumps(facts))[:16],
        trial=bool(passes_for),
        pgstrata=pgstrata.__version__,
        driver=driver_build(),
        clock=time.time(),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        have=_have([wanted.spec for wanted in task.servers]),
        shares=bool(task.mark) and Path(task.mark).is_file(),
    )


def _boot() -> str:
    """Returns an identity that all processes of one kernel have in common, in all of its containers."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return socket.gethostname()


def driver_build() -> str:
    """Returns the driver's version and which build of it this is: drivers of the same version may be of other
    sources or compilers. Raises PgstrataError if the driver is missing or does not run."""
    driver = find_driver()
    try:
        done = subprocess.run([driver, "--version"], capture_output=True, text=True, timeout=30, check=True)
        digest = digests.of_file(driver)
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerError(f"{driver} does not run: {error}") from error
    return f"{done.stdout.strip()} (build {digest[:8]})"


def _have(specs: list[str]) -> tuple[str, ...]:
    """Returns the prebuilt servers that are in the cache; whether other servers are there is not known before
    they are built."""
    try:
        fetched = {f"pg:{version}" for version, _ in prebuilt.fetched()}
    except PgstrataError:
        return ()
    return tuple(spec for spec in specs if spec in fetched)


__all__ = ["NAME", "driver_build", "look"]

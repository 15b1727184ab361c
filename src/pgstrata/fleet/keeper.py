"""Holds a cluster of the engine until it is told to end: `python -m pgstrata.fleet.keeper`, told on its
standard input what to put up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import msgspec
from distributed.security import Security

import pgstrata
from pgstrata import numbers
from pgstrata.errors import PgstrataError, ServerError, server_said
from pgstrata.fleet import restricted
from pgstrata.fleet.certificates import certificates_in
from pgstrata.fleet.local import QUIET, WITHOUT_PAGES
from pgstrata.fleet.perform import PRELOAD, RESOURCE
from pgstrata.fleet.putting_up import Fleet, HostLine, Wish, keeping, tls_folder, write

SSH_SECONDS = 20.0
"""How long a host may take to answer."""


def main() -> None:
    """Puts the fleet up, says so, and waits for SIGTERM."""
    wish = msgspec.json.decode(sys.stdin.buffer.read(), type=Wish)
    assert restricted.is_active()
    logging.basicConfig(level=logging.INFO)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    fleet = Fleet(wish=wish, pid=os.getpid())
    try:
        with (
            keeping(wish.name),
            dask.config.set(QUIET),
            _ssh(wish, fleet) if wish.kind == "ssh" else _slurm(wish, fleet) as cluster,
        ):
            fleet.address = str(cluster.scheduler_address)
            write(fleet)
            ended.wait()
    except PgstrataError as error:
        fleet.problem = error.message + (f"; {error.hint}" if error.hint else "")
        write(fleet)
        sys.exit(1)
    except Exception as error:
        fleet.problem = f"the engine did not come up: {type(error).__name__}: {server_said(error, 300)}"
        write(fleet)
        sys.exit(1)


def _scheduler_options(wish: Wish, usual: str = "") -> dict[str, Any]:
    """Returns the options of the scheduler. usual: the address on which it listens unless another is set;
    empty for all."""
    options: dict[str, Any] = {**WITHOUT_PAGES, "preload": [PRELOAD]}
    if host := wish.listen or usual:
        options["host"] = host
    if wish.tls:
        options["protocol"] = "tls"
    return options


# --- ssh --------------------------------------------------------------------------------------


@contextmanager
def _ssh(wish: Wish, fleet: Fleet) -> Iterator[Any]:
    """Yields the cluster on the hosts. Its key travels by ssh into a private folder of each host, which holds
    the engine's scratch files, too, and is removed at the end."""
    from distributed.deploy.ssh import SSHCluster

    answers = asyncio.run(_ask_all(wish.hosts))
    usable = []
    for host, problem in zip(wish.hosts, answers, strict=True):
        fleet.messages.append(f"{host.host}: {problem or 'answers'}")
        usable += [] if problem else [host]
    if not usable:
        raise ServerError(f"no host can be used: {'; '.join(fleet.messages)}", "ssh to one of them shows why")
    # No name that another user could have foreseen; the same on all hosts, as the configuration is.
    folder = f"/tmp/pgstrata-fleet-{secrets.token_hex(16)}"
    settings: dict[str, Any] = {"temporary-directory": folder}
    files: dict[str, bytes] = {}
    security = None
    if wish.tls:
        certificates = certificates_in(tls_folder(wish.name))
        files = {
            Path(path).name: Path(path).read_bytes() for path in (certificates.certificate, certificates.key)
        }
        with dask.config.set(certificates.settings()):
            security = Security()
        settings |= certificates_in(folder).settings()
    try:
        asyncio.run(_on_all(usable, lambda connection: _prepare(connection, folder, files)))
        with dask.config.set(settings), _cluster(SSHCluster, wish, usable, folder, security) as cluster:
            yield cluster
    finally:
        asyncio.run(_on_all(usable, lambda connection: _remove(connection, folder)))


async def _on_all(hosts: Sequence[HostLine], work: Callable[[Any], Awaitable[None]]) -> None:
    """Does something on every host; hosts that cannot be reached any more are passed over."""
    import asyncssh

    async def on(host: HostLine) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncssh.Error):
            async with asyncio.timeout(SSH_SECONDS):
                async with asyncssh.connect(host.host, **_connect_options(host)) as connection:
                    await work(connection)

    await asyncio.gather(*(on(host) for host in hosts))


async def _prepare(connection: Any, folder: str, files: Mapping[str, bytes]) -> None:
    """Makes the private folder; a host that is listed twice has it already."""
    owned = f"test -O {folder} && test ! -L {folder}"
    done = await connection.run(f"umask 077; mkdir -m 700 {folder} 2>/dev/null; {owned}")
    if done.exit_status == 0:
        for name, content in files.items():
            await connection.run(f"umask 077; cat > {folder}/{name}", input=content, encoding=None)


async def _remove(connection: Any, folder: str) -> None:
    await connection.run(f"rm -rf -- {folder}")


def _cluster(made_by: Any, wish: Wish, usable: Sequence[HostLine], folder: str, security: Any) -> Any:
    hosts = [usable[0], *usable]  # the first is the scheduler's
    return made_by(
        [host.host for host in hosts],
        connect_options=[_connect_options(host) for host in hosts],
        worker_options={
            **{"nthreads": 1, "resources": {RESOURCE: 1}, "memory_limit": 0},
            **WITHOUT_PAGES,
            "preload": [PRELOAD],
            "preload_nanny": [PRELOAD],
            "local_directory": folder,
        },
        security=security,
        scheduler_options={"port": 0, **_scheduler_options(wish, _address(hosts[0]))},
        remote_python=[host.python or sys.executable for host in hosts],
    )


def _address(host: HostLine) -> str:
    """Returns the address under which this machine reaches a host, and so will reach its scheduler; empty if
    only the configuration of ssh knows it."""
    try:
        return str(socket.getaddrinfo(host.host, host.port, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return ""  # known to the configuration of ssh only


def _connect_options(host: HostLine) -> dict[str, Any]:
    return {"port": host.port, **({"username": host.user} if host.user else {})}


async def _ask_all(hosts: tuple[HostLine, ...]) -> list[str]:
    return list(await asyncio.gather(*(_ask(host) for host in hosts)))


async def _ask(host: HostLine) -> str:
    """Returns why a host cannot be used; empty if it can."""
    import asyncssh

    python = host.python or sys.executable
    code = "import distributed, pgstrata; print(pgstrata.__version__)"
    try:
        async with asyncio.timeout(SSH_SECONDS):
            async with asyncssh.connect(host.host, **_connect_options(host)) as connection:
                done = await connection.run(f'{python} -c "{code}"')
    except TimeoutError:
        return f"it does not answer within {SSH_SECONDS:.0f} s"
    except (OSError, asyncssh.Error) as error:
        return f"it cannot be reached by ssh: {server_said(error, 200)}"
    printed = str(done.stdout or "").strip()
    if done.exit_status != 0:
        last = str(done.stderr or "").strip().splitlines()
        return f"{python} has no pgstrata[fleet] there: {server_said(last[-1] if last else '', 200)}"
    if printed != pgstrata.__version__:
        return f"it has pgstrata {printed}, and here is {pgstrata.__version__}: install the same release"
    return ""


# --- Slurm ------------------------------------------------------------------------------------


def _slurm(wish: Wish, fleet: Fleet) -> Any:
    from dask_jobqueue.slurm import SLURMCluster

    cluster = SLURMCluster(
        queue=wish.partition or None,
        cores=1,
        processes=1,
        memory="1GiB",
        job_mem="0",  # all of the node's
        walltime=wish.walltime,
        job_extra_directives=["--exclusive", *wish.directives],
        worker_extra_args=[
            *("--resources", f"{RESOURCE}=1", "--memory-limit", "0"),
            *("--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
            *("--preload", PRELOAD, "--preload-nanny", PRELOAD),
        ],
        python=sys.executable,
        protocol="tls://" if wish.tls else "tcp://",
        # This process holds the scheduler, and has loaded the restrictions.
        scheduler_options={k: v for k, v in _scheduler_options(wish).items() if k != "preload"},
        # The scheduler must not take the workers of lost nodes for ever.
        death_timeout=300,
    )
    cluster.scale(jobs=wish.machines)
    jobs = numbers.counted(wish.machines, "job") + (", each" if wish.machines > 1 else "")
    fleet.messages.append(f"asked Slurm for {jobs} with a node of its own")
    return cluster


if __name__ == "__main__":
    main()

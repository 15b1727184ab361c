"""What the comparisons with pgbench and sysbench share: options, and a server with the peers' tables."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import ConfigFile, resolve
from pgstrata.server.find.model import Server

ROWS = 500_000
"""Of sysbench's one table."""

PEERS = ("pgbench", "sysbench")


def options(text: str, *, seconds: int, rounds: int) -> argparse.ArgumentParser:
    """The options of such a comparison, with these defaults."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="pg:17", help="server to run against (default %(default)s)")
    parser.add_argument(
        "--seconds", type=int, default=seconds, help="of each side in each round (default %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=rounds, help="of each pair (default %(default)s)")
    parser.add_argument("--engine", default="auto", help="auto, blocking or io_uring (default auto)")
    parser.add_argument("--pairs", default="", help="only pairs whose name contains this")
    return parser


@contextmanager
def serving(
    server: Server, text: str, scale: int, peers: Collection[str] = PEERS, tls: bool = False
) -> Iterator[Cluster]:
    """A server with the config `text` and a database `bench` with these peers' tables, made by them.

    tls: it takes connections over 127.0.0.1, and there only with TLS. Ends the program where one of all peers
    is missing.
    """
    for peer in PEERS:
        if not shutil.which(peer):
            raise SystemExit(f"{peer} is not here: apt-get install {peer}")
    config = resolve([ConfigFile("benchmark", text, None)], server.version_num, 16 << 30)
    with (
        tempfile.TemporaryDirectory(prefix="pgs") as folder,
        Cluster(server, config, Path(folder) / "c", tcp=tls) as cluster,
    ):
        # As root the server runs as another account, which has to get into the folder.
        Path(folder).chmod(0o755)
        cluster.create()
        cluster.start()
        with cluster.connect() as admin:
            admin.execute("CREATE DATABASE bench")
        host, port = str(cluster.socket_dir), str(cluster.port)
        commands = {
            "pgbench": ["pgbench", "-h", host, "-p", port, "-U", "postgres", "-iqs", str(scale), "bench"],
            "sysbench": [
                *("sysbench", "oltp_read_write", "--db-driver=pgsql", f"--pgsql-host={host}"),
                *(f"--pgsql-port={port}", "--pgsql-user=postgres", "--pgsql-db=bench"),
                # The default would crowd the values of k, and random points then finds a third of the rows.
                *("--tables=1", f"--table-size={ROWS}", "--rand-type=uniform", "prepare"),
            ],
        }
        for peer in peers:
            subprocess.run(commands[peer], check=True, capture_output=True)
        if tls:
            _require_tls(cluster)
        yield cluster


def _require_tls(cluster: Cluster) -> None:
    folder = cluster.data_folder.path
    assert folder is not None
    owner = folder.stat()
    certificate, key = folder / "server.crt", folder / "server.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    for file in (certificate, key):
        os.chown(file, owner.st_uid, owner.st_gid)
        file.chmod(0o600)
    (folder / "pg_hba.conf").write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
    with cluster.connect() as admin:
        admin.execute("ALTER SYSTEM SET ssl = on")
        admin.execute("SELECT pg_reload_conf()")
    time.sleep(1)

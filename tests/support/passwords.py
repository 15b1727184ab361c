"""A server that asks for a password, which is to be seen nowhere."""

from __future__ import annotations

import time

from pgstrata.server.cluster.cluster import Cluster

CANARY = "c4naryPa55"


def passwords_only(cluster: Cluster, way: str) -> None:
    """Lets TCP in with a password of this kind only."""
    with cluster.connect() as session:
        session.execute(
            f"SET password_encryption = '{'scram-sha-256' if way == 'scram-sha-256' else 'md5'}'".encode()
        )
        session.execute("DROP ROLE IF EXISTS canary")
        session.execute(f"CREATE ROLE canary SUPERUSER LOGIN PASSWORD '{CANARY}'".encode())
    hba = cluster.data_folder.path / "pg_hba.conf"
    hba.write_text(f"local all all trust\nhost all all 127.0.0.1/32 {way}\n")
    with cluster.connect() as session:
        session.execute("SELECT pg_reload_conf()")
    time.sleep(0.2)


def tcp_url(cluster: Cluster, *more: str) -> str:
    return (
        f"postgresql://canary:{CANARY}@127.0.0.1:{cluster.port}/postgres{'?' if more else ''}{'&'.join(more)}"
    )

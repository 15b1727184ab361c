"""A study as somebody makes it who upgrades: their dump, a gigabyte, restored and measured on 13 and 17."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from support.program import Program, environment
from support.shop import dump, fill_shop, write_files
from support.steps import running

ORDERS = int(os.environ.get("PGSTRATA_SHOP_ORDERS", "4700000"))
"""Rows of the largest table, about 230 bytes each with their indexes."""

CAMPAIGN = """
servers = [{servers}]
keep_loaded = true

[[workloads]]
name = "custom"
label = "shop"
[workloads.options]
setup = ["shop.dir"]
queries = "queries"
define = {{ customers = {customers} }}
seconds = 20

[[workloads.options.steps]]
scripts = ["look.sql"]
clients = 2
mode = "prepared"
reads_only = true

[[workloads.options.steps]]
name = "sale"
roles = [
    {{ name = "look", scripts = ["look.sql"], clients = 2, mode = "prepared" }},
    {{ name = "buy", scripts = ["buy.sql"], rate = 100 }},
]
"""


def _paths(servers: list[Server]) -> str:
    return ", ".join(f'"path:{server.bin_dir.parent}"' for server in servers if server.bin_dir)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_gigabyte_is_dumped_restored_and_measured_on_two_versions(pgstrata: Program, place: Path) -> None:
    """PGSTRATA_SHOP_KEEP names a folder that keeps dump, campaign and results."""
    folder = Path(os.environ.get("PGSTRATA_SHOP_KEEP") or place / "study")
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder)
    customers = max(100, ORDERS // 100)
    servers = [acquire("pg:13"), acquire("pg:17")]
    with running(servers[0], "max_wal_size = 4GB\n") as cluster:
        with cluster.connect() as admin:
            admin.execute("CREATE DATABASE shop")
        with cluster.connect("shop") as connection:
            fill_shop(connection, customers, ORDERS)
            size = connection.execute("SELECT pg_database_size('shop')").fetchone()
        assert size is not None and size[0] > ORDERS * 220
        dump(cluster, "shop", folder / "shop.dir", "-Fd", "-j2", "-Z1")
    for path in (folder / "shop.dir", *(folder / "shop.dir").iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)  # pg_restore runs as another account
    (folder / "shop.toml").write_text(CAMPAIGN.format(customers=customers, servers=_paths(servers)))
    cache = place / "cache"  # what is unpacked and kept goes with the test
    cache.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "pgstrata", "run", "shop.toml"],
        cwd=folder,
        env=environment(PGSTRATA_CACHE=str(cache)),
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    same = pgstrata(
        *("query", "--results", folder / "results", "--format", "csv"),
        "select count(*), count(distinct digest) from queries where step = 'queries' and query like 'q%' "
        "group by query",
    )
    assert same.stdout.splitlines()[1:] == ["2,1"] * 3

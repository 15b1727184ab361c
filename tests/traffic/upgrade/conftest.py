"""A shop on PostgreSQL 13: its dump in two forms, and the log of its application."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.shop import dump, pg_dump
from support.steps import database, running
from support.traffic import SCHEMA, SETTINGS, Shop, take_logs

MORE_ORDERS = """
INSERT INTO orders (account, amount, note) SELECT 1 + g % 500, g % 90, md5(g::text)
FROM generate_series(1, 60000) g
"""
"""With so many an index is worth something."""


NOT_FROM_15_ON = "SELECT owner, 7x FROM accounts WHERE id = 1"
"""Up to 14 this is a 7 that is called x."""

OTHER_ROWS = "SELECT name FROM pg_settings WHERE name LIKE 'io_%'"
"""13 has no such setting, 17 has one."""


@dataclass(frozen=True)
class Original:
    """Files of a database and its log. custom: of pg_dump -Fc; plain: as SQL."""

    custom: Path
    plain: Path
    log: Path


@pytest.fixture(scope="module")
def original(pg13: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    if pg_dump() is None:
        pytest.skip("no pg_dump here")
    folder = tmp_path_factory.mktemp("original")
    with running(pg13) as cluster, database(cluster, "shop") as admin:
        admin.execute(SCHEMA.encode())
        admin.execute(MORE_ORDERS.encode())
        custom = dump(cluster, "shop", folder / "shop.dump", "-Fc")
        plain = dump(cluster, "shop", folder / "shop.sql")
        cluster.stop()
        cluster.start(settings={**SETTINGS, "log_destination": "csvlog"})
        Shop(cluster, "shop", sessions=2, rounds=20, think=0.01).work()
        with cluster.connect("shop") as connection:
            connection.execute(NOT_FROM_15_ON.encode())
            connection.execute(OTHER_ROWS.encode())
        cluster.stop()
        take_logs(cluster, folder)
        cluster.start()
    yield Original(custom, plain, folder / "postgresql.csv")


@pytest.fixture
def files(original: Original, place: Path) -> Path:
    """The same in the folder where the program runs."""
    for file in (original.custom, original.plain, original.log):
        shutil.copyfile(file, place / file.name)
    return place

"""The data folder of a server is made once and copied for each start of a count."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pgstrata.count.measure.template import Templates
from pgstrata.errors import ServerError
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server


def test_a_data_folder_is_made_once_for_all_starts(pg17: Server, place: Path) -> None:
    config = resolve([], pg17.version_num, 8 << 30)
    with Templates() as templates, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(templates.of, pg17, config, (), place) for _ in range(2)]
        data, again = (each.result() for each in asked)
        assert data == again and [path.name for path in place.glob("count-*")] == [data.parent.name]
        for number in range(2):
            with Cluster(pg17, config, place / f"c{number}") as cluster:
                cluster.create(data)
                cluster.start()
                with cluster.connect() as connection:
                    assert connection.execute("SHOW unix_socket_directories").fetchone() == (
                        str(cluster.socket_dir),
                    )
    assert not list(place.glob("count-*"))


def test_nothing_is_made_after_the_end_and_a_failure_leaves_nothing(pg17: Server, place: Path) -> None:
    config = resolve([], pg17.version_num, 8 << 30)
    with Templates() as templates:
        with pytest.raises(ServerError, match="initdb"):
            templates.of(pg17, config, ("--no-such-option",), place)
        templates.end()
        with pytest.raises(ServerError, match="was ended"):
            templates.of(pg17, config, (), place)
    assert not list(place.glob("count-*"))

"""Timers of a server that is frozen now and then: which are made longer, and that it takes them."""

from __future__ import annotations

from pathlib import Path

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.config.timers import PERIODS, TurnLengths, longer_timers
from pgstrata.server.find.model import Server

TWO = TurnLengths(2, 0.5, 30.0)


def test_what_is_longer_than_a_turn_becomes_longer() -> None:
    timers = longer_timers({}, KnownSettings(170000), TWO)
    assert timers == {
        "autovacuum_naptime": "2min",
        "checkpoint_timeout": "10min",
        "checkpoint_warning": "1min",
        "deadlock_timeout": "2s",
    }
    given = {
        "checkpoint_timeout": "30s",
        "bgwriter_delay": "800ms",
        "statement_timeout": "90s",
        "lock_timeout": "10ms",
    }
    timers = longer_timers(given, KnownSettings(170000), TurnLengths(3, 0.5, 30.0))
    assert timers["checkpoint_timeout"] == "90s"
    assert timers["bgwriter_delay"] == "2400ms"
    assert timers["statement_timeout"] == "330s"
    assert timers["lock_timeout"] == "60030ms"
    assert "wal_writer_delay" not in timers, "shorter than a turn"


def test_no_longer_than_a_version_allows() -> None:
    old, new = KnownSettings(90500), KnownSettings(170000)
    assert longer_timers({"checkpoint_timeout": "50min"}, old, TWO)["checkpoint_timeout"] == "1h"
    assert longer_timers({"bgwriter_delay": "9s"}, new, TWO)["bgwriter_delay"] == "10s"


def test_a_server_takes_them_while_it_runs_and_gives_them_back(
    pg17: Server, pg12: Server, place: Path
) -> None:
    for server in (pg17, pg12):
        with Cluster(server, Resolved("plain"), place / server.label) as cluster:
            cluster.create()
            cluster.start()

            def now(cluster: Cluster = cluster) -> dict[str, str]:
                with cluster.connect() as session:
                    shown = session.execute("SELECT name, current_setting(name) FROM pg_settings").fetchall()
                return {name: value for name, value in shown if name in PERIODS}

            before = now()
            longer = cluster.timers.set(TWO)
            assert longer["checkpoint_timeout"] == "10min"
            assert now() == {**before, **longer}
            assert cluster.timers.set(None) == {}
            assert now() == before

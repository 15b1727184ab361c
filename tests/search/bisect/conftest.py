"""A search that a machine under load answers rightly: its configs sleep, for one time or for eight times
that."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.trade import TRADE, trading


@pytest.fixture
def trade(place: Path) -> list[str]:
    """Options of a step that counts rows and sleeps, and two configs: the second one counts fewer and sleeps
    longer."""
    for name, rows, delay in (("counts", 5000, 0.002), ("sleeps", 100, 0.016)):
        (place / f"{name}.conf").write_text(f"test.rows = '{rows}'\ntest.delay = '{delay}'\n")
    (place / "trade.sql").write_text(TRADE)
    return trading()


@pytest.fixture
def delays(place: Path, pg17: Server) -> list[str]:
    """Options of a search over three configs, of which the last is slow."""
    for name, delay in (("quick1", 0.002), ("quick2", 0.002), ("slow", 0.016)):
        (place / f"{name}.conf").write_text(f"test.delay = '{delay}'\n")
    (place / "delay.sql").write_text("SELECT pg_sleep(current_setting('test.delay')::float8);\n")
    sets = ('scripts=["delay.sql"]', "builtin=[]", "modes=simple", "clients=1", "warmup=0")
    never = ("initialise=false", "vacuum=false", "checkpoint=false", "reads_only=true")
    return [
        "bisect",
        *("--server", pg17.spec, "--configs", "./quick1.conf,./quick2.conf,./slow.conf"),
        *("--workload", "pgbench", "--step", "delay-simple-c1", "--seconds", "0.5", "--no-profile"),
        *("--other-load", "100%"),
        *(word for set_ in (*sets, *never) for word in ("--set", set_)),
        *("--data-dir", str(place / "data"), "--results", str(place / "search")),
    ]

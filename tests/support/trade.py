"""A step whose instructions and whose time are settings of the server: it counts rows, and it sleeps."""

from __future__ import annotations

TRADE = (
    "SELECT count(*) FROM generate_series(1, current_setting('test.rows')::int);\n"
    "SELECT pg_sleep(current_setting('test.delay')::float8);\n"
)


def trading() -> list[str]:
    """Options of a search or a comparison at this step, whose script is the file trade.sql."""
    sets = ('scripts=["trade.sql"]', "builtin=[]", "modes=simple", "clients=1", "warmup=0")
    never = ("initialise=false", "vacuum=false", "checkpoint=false", "reads_only=true")
    words = [word for text in (*sets, *never) for word in ("--set", text)]
    return ["--workload", "pgbench", "--step", "trade-simple-c1", *words]

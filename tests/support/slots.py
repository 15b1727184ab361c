"""A curve that is known: clients that sleep side by side, as many as a variant has slots.

The rate grows up to that number of clients, and with it the CPU that is used stays small: so it does on any
machine, whatever else runs there.
"""

from __future__ import annotations

from pathlib import Path

NAME = "slots"

CAMPAIGN = """
name = "slots"
data_dir = "data"
order = "interleaved"
placement = "free"
slice_seconds = 0.1
other_load = 1
margin = 0.2
waits = 50

[[variants]]
server = "{server}"
label = "many"
config = ["default", "curve.slots=64"]

[[variants]]
server = "{server}"
label = "two"
config = ["default", "curve.slots=2"]

[[workloads]]
name = "custom"
[workloads.options]
setup = ["slots.sql"]
steps = [{steps}]
refine = 2
seconds = 2
warmup = 0
reads_only = true
"""

SLEEP = """
CREATE FUNCTION sleep(client int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(client % current_setting('curve.slots')::int);
    PERFORM pg_sleep(0.01);
END $$;
"""

CURVE = '{ name = "sleep", scripts = ["sleep.sql"], clients = "1..4" }'
AFTER = '{ name = "after", scripts = ["sleep.sql"], clients = 1 }'


def write_slots(place: Path, server: str, *steps: str) -> Path:
    """Writes the campaign and its files into a folder; returns the campaign's file. server: its spec."""
    (place / "slots.sql").write_text(SLEEP)
    (place / "sleep.sql").write_text("SELECT sleep(:client_id);\n")
    file = place / f"{NAME}.toml"
    file.write_text(CAMPAIGN.format(server=server, steps=", ".join(steps)))
    return file


__all__ = ["AFTER", "CURVE", "NAME", "write_slots"]

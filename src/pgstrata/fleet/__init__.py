"""Campaigns on many machines: whole comparisons, spread by the engine Dask (docs/guides/fleet.md)."""

from pgstrata.registry import Capability, Command

CAPABILITY = Capability(
    commands=(
        Command(
            "fleet",
            "pgstrata.fleet.command:app",
            "Machines for campaigns: up, status, down.",
            "Many machines",
        ),
    ),
    prints={"run": ("pgstrata.fleet.watching:FleetEvent", "pgstrata.fleet.forecast:ForecastRecord")},
    machines="pgstrata.fleet.command",
)

"""Campaigns on many machines: whole comparisons, spread by the engine Dask (docs/fleet.md)."""

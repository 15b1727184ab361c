"""Clusters: initialised, started, stopped, copied, followed by a standby."""

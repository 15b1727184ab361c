"""Connections: what describes them, opens them, guards them and stands between."""

"""The load driver's process, its spec and its events."""

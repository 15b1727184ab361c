"""Which standby a variant wants, and what its primary needs for it: for plans, which start nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgstrata.errors import UsageError
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.resolve import Resolved

NAME = "replica"
"""What the standby calls itself to its primary."""

Replication = Literal["async", "sync"]
Reads = Literal["primary", "replica"]

KEPT = "1GB"
"""Of write-ahead log that the primary keeps for a standby that is behind."""


@dataclass(frozen=True)
class Replicas:
    """What is wanted: commits wait for the standby (`sync`) or not; steps that only read go to it or not."""

    replication: Replication = "async"
    reads: Reads = "primary"

    @property
    def label(self) -> str:
        """What it adds to the label of a variant."""
        return (
            NAME
            + ("-sync" if self.replication == "sync" else "")
            + ("-reads" if self.reads == "replica" else "")
        )


def settings_for(config: Resolved, known: KnownSettings) -> dict[str, str]:
    """Returns the settings without which nothing could be streamed, where the config has others.

    They are set also where they are a server's defaults: what those are depends on the server.
    """
    configured, wanted = config.settings, {}
    if configured.get("wal_level", "minimal") == "minimal":
        wanted["wal_level"] = "replica"
    if int(configured.get("max_wal_senders", "0")) < 2:
        wanted["max_wal_senders"] = "10"
    name, most = ("wal_keep_size", KEPT) if known.has("wal_keep_size") else ("wal_keep_segments", "64")
    if name not in configured:
        wanted[name] = most
    if "hot_standby" not in configured:
        wanted["hot_standby"] = "on"
    return wanted


def check_replicas(replicas: Replicas, config: Resolved, known: KnownSettings, label: str) -> None:
    """Raises UsageError where a version has no such replicas, or a config makes nonsense of them."""
    if not _streams_replicas(known):
        raise UsageError(
            f"{label}: replicas are made of servers from 9.6 on",
            "older ones stream, too, but call wal_level otherwise and do not tell what was replayed; "
            "leave `replicas` out",
        )
    commit = config.settings.get("synchronous_commit", "on")
    if replicas.replication == "sync" and commit in ("off", "local"):
        raise UsageError(
            f"{label}: with synchronous_commit = {commit} no commit waits for a replica",
            'replication = "async", or a config with synchronous_commit = on, remote_write or remote_apply',
        )
    if config.settings.get("hot_standby") == "off":
        raise UsageError(
            f"{label}: with hot_standby = off nobody can read on the replica, nor ask whether it is ready",
            "leave that setting out",
        )


def _streams_replicas(known: KnownSettings) -> bool:
    """Returns True if wal_level can be `replica`, as from 9.6 on."""
    takes = known.takes("wal_level", "replica")
    if takes is None:
        row = known.get("wal_level")
        return row is not None and "replica" in row.values
    return takes


__all__ = ["KEPT", "NAME", "Reads", "Replicas", "Replication", "check_replicas", "settings_for"]

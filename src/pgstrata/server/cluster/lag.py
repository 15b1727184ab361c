"""How far a replica was behind its primary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReplicaLag:
    """Of one moment (Unix time). bytes: of write-ahead log that was not replayed; seconds: that a flushed
    commit took until it was replayed, as the primary tells; None where its version does not."""

    moment: float
    bytes: int
    seconds: float | None

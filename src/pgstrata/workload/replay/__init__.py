"""The sessions of a captured file, executed again."""

from pgstrata.workload.replay.steps import Replay

__all__ = ["Replay"]

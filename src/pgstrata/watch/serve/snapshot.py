"""The runs of a results folder in memory, read anew beside the requests while the folder grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgstrata.errors import PgstrataError
from pgstrata.process_end import leave_thread_behind
from pgstrata.report.index import CampaignRuns, campaign_runs
from pgstrata.store import Results
from pgstrata.store.catalogue import Entry

SHORTEST_AGE = 2.0
SHARE = 0.05
"""Of a CPU that reading may take while somebody looks: a measurement may run on this machine."""


@dataclass(frozen=True)
class Snapshot:
    """What a results folder held. trouble: why it cannot be read, or empty."""

    runs: Sequence[Entry] = ()
    campaigns: Sequence[CampaignRuns] = ()
    by_id: Mapping[str, Entry] = field(default_factory=dict)
    by_campaign: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    broken: int = 0
    trouble: str = ""


class Runs:
    """The runs of a folder. Nobody waits for them: until they are read for the first time there are none."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._snapshot: Snapshot | None = None
        self._lock = threading.Lock()
        self._is_reading = False
        self._due = 0.0

    def latest(self) -> Snapshot | None:
        """Returns what was read last, None before; has it read again where it is old."""
        with self._lock:
            if not self._is_reading and time.monotonic() >= self._due:
                self._is_reading = True
                # Not waited for at the end: a folder on a disk that hangs would keep the server from ending.
                threading.Thread(target=self._read, daemon=True).start()
        return self._snapshot

    def _read(self) -> None:
        begun = time.monotonic()
        leave_thread_behind()
        try:
            snapshot = _read(self.root)
        except (PgstrataError, OSError) as error:
            snapshot = Snapshot(trouble=str(error))
        took = time.monotonic() - begun
        with self._lock:
            self._snapshot = snapshot
            self._is_reading = False
            self._due = time.monotonic() + max(SHORTEST_AGE, took / SHARE)


def _read(root: Path) -> Snapshot:
    results = Results(root)
    runs = sorted(results.entries(), key=lambda run: run.started, reverse=True)
    campaigns = campaign_runs(runs)
    return Snapshot(
        runs,
        campaigns,
        {run.run_id: run for run in runs},
        {campaign.name: campaign.runs for campaign in campaigns},
        len(results.broken),
    )


__all__ = ["Runs", "Snapshot"]

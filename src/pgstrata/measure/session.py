"""What all that is measured for one campaign shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgstrata.campaign.checked import Campaign
from pgstrata.measure.interrupt import Interrupts
from pgstrata.store import Results


@dataclass(frozen=True)
class Session:
    """A campaign while it is measured.

    results: where its runs go, locked by this process. root: folder in which clusters live. interrupts: hears
    signals. say: prints a line of progress.
    """

    campaign: Campaign
    results: Results
    root: Path
    interrupts: Interrupts
    say: Callable[[str], None]

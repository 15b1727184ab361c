"""Names of campaigns, variants and workloads as folder names, and the identity of a run."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pgstrata.files import digests

_LONGEST = 100
_DIGEST = 12
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")

RUN_FOLDER = re.compile(r"(?P<repeat>\d+)-(?P<run_id>[0-9A-Za-z-]+)")
BUILDING_FOLDER = re.compile(r"\.(?P<repeat>\d+)-(?P<run_id>[0-9A-Za-z-]+)\.building")


def slug(name: str) -> str:
    """Returns the name as exactly one safe path component; different names give different components.

    Letters, digits, `.`, `_`, `-` pass. Whatever else is in the name, a first character that hides
    the folder or looks like an option, and everything past 100 characters is replaced, and then a
    digest of the name is appended behind `~`. No name passes with a `~` in it, so a name that was
    replaced never meets one that was not.
    """
    plain = _OTHER.sub("_", name)
    if plain[:1] in {".", "-", ""}:
        plain = "_" + plain[1:]
    if plain == name and len(plain) <= _LONGEST:
        return name
    digest = digests.of(name.encode("utf-8", "surrogatepass"))[:_DIGEST]
    return f"{plain[: _LONGEST - _DIGEST - 1]}~{digest}"


def new_run_id() -> str:
    """Returns an id that is unique over all machines, and sorted by the time of the start:
    `20260131T235959-89abcdef`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


@dataclass(frozen=True, order=True)
class RunKey:
    """What a run measures: one variant × workload × repeat of a campaign. `repeat` counts from 1."""

    campaign: str
    variant: str
    workload: str
    repeat: int

    def folder(self, root: Path) -> Path:
        """Returns the folder where the runs of this campaign, variant and workload lie."""
        return root / slug(self.campaign) / slug(self.variant) / slug(self.workload)

"""Where the kernel can delay a disk, and what there is of such disks."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from pgstrata.errors import UsageError
from pgstrata.server.system.delayed_disk import check_kernel, ticks_per_second

DELAY_SECONDS = math.ceil(3000 / ticks_per_second()) / 1000
"""Three ticks, the shortest that a kernel makes: all of a server's files wait."""
AT_LEAST_SECONDS = 0.6 * DELAY_SECONDS
"""One tick may be missing."""


def _lacking() -> str:
    try:
        check_kernel(DELAY_SECONDS)
    except UsageError as error:
        return error.message
    return ""


needs_delayed_disk = pytest.mark.skipif(bool(_lacking()), reason=_lacking() or "the kernel can")


def disks_of(place: Path) -> list[str]:
    """What the kernel still has below a folder or under pgstrata's names: mounts, mapped and loop devices."""
    found = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line]
    found += [path.read_text().strip() for path in Path("/sys/block").glob("dm-*/dm/name")]
    listed = ["losetup", "--list", "--noheadings", "--output", "BACK-FILE"]
    loops = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    return [text for text in found + loops if str(place) in text or text.startswith("pgstrata-")]

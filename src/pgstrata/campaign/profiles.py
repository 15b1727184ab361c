"""The profile of one step: from its backends to folded stacks in the run folder."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pgstrata.campaign.spec import ProfileSpec
from pgstrata.driver_path import find_driver
from pgstrata.errors import PgstrataError
from pgstrata.observe.profile import Profile, ProfileOptions, Profiler
from pgstrata.store.names import slug

Json = dict[str, Any]


def profiler_of(
    options: ProfileSpec, folder: Path, step_seconds: float | None
) -> Callable[[Mapping[str, Sequence[int]]], Profiler]:
    """Makes the profiler once the backends are known."""
    return lambda pids: Profiler(
        pids, folder, ProfileOptions(**options.model_dump()), step_seconds=step_seconds
    )


def keep_profiles(
    profiles: Sequence[Profile], order: int, step: str, attach: Callable[[str, bytes], None]
) -> tuple[Json, list[str]]:
    """Folds what was recorded and stores it by `attach`.

    Returns `profile` of the step record, one entry per role, and notes on what is missing.
    Raises StoreError where the folded stacks cannot be stored.
    """
    record: Json = {}
    notes: list[str] = []
    for profile in profiles:
        name, note = None, profile.note
        if profile.script is not None and profile.samples:
            try:
                folded = fold(profile.script)
            except (OSError, subprocess.SubprocessError, PgstrataError) as error:
                note = f"the stacks could not be folded: {error}"
            else:
                name = f"profile/{order:02d}-{slug(step)}-{slug(profile.role)}.folded.gz"
                attach(name, gzip.compress(folded, 6, mtime=0))
        record[profile.role] = {
            "file": name,
            "backends": profile.backends,
            "samples": profile.samples,
            "event": profile.event,
            "seconds": profile.seconds,
            "perf_cpu_seconds": profile.perf_cpu_seconds,
            "note": note,
        }
        if note and (text := f"no profile of {profile.role}: {note}") not in notes:
            notes.append(text)
    return record, notes


def fold(script: Path) -> bytes:
    """The text of `perf script` as folded stacks: a line per stack, frames by `;`, behind it its samples."""
    done = subprocess.run(
        [str(find_driver()), "flame", "fold", str(script)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    if done.returncode != 0:
        raise PgstrataError(done.stderr.decode("utf-8", "replace").strip() or "the driver failed")
    return done.stdout

"""The profile of one step: from its backends to folded stacks in the run folder."""

from __future__ import annotations

import gzip
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgstrata.campaign.study import ProfileSpec
from pgstrata.driver.path import find_tools
from pgstrata.errors import PgstrataError
from pgstrata.judge.stacks import add_up, folded_text, parse_folded
from pgstrata.observe.profile import Profile, ProfileOptions, Profiler
from pgstrata.store.names import slug
from pgstrata.store.record import ProfileRecord


@dataclass(frozen=True)
class Folded:
    """A profile of one role as folded stacks; None where there are none, and the profile's note says why."""

    profile: Profile
    stacks: Counter[str] | None


def _folded(profile: Profile) -> Folded:
    if profile.script is None or not profile.samples:
        return Folded(profile, None)
    try:
        return Folded(profile, parse_folded(fold(profile.script).decode("utf-8", "replace")))
    except (OSError, subprocess.SubprocessError, PgstrataError) as error:
        return Folded(replace(profile, note=f"the stacks could not be folded: {error}"), None)


class StepProfile:
    """The profile of one step, recorded in its parts until the wanted seconds are reached.

    Of several parts the first is left out (it meets cold caches). All variants of a comparison are recorded
    in the same parts, so what perf costs is on both sides of a ratio. options: None for no profile.
    """

    def __init__(self, options: ProfileSpec | None, parts: int) -> None:
        self.wanted = options is not None
        self._options = options
        self._left = options.seconds if options else 0.0
        self._first = min(2, parts)
        self._profiles: list[Folded] = []

    def profiler(
        self, part: int, folder: Path, seconds: float | None
    ) -> Callable[[Mapping[str, Sequence[int]]], Profiler] | None:
        """Makes the profiler of one part (from 1) that lasts `seconds`; None where it is not recorded."""
        if self._options is None or self._left <= 0 or part < self._first:
            return None
        recorded = self._left if seconds is None else min(self._left, seconds)
        self._left = round(self._left - recorded, 6)
        options = ProfileOptions(**self._options.model_dump() | {"seconds": recorded})
        return lambda pids: Profiler(pids, folder, options, step_seconds=seconds)

    def add(self, profiles: Sequence[Profile]) -> None:
        """Folds what was recorded; the files of perf are not needed any more then."""
        self._profiles += [_folded(profile) for profile in profiles]

    def keep(
        self, order: int, step: str, attach: Callable[[str, bytes], None]
    ) -> tuple[dict[str, ProfileRecord], list[str]]:
        """Stores the stacks by `attach`, those of one role added up.

        Returns `profile` of the step record, one entry per role, and notes on what is missing.
        Raises StoreError where the stacks cannot be stored.
        """
        record: dict[str, ProfileRecord] = {}
        notes: list[str] = []
        for role in dict.fromkeys(role_profile.profile.role for role_profile in self._profiles):
            profiles = [role_profile for role_profile in self._profiles if role_profile.profile.role == role]
            name = None
            if stacks := add_up(role_profile.stacks for role_profile in profiles if role_profile.stacks):
                name = f"profile/{order:02d}-{slug(step)}-{slug(role)}.folded.gz"
                attach(name, gzip.compress(folded_text(stacks).encode(), 6, mtime=0))
            parts = [role_profile.profile for role_profile in profiles]
            costs = [p.perf_cpu_seconds for p in parts if p.perf_cpu_seconds is not None]
            note = next((p.note for p in parts if p.note), "")
            record[role] = ProfileRecord(
                file=name,
                backends=parts[-1].backends,
                samples=sum(p.samples for p in parts),
                event=parts[-1].event,
                seconds=sum(p.seconds for p in parts),
                perf_cpu_seconds=sum(costs) if costs else None,
                note=note,
            )
            if note and (text := f"no profile of {role}: {note}") not in notes:
                notes.append(text)
        return record, notes


def fold(script: Path) -> bytes:
    """Folds the text of `perf script`: a line per stack, frames by `;`, behind it its samples."""
    done = subprocess.run(
        [str(find_tools()), "flame", "fold", str(script)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    if done.returncode != 0:
        raise PgstrataError(
            done.stderr.decode("utf-8", "replace").strip() or "the stacks could not be folded"
        )
    return done.stdout

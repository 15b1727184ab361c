"""The profile of one step: from its backends to folded stacks and samples of each part in the run folder."""

from __future__ import annotations

import gzip
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pgstrata.campaign.study import ProfileSpec
from pgstrata.driver.path import find_tools
from pgstrata.errors import PgstrataError
from pgstrata.judge.functions import line_of_frame
from pgstrata.judge.stacks import add_up, folded_text, parse_folded, where_they_end
from pgstrata.observe.profile import Profile, ProfileOptions, Profiler
from pgstrata.stats.criterion import LEAST_BLOCKS
from pgstrata.stats.estimate import BATCHES
from pgstrata.store.names import slug
from pgstrata.store.record import ProfilePart, ProfileRecord, RoleRecord

Json = dict[str, Any]

MOST_FUNCTIONS = 1000
"""Of a role that have samples of their own in the table `profiles`; what all others have is added up."""


OUTSIDE = "outside of postgres"
"""In the place of a source file: functions of the kernel, of libraries and of extensions."""


@dataclass(frozen=True)
class Folded:
    """A profile of one role in one part of the step (`number`, from 1; 0: in one piece) as folded stacks;
    None where there are none, and the profile's note says why."""

    number: int
    role: RoleRecord
    profile: Profile
    stacks: Counter[str] | None

    @property
    def part(self) -> ProfilePart:
        """As the step record has it."""
        return ProfilePart(
            number=self.number,
            samples=self.profile.samples,
            operations=self.role.operations,
            cpu_seconds=self.role.cpu_seconds,
        )


def _folded(number: int, role: RoleRecord, profile: Profile) -> Folded:
    if profile.script is None or not profile.samples:
        return Folded(number, role, profile, None)
    try:
        return Folded(number, role, profile, parse_folded(fold(profile.script).decode("utf-8", "replace")))
    except (OSError, subprocess.SubprocessError, PgstrataError) as error:
        note = f"the stacks could not be folded: {error}"
        return Folded(number, role, replace(profile, script=None, note=note), None)


class StepProfile:
    """The profile of one step, recorded in equal pieces of its parts, so that parts of variants make pairs.

    Of many parts that each have connections of their own the first is left out (it meets cold caches). All
    variants of a comparison are recorded in the same parts, so what perf costs is on both sides of a ratio.
    options: None for no profile; parts: that are expected.
    """

    def __init__(self, options: ProfileSpec | None, parts: int) -> None:
        self.wanted = options is not None
        self._options = options
        self._left = options.seconds if options else 0.0
        self._parts = parts
        self._profiles: list[Folded] = []

    def profiler(
        self, number: int, folder: Path, seconds: float | None, span: float | None, *, in_turns: bool
    ) -> Callable[[Mapping[str, Sequence[int]]], Profiler] | None:
        """Makes the profiler of one part (from 1; 0: in one piece) that lasts `seconds`; None where it is not
        recorded. span: the seconds by the clock until it is over; in_turns: all variants stay connected."""
        first = 2 if self._parts > LEAST_BLOCKS and not in_turns else 1
        if self._options is None or self._left <= 0 or max(1, number) < first:
            return None
        # As many as the error of the difference is made of: more would not make it better known.
        pieces = max(1, min(self._parts - first + 1, BATCHES))
        recorded = min(self._left, self._options.seconds / pieces, seconds or self._left)
        self._left = round(self._left - recorded, 6)
        stretch = span / seconds if span and seconds else 1.0
        options = ProfileOptions(**self._options.model_dump() | {"seconds": recorded * stretch})
        return lambda pids: Profiler(pids, folder, options, step_seconds=span)

    def add(self, number: int, roles: Mapping[str, RoleRecord], profiles: Sequence[Profile]) -> None:
        """Folds what was recorded of a part; the files of perf are not needed any more then. roles: what they
        did in it."""
        self._profiles += [
            _folded(number, roles[profile.role], profile) for profile in profiles if profile.role in roles
        ]

    def keep(
        self,
        order: int,
        step: str,
        attach: Callable[[str, bytes], None],
        files: Callable[[], Mapping[str, str | None]],
    ) -> tuple[dict[str, ProfileRecord], list[Json], list[str]]:
        """Stores the stacks by `attach`, those of one role added up. files: gives the source files of the
        server's functions.

        Returns `profile` of the step record, one entry per role, the rows of the table `profiles`, and notes
        on what is missing. Raises StoreError where the stacks cannot be stored.
        """
        record: dict[str, ProfileRecord] = {}
        rows: list[Json] = []
        notes: list[str] = []
        named = files() if any(folded.stacks for folded in self._profiles) else {}
        source_files = {line_of_frame(function): file for function, file in named.items()}
        for role in dict.fromkeys(folded.profile.role for folded in self._profiles):
            of_role = [folded for folded in self._profiles if folded.profile.role == role]
            name = None
            if stacks := add_up(folded.stacks for folded in of_role if folded.stacks):
                name = f"profile/{order:02d}-{slug(step)}-{slug(role)}.folded.gz"
                attach(name, gzip.compress(folded_text(stacks).encode(), 6, mtime=0))
                rows += [{"role": role, **row} for row in _rows(of_role, source_files)]
            parts = [folded.profile for folded in of_role]
            costs = [p.perf_cpu_seconds for p in parts if p.perf_cpu_seconds is not None]
            # A short part in which the backends rested is none that is missing.
            missing = [p for p in parts if p.note and (p.script is None or not stacks)]
            note = missing[0].note if missing else ""
            record[role] = ProfileRecord(
                file=name,
                backends=parts[-1].backends,
                samples=sum(p.samples for p in parts),
                event=parts[-1].event,
                seconds=sum(p.seconds for p in parts),
                perf_cpu_seconds=sum(costs) if costs else None,
                note=note,
                parts=tuple(folded.part for folded in of_role if folded.stacks),
            )
            if note and (text := f"no profile of {role}: {note}") not in notes:
                notes.append(text)
        return record, rows, notes


def _rows(parts: Sequence[Folded], files: Mapping[str, str | None]) -> list[Json]:
    """Returns the samples of each part by part of the server and innermost function. The weights of stacks
    are periods, which differ where hardware counts."""
    ends = [(folded, where_they_end(folded.stacks)) for folded in parts if folded.stacks]
    of_all: Counter[str] = Counter()
    for _, of_part in ends:
        for (_, function), weight in of_part.items():
            of_all[function] += weight
    largest = {function for function, _ in of_all.most_common(MOST_FUNCTIONS)}
    rows: list[Json] = []
    for folded, of_part in ends:
        sums: Counter[tuple[str, str | None]] = Counter()
        for (phase, function), weight in of_part.items():
            sums[phase, function if function in largest else None] += weight
        each = folded.profile.samples / of_part.total()
        rows += [
            {
                "part": folded.number,
                "phase": phase,
                "function": function,
                "file": files.get(function, OUTSIDE) if files and function is not None else None,
                "samples": weight * each,
            }
            for (phase, function), weight in sums.items()
        ]
    return rows


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

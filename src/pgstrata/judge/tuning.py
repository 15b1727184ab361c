"""A tuning study: what each overlay does to the judged step in each set-up, and what to try next.

A *set-up* is what an overlay is tried on (data cached by PostgreSQL with 1 client, by the OS with 4,
…). Classes and their bands are those of the published study: relative rate > 1.05 significant benefit,
1.02 … 1.05 small benefit, 0.99 … 1.01 no impact, ≤ 0.98 hurt; unsafe overlays and those that change
nothing are ignored. Values between bands go to the nearer one and are marked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Class = Literal["significant benefit", "small benefit", "no impact", "hurt", "ignored"]

CLASSES: tuple[Class, ...] = ("significant benefit", "small benefit", "no impact", "hurt", "ignored")

BETWEEN_HURT = 0.985
"""Middle between hurt (≤ 0.98) and no impact (≥ 0.99); the middle itself is no impact."""

BETWEEN_SMALL = 1.015
"""Middle between no impact (≤ 1.01) and small benefit (≥ 1.02); the middle itself is no impact."""

UNSAFE: Mapping[tuple[str, str], str] = {
    ("fsync", "off"): "a crash of the machine can leave the data unreadable",
    ("full_page_writes", "off"): "a crash of the machine can leave torn pages that recovery cannot repair",
    ("data_sync_retry", "on"): "writes can be lost after an error of the disk without anyone noticing",
    ("zero_damaged_pages", "on"): "damaged pages are emptied, and their rows with them",
    ("ignore_checksum_failure", "on"): "damaged pages are used as if they were whole",
}
"""Settings that put the data at risk: overlays with them are reported, never recommended."""

NOTED: Mapping[tuple[str, str], str] = {
    ("synchronous_commit", "off"): "the last transactions before a crash can be lost; the data stays whole",
    ("autovacuum", "off"): "tables bloat and statistics age until somebody vacuums",
    ("track_counts", "off"): "autovacuum cannot see what needs it",
    ("wal_level", "minimal"): "no replicas and no archive can be fed",
}
"""Settings with a price that a reader should know; they do not exclude an overlay."""

PLACES = frozenset(
    {
        "allow_alter_system",
        "cluster_name",
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "hosts_file",
        "ident_file",
        "listen_addresses",
        "log_directory",
        "log_filename",
        "port",
        "unix_socket_directories",
    }
)
"""Settings that differ from cluster to cluster for where it lives, not for how it works."""


@dataclass(frozen=True)
class Overlay:
    """One overlay: the config files it lays over the base, and what SHOW ALL said with it.

    `name` also is its file's, unless `config_files` says otherwise.
    """

    name: str
    settings: Mapping[str, str]
    config_files: tuple[str, ...] = ()

    @property
    def stack(self) -> tuple[str, ...]:
        return self.config_files or (self.name,)


@dataclass(frozen=True)
class RelativeRate:
    """A relative rate of the judged step, with its interval where there is one."""

    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class StudyEntry:
    """One overlay in one set-up. `between`: the value lies between two bands, the nearer was taken.

    `proven`: the interval leaves out 1; None without an interval.
    """

    overlay: str
    relative: RelativeRate
    cls: Class
    between: bool
    proven: bool | None


@dataclass(frozen=True)
class LeftOutOverlay:
    """An overlay that is not in the combination, and why."""

    overlay: str
    reason: str


@dataclass(frozen=True)
class Combination:
    """The overlays worth trying together, and those left out for one of their own kind."""

    overlays: tuple[str, ...]
    left: tuple[LeftOutOverlay, ...]


@dataclass(frozen=True)
class StudyTable:
    """Class × set-up → overlays, in the order of the study.

    `duplicates`: overlay → what has the same settings (None: the base). `unsafe`, `noted`: overlay →
    sentences, for settings in which it differs from the base. `base_warnings`: the same for the base.
    """

    set_ups: tuple[str, ...]
    entries: Mapping[str, tuple[StudyEntry, ...]]
    duplicates: Mapping[str, str | None]
    unsafe: Mapping[str, tuple[str, ...]]
    noted: Mapping[str, tuple[str, ...]]
    base_warnings: tuple[str, ...]
    next: Combination

    def cell(self, cls: Class, set_up: str) -> tuple[StudyEntry, ...]:
        return tuple(e for e in self.entries[set_up] if e.cls == cls)


def classify(relative: float) -> tuple[Class, bool]:
    """Returns the class of a relative rate, and whether it lies between two published bands.

    The small band includes both its ends. Raises ValueError unless the rate is positive and finite.
    """
    if not (math.isfinite(relative) and relative > 0):
        raise ValueError(f"a relative rate must be positive, not {relative}")
    if relative > 1.05:
        return "significant benefit", False
    if relative > BETWEEN_SMALL:
        return "small benefit", relative < 1.02
    if relative >= BETWEEN_HURT:
        return "no impact", not 0.99 <= relative <= 1.01
    return "hurt", relative > 0.98


def differences(
    base: Mapping[str, str], other: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    """Returns the settings whose values differ: name → (in base, in other), None where a side lacks it.

    Both as SHOW ALL says them, so `1800s` and `30min` are the same. LeftOut out is where a cluster lives.
    """
    return {
        name: (base.get(name), other.get(name))
        for name in sorted(base.keys() | other.keys())
        if name not in PLACES and base.get(name) != other.get(name)
    }


def duplicates(base: Mapping[str, str], overlays: Sequence[Overlay]) -> dict[str, str | None]:
    """Returns the overlays that change nothing (→ None), or the same as an earlier one (→ its name)."""
    originals: dict[str, str | None] = {}
    for i, overlay in enumerate(overlays):
        if not differences(base, overlay.settings):
            originals[overlay.name] = None
            continue
        for earlier in overlays[:i]:
            if earlier.name not in originals and not differences(earlier.settings, overlay.settings):
                originals[overlay.name] = earlier.name
                break
    return originals


def warnings(
    settings: Mapping[str, str],
    known: Mapping[tuple[str, str], str],
    base: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Returns `name = value: consequence` for each known setting; with a base, only where it differs from
    it."""
    return tuple(
        f"{name} = {value}: {consequence}"
        for (name, value), consequence in known.items()
        if settings.get(name) == value and (base is None or base.get(name) != value)
    )


def study(
    base: Mapping[str, str],
    overlays: Sequence[Overlay],
    rates: Mapping[str, Mapping[str, RelativeRate]],
) -> StudyTable:
    """Returns the study's table.

    base: its settings as SHOW ALL says them. rates: set-up → overlay → relative rate of the judged
    step. An overlay that a set-up lacks has no entry there. The settings are those of one set-up: an
    overlay changes the same ones in all of them.
    """
    same = duplicates(base, overlays)
    unsafe = {o.name: w for o in overlays if (w := warnings(o.settings, UNSAFE, base))}
    noted = {o.name: w for o in overlays if (w := warnings(o.settings, NOTED, base))}
    entries = {
        set_up: tuple(
            _entry(o.name, measured[o.name], o.name in same or o.name in unsafe)
            for o in overlays
            if o.name in measured
        )
        for set_up, measured in rates.items()
    }
    return StudyTable(
        tuple(rates),
        entries,
        same,
        unsafe,
        noted,
        warnings(base, UNSAFE) + warnings(base, NOTED),
        combine(base, overlays, entries),
    )


def combine(
    base: Mapping[str, str], overlays: Sequence[Overlay], entries: Mapping[str, Sequence[StudyEntry]]
) -> Combination:
    """Returns the winners together.

    A winner has a benefit in one set-up at least — a proven one where there are intervals — and hurts in
    none. Winners are taken in by number of settings they change, fewest first, then by the geometric mean
    of their relative rates, highest first: one that sets a setting to another value than a winner already
    in stays out, and so does one that only joins what is in.
    """
    by_overlay: dict[str, list[StudyEntry]] = {}
    for row in entries.values():
        for entry in row:
            by_overlay.setdefault(entry.overlay, []).append(entry)
    winners: list[Overlay] = []
    left: list[LeftOutOverlay] = []
    for overlay in overlays:
        overlay_entries = by_overlay.get(overlay.name, [])
        benefits = [e for e in overlay_entries if e.cls in ("significant benefit", "small benefit")]
        if not benefits:
            continue
        if hurt := [
            s for s, row in entries.items() for e in row if e.overlay == overlay.name and e.cls == "hurt"
        ]:
            left.append(LeftOutOverlay(overlay.name, f"hurts in {', '.join(hurt)}"))
        elif all(e.proven is False for e in benefits):
            left.append(LeftOutOverlay(overlay.name, "its benefit may be noise: the interval holds 1"))
        else:
            winners.append(overlay)
    strength = {
        o.name: sum(math.log(e.relative.ratio) for e in by_overlay[o.name]) / len(by_overlay[o.name])
        for o in winners
    }
    changes = {
        o.name: {name: value for name, (_, value) in differences(base, o.settings).items()} for o in winners
    }
    # Fewest settings first: an overlay that is itself a combination is then built from its parts.
    kept: list[Overlay] = []
    taken: dict[str, tuple[str | None, str]] = {}
    for overlay in sorted(winners, key=lambda o: (len(changes[o.name]), -strength[o.name])):
        own_changes = changes[overlay.name]
        rivals = [taken[n][1] for n, v in own_changes.items() if n in taken and taken[n][0] != v]
        if rivals:
            left.append(LeftOutOverlay(overlay.name, f"sets the same as {rivals[0]} to another value"))
        elif all(n in taken for n in own_changes):
            left.append(LeftOutOverlay(overlay.name, "only joins overlays that are in already"))
        else:
            kept.append(overlay)
            taken.update({n: (v, overlay.name) for n, v in own_changes.items() if n not in taken})
    order = [o.name for o in overlays]
    chosen = tuple(sorted((o.name for o in kept), key=order.index))
    return Combination(chosen, tuple(sorted(left, key=lambda item: order.index(item.overlay))))


def next_configs(
    base: Sequence[str], overlays: Sequence[Overlay], combination: Combination
) -> list[tuple[str, ...]]:
    """Returns the config stacks of the campaign to run next: the base, each winner alone, and all of them
    together.

    base: config files of the base. Only the base if nothing won; the winners alone are left out where there
    is one, which then is the combination. In the order of the study.
    """
    stacks = {o.name: o.stack for o in overlays}
    alone = [tuple(base) + stacks[name] for name in combination.overlays]
    together = tuple(base) + tuple(f for name in combination.overlays for f in stacks[name])
    if len(alone) < 2:
        return [tuple(base), *alone]
    return [tuple(base), *alone, together]


def _entry(overlay: str, relative: RelativeRate, ignored: bool) -> StudyEntry:
    proven = None
    if relative.low is not None and relative.high is not None:
        proven = relative.low > 1 or relative.high < 1
    if ignored:
        return StudyEntry(overlay, relative, "ignored", False, proven)
    cls, between = classify(relative.ratio)
    return StudyEntry(overlay, relative, cls, between, proven)

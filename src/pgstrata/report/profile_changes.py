"""What profiles of two variants prove of functions, in a line and in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgstrata import numbers
from pgstrata.judge.marks import Mark
from pgstrata.judge.profiles import Changes, CpuChange, ProfileVerdict, Word
from pgstrata.page.blocks import Cell, Column, Row, Table, words
from pgstrata.report.time_parts import signed, time

MOST_NAMED = 5
"""Functions that a line names; the table has more."""

MOST_ROWS = 20
"""Functions or files of a table; what all others changed is in one row."""

_HOW = (
    "µs of CPU of one operation: the kernel's time of the role's connections, divided by samples. All rows "
    "make up the last. Intervals ({confidence:.0%}) are of the mean difference over pairs of batches, slices "
    "or runs in which both sides were profiled, and allow for chance in so few samples; marked is what is "
    "proven, adjusted for the number of rows of all such tables."
)

_MOVED = (
    " A function that one side lacks is in those that call it, and opposite changes of caller and callee are "
    "one: what only moved is no difference."
)

_MARKS: Mapping[Word, Mark] = {"more": "bad", "less": "good", "unclear": ""}


def profile_lines(step: str, profiles: Sequence[ProfileVerdict]) -> list[str]:
    """Returns a line for each profiled role of a step: the functions proven to take more or less CPU."""
    return [
        f"{step}{f', {profile.role}' if len(profiles) > 1 else ''}: CPU by function: {_proven(profile)}"
        for profile in profiles
    ]


def _proven(profile: ProfileVerdict) -> str:
    if not profile.proven:
        why = f": {profile.reason}" if profile.reason else f", of {_evidence(profile)}"
        return f"no function is proven to differ{why}"
    named = ", ".join(f"{change.title} {_difference(change)}" for change in profile.proven[:MOST_NAMED])
    rest = len(profile.proven) - MOST_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    whole = profile.whole
    return (
        f"{named}{more}; all {signed(whole.difference, 'µs')} µs of {time(whole.base, 'µs')} µs per "
        f"operation, {_evidence(profile)}"
    )


def _evidence(profile: ProfileVerdict) -> str:
    base, other = map(numbers.count, profile.samples)
    return f"{base} and {other} samples in {numbers.counted(profile.pairs, 'pair')}"


def _difference(change: CpuChange) -> str:
    return f"{signed(change.difference, 'µs')} µs ({_interval(change)})"


def _interval(change: CpuChange) -> str:
    return f"{signed(change.low, 'µs')} … {signed(change.high, 'µs')}"


def profile_tables(
    profile: ProfileVerdict, base: str, variant: str, keys: Sequence[tuple[str, str]]
) -> list[Table]:
    """Returns the tables of functions, parts of the server and, where they are known, source files. base,
    variant: titles of columns."""
    kinds = (
        ("functions", "function", profile.functions, MOST_ROWS, _MOVED),
        ("cpu-by-part", "part of the server", profile.phases, len(profile.phases), ""),
        ("cpu-by-file", "source file", profile.files, MOST_ROWS, ""),
    )
    nothing = f" Nothing is proven: {profile.reason}." if profile.reason else ""
    return [
        Table(
            name,
            f"CPU time by {noun}: {profile.role}, {variant} against {base}",
            [
                Column("name", noun.capitalize(), align="left"),
                Column("base_us", base, "µs/o"),
                Column("us", variant, "µs/o"),
                Column("difference_us", "Difference", "µs/o", rule=True),
                Column("share", "Of all", "%"),
                Column("remark", "", align="left"),
            ],
            _rows(changes, most, profile.whole),
            f"{_HOW.format(confidence=profile.confidence)}{more} Here: {_evidence(profile)}.{nothing}",
            keys=keys,
            legend=(("bad", "proven to take more"), ("good", "proven to take less")),
        )
        for name, noun, changes, most, more in kinds
        if changes
    ]


def _rows(changes: Changes, most: int, whole: CpuChange) -> list[Row]:
    """Returns the rows of the largest changes, proven ones first, of all others, and of the whole."""
    listed, others = changes[:most], changes[most:]
    rows = [_row(change, whole) for change in sorted(listed, key=lambda change: change.word == "unclear")]
    if others:
        base, other = (sum(getattr(change, side) for change in others) for side in ("base", "other"))
        rows.append(_row(CpuChange(f"{len(others)} others", base, other), whole))
    return [*rows, _row(whole, whole)]


def _row(change: CpuChange, whole: CpuChange) -> Row:
    difference = Cell(
        round(change.difference * 1e6, 6),
        signed(change.difference, "µs"),
        _MARKS[change.word],
        small=_interval(change) if change.is_bounded else "",
    )
    share = change.difference / whole.base
    return Row(
        [
            words(change.name),
            Cell(round(change.base * 1e6, 6), time(change.base, "µs")),
            Cell(round(change.other * 1e6, 6), time(change.other, "µs")),
            difference,
            Cell(round(share, 6), f"{share * 100:+.2f}"),
            words(change.remark),
        ]
    )


__all__ = ["profile_lines", "profile_tables"]

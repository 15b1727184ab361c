"""Where the values of parameters come from, each drawn anew for every call."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from pgstrata.traffic.synthetic.draw import Distribution
from pgstrata.traffic.synthetic.statistics import KnownColumn
from pgstrata.traffic.synthetic.use import Use

Value = str | None
Hide = Callable[[str], str]
"""What a masked file has in the place of a value; the value itself in one that is not."""
Draw = Callable[[Random, Hide], Sequence[Value]]


@dataclass(frozen=True)
class Origin:
    """Where values of some parameters come from. numbers: of the parameters; words: in a few words;
    guessed: nothing is known of the values but their place or type."""

    numbers: tuple[int, ...]
    draw: Draw
    words: str
    guessed: bool = False


def constant(number: int, value: str, words: str) -> Origin:
    return Origin((number,), lambda dice, hide: (value,), words, guessed=True)


def changed(value: str, change: Callable[[str], str] | None) -> str:
    return value if change is None else change(value)


def whole(value: str) -> str:
    return value.partition(".")[0]


def hidden(value: str, column: KnownColumn, hide: Hide) -> str:
    """Returns the hidden value, or the value itself if it is a label of an enum: labels are the schema's, and
    no others would do."""
    return value if column.labels else hide(value)


def drawn_from(number: int, distribution: Distribution, change: Callable[[str], str] | None) -> Origin:
    column = distribution.column

    def draw(dice: Random, hide: Hide) -> Sequence[Value]:
        return (hidden(changed(distribution.equal(dice), change), column, hide),)

    return Origin((number,), draw, column.title)


def drawn_together(
    numbers: tuple[int, ...],
    columns: Sequence[KnownColumn],
    changes: Sequence[Callable[[str], str] | None],
    rows: Sequence[tuple[str, ...]],
) -> Origin:
    """Returns an origin that draws values of the same row."""

    def draw(dice: Random, hide: Hide) -> Sequence[Value]:
        row = zip(dice.choice(rows), columns, changes, strict=True)
        return [hidden(changed(value, change), column, hide) for value, column, change in row]

    return Origin(numbers, draw, " and ".join(column.title for column in columns) + " of one row")


def put_into(number: int, distribution: Distribution) -> Origin:
    column = distribution.column

    def draw(dice: Random, hide: Hide) -> Sequence[Value]:
        value = distribution.value(dice)
        return (None if value is None else hidden(value, column, hide),)

    return Origin((number,), draw, f"put into {column.title}")


def range_between(distribution: Distribution, low: int, high: int, share: float | None) -> Origin:
    """Returns an origin of both ends of a range; without a share, a third of the rows lies in it, as between
    two values drawn at random."""
    width = 1 / 3 if share is None else share

    def draw(dice: Random, hide: Hide) -> Sequence[Value]:
        begin = dice.random() * (1 - width)
        ends = distribution.at(begin), distribution.at(min(1.0, begin + width))
        return [hidden(end, distribution.column, hide) for end in ends]

    words = f"a range of {distribution.column.title}"
    return Origin((low, high), draw, words if share is None else f"{words}: {100 * width:.3g} % of the rows")


def range_beyond(distribution: Distribution, number: int, share: float | None, *, above: bool) -> Origin:
    """Returns an origin of one end of a range; without a share it is drawn as a row's value."""
    mean = 0.5 if share is None else share

    def draw(dice: Random, hide: Hide) -> Sequence[Value]:
        position = dice.random() * 2 * mean if mean <= 0.5 else 1 - dice.random() * 2 * (1 - mean)
        return (hidden(distribution.at(1 - position if above else position), distribution.column, hide),)

    words = f"{'above' if above else 'below'} it in {distribution.column.title}"
    return Origin((number,), draw, words if share is None else f"{words}: {100 * mean:.3g} % of the rows")


def beginning_like(number: int, distribution: Distribution, use: Use, share: float | None) -> Origin:
    """Returns an origin of %, behind the beginning of a value that such a share of the rows has; without a
    share, a hundredth."""
    wanted = 0.01 if share is None else share

    def draw(dice: Random, hide: Hide) -> Sequence[Value]:
        begin = changed(distribution.beginning(distribution.equal(dice), wanted), use.change)
        return (pattern_beginning(hide(begin)),)

    words = f"LIKE the beginning of {distribution.column.title}"
    words += "" if share is None else f": {100 * wanted:.3g} % of the rows"
    return Origin((number,), draw, words, guessed=share is None)


def pattern_beginning(text: str) -> str:
    """Returns the pattern of LIKE for values that begin with a text."""
    return re.sub(r"([\\%_])", r"\\\1", text) + "%"


def beginning_pattern(number: int, distribution: Distribution, use: Use) -> Origin:
    def draw(dice: Random, hide: Hide) -> Sequence[Value]:
        begin = changed(distribution.beginning(distribution.equal(dice), 0.01), use.change)
        return ("^" + re.escape(hide(begin)),)

    words = f"a pattern of the beginning of {distribution.column.title}"
    return Origin((number,), draw, words, guessed=True)


def array_of(values: Sequence[str]) -> str:
    return "{" + ",".join('"' + re.sub(r'(["\\])', r"\\\1", value) + '"' for value in values) + "}"


__all__ = [
    "Draw",
    "Hide",
    "Origin",
    "Value",
    "array_of",
    "beginning_like",
    "beginning_pattern",
    "changed",
    "constant",
    "drawn_from",
    "drawn_together",
    "hidden",
    "pattern_beginning",
    "put_into",
    "range_between",
    "range_beyond",
    "whole",
]

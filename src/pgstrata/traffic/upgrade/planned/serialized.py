"""Values of extended statistics as bytes, which the catalogs of a server hold.

Layouts are those of statext_ndistinct_serialize (mvdistinct.c), statext_dependencies_serialize
(dependencies.c) and statext_mcv_serialize (mcv.c) of the source: in the byte order of the machine, without
alignment. Whoever writes them reads them back: a server may have another layout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgstrata.traffic.upgrade.planned.extended_values import Combination, CommonValues

_DISTINCT, _DEPENDENCIES, _COMMON = 0xA352BFA4, 0xB4549A2C, 0xE1A651C2
_BASIC = 1

_MAXIMUM_ALIGNMENT = 8


@dataclass(frozen=True)
class Dimension:
    """A column or an expression of common values. type: its number; length: of its values in bytes, -1 where
    each has its own; by_value: a value is kept in the place of a pointer; values: distinct ones as the file
    has them, each with its bytes."""

    type: int
    length: int
    by_value: bool
    values: dict[str, bytes]


def distinct_bytes(combinations: Sequence[Combination]) -> bytes:
    """Returns a pg_ndistinct."""
    return _combinations("=di", _DISTINCT, combinations)


def dependencies_bytes(combinations: Sequence[Combination]) -> bytes:
    """Returns a pg_dependencies."""
    return _combinations("=dh", _DEPENDENCIES, combinations)


def _combinations(of_each: str, kind: int, combinations: Sequence[Combination]) -> bytes:
    """Returns the bytes of combinations. of_each: format of the value and of the number of attributes."""
    parts = [struct.pack("=III", kind, _BASIC, len(combinations))]
    for combination in combinations:
        count = len(combination.attributes)
        parts.append(struct.pack(f"{of_each}{count}h", combination.value, count, *combination.attributes))
    return b"".join(parts)


def common_bytes(common: CommonValues, dimensions: Sequence[Dimension]) -> bytes:
    """Returns a pg_mcv_list."""
    count = len(dimensions)
    parts = [struct.pack("=IIIh", _COMMON, _BASIC, len(common.rows), count)]
    parts.append(struct.pack(f"={count}I", *(dimension.type for dimension in dimensions)))
    stored = [[*_stored(dimension)] for dimension in dimensions]
    for dimension, values in zip(dimensions, stored, strict=True):
        size = sum(map(len, values))
        # How much memory the values need once each is aligned.
        aligned = 0 if dimension.by_value else sum(_aligned(len(value)) for value in values)
        facts = len(values), size, aligned, dimension.length, dimension.by_value
        parts.append(struct.pack("=iiii?3x", *facts))
    parts += [value for values in stored for value in values]
    places = [{text: place for place, text in enumerate(dimension.values)} for dimension in dimensions]
    numbers = zip(common.frequencies, common.base_frequencies, strict=True)
    for row, (frequency, base) in zip(common.rows, numbers, strict=True):
        indexes = [0 if text is None else place[text] for place, text in zip(places, row, strict=True)]
        nulls = [text is None for text in row]
        parts.append(struct.pack(f"={count}?dd{count}H", *nulls, frequency, base, *indexes))
    return b"".join(parts)


def _stored(dimension: Dimension) -> Iterator[bytes]:
    for value in dimension.values.values():
        yield struct.pack("=I", len(value)) + value if dimension.length == -1 else value


def _aligned(size: int) -> int:
    return -(-size // _MAXIMUM_ALIGNMENT) * _MAXIMUM_ALIGNMENT


__all__ = ["Dimension", "common_bytes", "dependencies_bytes", "distinct_bytes"]

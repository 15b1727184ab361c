"""Binary parameters as text that the server reads as the same value.

Source: PostgreSQL, the `…send` and `…recv` functions of `src/backend/utils/adt`; numbers of types from
`src/include/catalog/pg_type.dat`, which are the same in every version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, timedelta
from ipaddress import ip_address
from uuid import UUID

FIRST_OWN_TYPE = 16_384
"""Types with smaller numbers are PostgreSQL's own."""

_EPOCH = date(2000, 1, 1)
_DAY = 86_400_000_000
_SECOND = 1_000_000
_ENDLESS = 2**63 - 1, -(2**63)
_MOST_ELEMENTS = 1_000_000
_MOST_DIMENSIONS = 6

Decode = Callable[[bytes], str]


def text_of(oid: int, data: bytes) -> str | None:
    """Returns a binary value as text, None where its type is not known or the bytes are not of it."""
    try:
        if decode := _DECODE.get(oid):
            return decode(data)
        if oid in _ARRAYS:
            return _array(data)
        if oid >= FIRST_OWN_TYPE:
            # An enum or citext is sent as it is written, other types have bytes that no text has.
            text = data.decode()
            return text if text.isprintable() else None
    except (struct.error, ValueError, IndexError, OverflowError):
        pass
    return None


def _number(form: str) -> Decode:
    layout = struct.Struct(form)
    return lambda data: str(layout.unpack(data)[0])


def _float(form: str) -> Decode:
    layout = struct.Struct(form)
    return lambda data: repr(layout.unpack(data)[0])


def _bool(data: bytes) -> str:
    return "t" if struct.unpack("!B", data)[0] else "f"


def _versioned(data: bytes) -> str:
    """Returns the text of a jsonb or jsonpath value, which is a version, then text. Raises ValueError for
    another version."""
    if data[0] != 1:
        raise ValueError
    return data[1:].decode()


def _date(data: bytes) -> str:
    days = struct.unpack("!i", data)[0]
    if days in (2**31 - 1, -(2**31)):
        return "infinity" if days > 0 else "-infinity"
    return str(_EPOCH + timedelta(days=days))


def _clock(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, _SECOND)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:06d}"


def _time(data: bytes) -> str:
    return _clock(struct.unpack("!q", data)[0])


def _timetz(data: bytes) -> str:
    microseconds, west = struct.unpack("!qi", data)
    sign, zone = "-" if west > 0 else "+", abs(west)
    return f"{_clock(microseconds)}{sign}{zone // 3600:02d}:{zone // 60 % 60:02d}:{zone % 60:02d}"


def _timestamp(data: bytes) -> str:
    microseconds = struct.unpack("!q", data)[0]
    if microseconds in _ENDLESS:
        return "infinity" if microseconds > 0 else "-infinity"
    days, rest = divmod(microseconds, _DAY)
    return f"{_EPOCH + timedelta(days=days)} {_clock(rest)}"


def _timestamptz(data: bytes) -> str:
    text = _timestamp(data)
    return text if text.endswith("infinity") else f"{text}+00"


def _interval(data: bytes) -> str:
    microseconds, days, months = struct.unpack("!qii", data)
    if microseconds in _ENDLESS and abs(months) >= 2**31 - 1:
        return "infinity" if microseconds > 0 else "-infinity"
    sign = "-" if microseconds < 0 else ""
    return f"{months} mons {days} days {sign}{_clock(abs(microseconds))}"


def _numeric(data: bytes) -> str:
    count, weight, sign, scale = struct.unpack("!hhHH", data[:8])
    if special := {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}.get(sign):
        return special
    digits = struct.unpack(f"!{count}h", data[8:])
    whole = "".join(f"{digits[n] if n < count else 0:04d}" for n in range(weight + 1)).lstrip("0") or "0"
    places = range(weight + 1, weight + 1 + (scale + 3) // 4)
    part = "".join(f"{digits[n] if 0 <= n < count else 0:04d}" for n in places)[:scale]
    return f"{'-' if sign == 0x4000 else ''}{whole}{'.' if part else ''}{part}"


def _network(data: bytes) -> str:
    _, bits, _, length = struct.unpack("!BBBB", data[:4])
    address = data[4:]
    if len(address) != length:
        raise ValueError
    return f"{ip_address(address)}/{bits}"


def _bits(data: bytes) -> str:
    count = struct.unpack("!i", data[:4])[0]
    return "".join(f"{byte:08b}" for byte in data[4:])[:count]


def _array(data: bytes) -> str:
    dimensions, _, element = struct.unpack("!iiI", data[:12])
    if dimensions == 0:
        return "{}"
    if not 0 < dimensions <= _MOST_DIMENSIONS:
        raise ValueError
    sizes = [struct.unpack_from("!ii", data, 12 + 8 * n) for n in range(dimensions)]
    decode = _DECODE.get(element)
    if decode is None:
        raise ValueError
    values: list[str] = []
    at = 12 + 8 * dimensions
    while at < len(data):
        length = struct.unpack_from("!i", data, at)[0]
        at += 4
        if length < 0:
            values.append("NULL")
        else:
            escaped = decode(data[at : at + length]).replace("\\", "\\\\").replace('"', '\\"')
            values.append(f'"{escaped}"')
            at += length
    return _bounds(sizes) + _braced(values, [size for size, _ in sizes])


def _bounds(sizes: list[tuple[int, ...]]) -> str:
    if all(lower == 1 for _, lower in sizes):
        return ""
    return "".join(f"[{lower}:{lower + size - 1}]" for size, lower in sizes) + "="


def _braced(values: list[str], sizes: list[int]) -> str:
    whole = 1
    for size in sizes:
        whole *= size
    if whole != len(values) or whole > _MOST_ELEMENTS:
        raise ValueError
    for size in reversed(sizes):
        values = [f"{{{','.join(values[n : n + size])}}}" for n in range(0, len(values), size)]
    return values[0]


_DECODE: dict[int, Decode] = {
    16: _bool,
    17: lambda data: "\\x" + data.hex(),
    20: _number("!q"),
    21: _number("!h"),
    23: _number("!i"),
    700: _float("!f"),
    701: _float("!d"),
    1082: _date,
    1083: _time,
    1114: _timestamp,
    1184: _timestamptz,
    1186: _interval,
    1266: _timetz,
    1700: _numeric,
    2950: lambda data: str(UUID(bytes=data)),
    # bit, varbit; inet, cidr; jsonb, jsonpath
    **dict.fromkeys((1560, 1562), _bits),
    **dict.fromkeys((869, 650), _network),
    **dict.fromkeys((3802, 4072), _versioned),
    # oid, regproc, xid, cid, regclass, regtype
    **dict.fromkeys((26, 24, 28, 29, 2205, 2206), _number("!I")),
    # "char", name, text, json, xml, unknown, bpchar, varchar
    **dict.fromkeys((18, 19, 25, 114, 142, 705, 1042, 1043), lambda data: data.decode()),
}

# Arrays of the types above.
_ARRAYS = frozenset(
    (
        *(143, 199, 651, 1000, 1001, 1002, 1003, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1028, 1041),
        *(1115, 1182, 1183, 1185, 1187, 1231, 1270, 1561, 1563, 2951, 3807),
    )
)

__all__ = ["text_of"]

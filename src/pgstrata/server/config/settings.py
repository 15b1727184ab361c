"""What each version of PostgreSQL knows of each setting, and reading and writing their values."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pgstrata.server.find.model import version_number
from pgstrata.suggest import nearest

COLUMNS = ("name", "first", "last", "type", "unit", "min", "max", "values")

_BYTES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_MICROSECONDS = {
    "us": 1,
    "ms": 1000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_NUMBER = re.compile(r"([+-]?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+))\s*([A-Za-z]*)")
_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|\d+)", re.ASCII)
_OCTAL = frozenset({"data_directory_mode", "log_file_mode", "unix_socket_permissions"})
"""Permissions, which SHOW writes as everybody does: 0600."""
_RAM = re.compile(r"(\d+(?:\.\d+)?)\s*%\s*RAM", re.IGNORECASE)
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Setting:
    """A setting as the major versions `first` to `last` (may be None) have it, numbered as by `major_of`.

    type: bool, enum, integer, real or string; unit: of a bare number, such as 8kB or ms.
    """

    name: str
    first: int
    last: int | None
    type: str
    unit: str
    low: float | None
    high: float | None
    values: tuple[str, ...]

    @property
    def is_memory(self) -> bool:
        return bool(self.unit) and self.unit.lstrip("0123456789") in _BYTES


class BadValue(ValueError):
    """A value that a setting does not take. `beyond`: the nearest value it does take, if it is a
    number that is too small or too large."""

    def __init__(self, message: str, beyond: str | None = None) -> None:
        super().__init__(message)
        self.beyond = beyond


@cache
def _table() -> dict[str, tuple[Setting, ...]]:
    settings: dict[str, list[Setting]] = {}
    with (Path(__file__).parent / "settings.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            settings.setdefault(row["name"], []).append(
                Setting(
                    row["name"],
                    major_of(version_number(row["first"])),
                    major_of(version_number(row["last"])) if row["last"] else None,
                    row["type"],
                    row["unit"],
                    float(row["min"]) if row["min"] else None,
                    float(row["max"]) if row["max"] else None,
                    tuple(row["values"].split("|")) if row["values"] else (),
                )
            )
    return {name: tuple(rows) for name, rows in settings.items()}


def major_of(version_num: int) -> int:
    """Returns a number for the major version that sorts as versions do: 170011 → 1700, 90624 → 906, 70430 →
    704."""
    return version_num // 10000 * 100 if version_num >= 100000 else version_num // 100


def major_name(major: int) -> str:
    """Returns the name of a major version: 1700 → 17, 906 → 9.6."""
    return str(major // 100) if major >= 1000 else f"{major // 100}.{major % 100}"


def setting(name: str, major: int) -> Setting | None:
    """Returns the setting as a version has it; None when that version lacks it."""
    for row in _table().get(name, ()):
        if row.first <= major and (row.last is None or major <= row.last):
            return row
    return None


def history(name: str) -> Sequence[Setting]:
    """Returns the setting in all versions; empty when none has it."""
    return _table().get(name, ())


def names() -> list[str]:
    """Returns the names of all settings that some version has."""
    return list(_table())


def written(name: str, major: int) -> tuple[str, str, str, str, str] | None:
    """Returns type, unit, limits and values of a setting in a version as the table has them, as text."""
    with (Path(__file__).parent / "settings.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            first, last = (row[key] and major_of(version_number(row[key])) for key in ("first", "last"))
            if row["name"] == name and int(first) <= major and (not last or major <= int(last)):
                return row["type"], row["unit"], row["min"], row["max"], row["values"]
    return None


def newest_major() -> int:
    """Returns the newest version the table knows: that of its latest addition."""
    return max(row.first for rows in _table().values() for row in rows)


def nearest_name(name: str, also: Sequence[str] = ()) -> str | None:
    """Returns the known name most like a mistyped name; None if none is near."""
    return nearest(name, [*_table(), *also])


# --- values -----------------------------------------------------------------------------------


def relative_size(value: str, ram_bytes: int) -> int | None:
    """Returns the bytes of a size given as a share of memory, `25%RAM`; None for any other value."""
    match = _RAM.fullmatch(value.strip())
    return int(float(match[1]) / 100 * ram_bytes) if match else None


def size_bytes(text: str) -> int | None:
    """Returns the bytes of a size with its unit as PostgreSQL writes them, `2GB` or `512MB`; None for
    anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text, re.ASCII)
    return int(float(match[1]) * _BYTES[match[2]]) if match and match[2] in _BYTES else None


def plain_number(row: Setting, value: str) -> str:
    """Returns a value without its unit, in the setting's own: 128MB → 16384. Servers before 8.2 know no
    units."""
    if row.type not in ("integer", "real") or not row.unit:
        return value
    number = read_number(row, value, 0)
    return str(int(number)) if number == int(number) else repr(number)


def canonical(row: Setting, value: str, ram_bytes: int) -> str:
    """Returns the value as SHOW would write it, so that equal values are the same text: 1800s → 30min.

    Raises BadValue when the setting does not take it.
    """
    match row.type:
        case "bool":
            return _boolean(value)
        case "enum":
            return _enum(row, value)
        case "integer" | "real":
            return _number(row, value, ram_bytes)
        case _:
            return value


def advice(row: Setting, value: str, problem: BadValue) -> str:
    """Returns what to write instead of a value that a setting does not take."""
    if problem.beyond is not None:
        return f"write {row.name} = {problem.beyond}"
    if row.type == "bool":
        return f"write {row.name} = on, or off"
    if row.type == "enum":
        return f"write {row.name} = {nearest(value, row.values) or row.values[0]}"
    units = _units(row)[1]
    number = re.match(r"\s*(\d+)\s*([A-Za-z]+)", value)
    # 1GiB, 1gb, 1g: the first letter says which size; 10sec, 10minutes: how the word begins
    letters = number[2] if number else ""
    same = [unit for unit in units if row.is_memory and unit[0].lower() == letters[:1].lower()]
    likely = same or [unit for unit in units if letters.startswith(unit)]
    if number and likely:
        return f"write {row.name} = {number[1]}{max(likely, key=len)}"
    if units:
        return f"write a number and a unit, say {row.name} = {'64MB' if row.is_memory else '10s'}"
    return f"write a number, say {row.name} = {with_unit(row, row.low or 0)}"


def _boolean(value: str) -> str:
    text = value.lower()
    if text == "o":  # of both "on" and "off"
        raise BadValue("takes on or off")
    if text and any(word.startswith(text) for word in _TRUE):
        return "on"
    if text and any(word.startswith(text) for word in _FALSE):
        return "off"
    raise BadValue(f"takes on or off, not {value!r}")


_DEBUG = {"debug": "debug2"}
_MD5 = dict.fromkeys(("on", *_TRUE), "md5")
_UNLISTED: dict[str, dict[str, str]] = {
    "client_min_messages": {**_DEBUG, "info": "info", "fatal": "fatal", "panic": "panic"},
    "log_min_error_statement": _DEBUG,
    "log_min_messages": _DEBUG,
    "password_encryption": _MD5,
    "trace_recovery_messages": _DEBUG,
}
"""Values that servers take and do not list, and what SHOW makes of them (guc.c, options that are hidden)."""


def _enum(row: Setting, value: str) -> str:
    text = value.lower()
    for listed in row.values:
        if listed.lower() == text:
            return listed
    if unlisted := _UNLISTED.get(row.name, {}).get(text):
        return unlisted
    # Servers take every way of writing a boolean where an enum has on and off, but do not list them.
    if text in _TRUE and "on" in row.values:
        return "on"
    if text in _FALSE and "off" in row.values:
        return "off"
    raise BadValue(f"takes {', '.join(row.values)}, not {value!r}")


def _number(row: Setting, value: str, ram_bytes: int) -> str:
    number = read_number(row, value, ram_bytes)
    if row.type == "integer":
        number = float(round(number))
    if row.low is not None and number < row.low:
        raise BadValue(f"must be at least {with_unit(row, row.low)}", with_unit(row, row.low))
    if row.high is not None and number > row.high:
        raise BadValue(f"must be at most {with_unit(row, row.high)}", with_unit(row, row.high))
    return with_unit(row, number)


def read_number(row: Setting, value: str, ram_bytes: int) -> float:
    """Returns a value in the setting's own unit. Raises BadValue for a value that is no number, or has a
    wrong unit."""
    per_unit, units = _units(row)
    size = relative_size(value, ram_bytes)
    if size is not None:
        if not row.is_memory:
            raise BadValue(f"is no size, so {value!r} means nothing for it")
        # Whole megabytes: what is a share of memory needs no more, and reads better.
        return (size // 1024**2 * 1024**2 if size >= 1024**2 else size) // per_unit
    match = _NUMBER.fullmatch(value.strip())
    if not match:
        hint = ", or a share of memory such as '25%RAM'" if row.is_memory else ""
        raise BadValue(f"takes a number{hint}, not {value!r}")
    number = _whole(match[1]) if row.type == "integer" and _WHOLE.fullmatch(match[1]) else _real(match[1])
    if unit := match[2]:
        if unit not in units:
            raise BadValue(_wrong_unit(unit, units))
        number *= units[unit] / per_unit
    if not math.isfinite(number):
        raise BadValue(f"takes a number that can be stored, not {value[:20]!r}")
    return number


def _whole(digits: str) -> float:
    """Returns an integer as strtol reads it: 0x1f, 0600 (octal), 384. Raises BadValue."""
    sign, plain = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
    base = 16 if plain[:2].lower() == "0x" else 8 if plain[0] == "0" else 10
    try:
        return sign * float(int(plain, base))
    except OverflowError:
        return sign * math.inf
    except ValueError:
        raise BadValue(f"takes a number, and {digits[:20]} is no octal one") from None


def _real(digits: str) -> float:
    try:
        return float(int(digits, 16)) if "x" in digits.lower() else float(digits)
    except OverflowError:
        return math.inf


def seconds(row: Setting, value: str) -> float:
    """Returns the seconds of a time setting's value; 0 and negative values keep the setting's own meaning.
    Raises BadValue."""
    return read_number(row, value, 0) * _units(row)[0] / 1e6


def _units(row: Setting) -> tuple[int, dict[str, int]]:
    """Returns the number of bytes or microseconds in the setting's own unit, and the units it takes."""
    if not row.unit:
        return 1, {}
    match = re.fullmatch(r"(\d*)([A-Za-z]+)", row.unit)
    assert match
    family = _BYTES if match[2] in _BYTES else _MICROSECONDS
    return int(match[1] or 1) * family[match[2]], family


def _wrong_unit(unit: str, units: dict[str, int]) -> str:
    if not units:
        return f"has no unit, so {unit!r} cannot stand behind its number"
    return f"takes the units {', '.join(units)} (upper and lower case count), not {unit!r}"


def with_unit(row: Setting, number: float) -> str:
    """Returns a number in the setting's unit as SHOW writes it: in the largest unit without a fraction."""
    per_unit, units = _units(row)
    plain = str(int(number)) if number == int(number) else repr(number)
    if row.name in _OCTAL and number == int(number) and number >= 0:
        return f"{int(number):04o}"
    if not units or number <= 0:
        return plain
    amount = number * per_unit
    for name, size in sorted(units.items(), key=lambda item: -item[1]):
        if amount % size == 0:
            return f"{int(amount // size)}{name}"
    return f"{plain}{row.unit}"

"""Other values in the place of values: of the same type and length, and equal where the values were.

What a value is made into depends on a key that is drawn for each captured file and kept nowhere, so nobody
can try out values and see whether they come to the same.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from functools import lru_cache

_INTEGER = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?=[ T]|\Z)", re.ASCII)
_TIME = re.compile(r"\b([0-9]{2}):([0-9]{2}):([0-9]{2})", re.ASCII)
_WHEN = re.compile(
    r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2})?[ T]?(?:[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"
    r"(?: ?(?:[+-][0-9]{2}(?::?[0-9]{2}){0,2}|Z|[A-Z]{3,4}))?(?: BC)?\Z",
    re.ASCII,
)
_DOCUMENT = re.compile(r'\{\s*"(?:[^"\\]|\\.)*"\s*:|\[\s*["{\[]')
_JSON = re.compile(r'"(?:[^"\\]|\\.)*"\s*:|"((?:[^"\\]|\\.)*)"|(?<![\w.])([0-9]+(?:\.[0-9]+)?)(?![\w.])')
_ESCAPE = re.compile(r"(\\(?:u[0-9a-fA-F]{4}|.))")
_FEW = frozenset(
    (
        "",
        "t",
        "f",
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "null",
        "infinity",
        "-infinity",
        "nan",
        "now",
        "today",
    )
)
"""Values that say nothing of anybody, and that nothing else could stand for."""

_FOREIGN = (("\u07ff", 0xE0, 22), ("\uffff", 0x3041, 86), ("\U0010ffff", 0x1F600, 80))
"""Last letter, and the letters that stand for those up to it: as long in UTF-8."""

_LARGEST = ((10, 2**31 - 1), (19, 2**63 - 1), (5, 2**15 - 1))


class Mask:
    """Makes other values of values; the same of the same. key: 32 bytes, drawn where none is given."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._cached = lru_cache(maxsize=50_000)(self._masked)

    def __call__(self, value: str) -> str:
        return self._cached(value) if len(value) <= 200 else self._masked(value)

    def _masked(self, value: str) -> str:
        if value.lower() in _FEW:
            return value
        if _INTEGER.match(value):
            return self._integer(value)
        if len(value) >= 8 and _WHEN.match(value):
            return self._when(value)
        if _DOCUMENT.match(value) and value[-1] in "}]":
            return self._json(value)
        return self._letters(value)

    def _bytes(self, value: str) -> bytes:
        return hashlib.blake2b(value.encode("utf-8", "replace"), key=self._key, digest_size=64).digest()

    def _stream(self, value: str, length: int) -> bytes:
        seed = self._bytes(value)
        made = seed
        while len(made) < length:
            seed = hashlib.blake2b(seed, key=self._key, digest_size=64).digest()
            made += seed
        return made

    def _integer(self, value: str) -> str:
        sign = value[0] if value[0] in "+-" else ""
        digits = value[len(sign) :]
        length = len(digits)
        drawn = int.from_bytes(self._bytes(value), "big")
        if digits[0] == "0":  # not a number that is counted with: a code with zeros in front, or zero itself
            if length == 1:
                return value
            zeros = length - len(digits.lstrip("0")) if digits.strip("0") else length - 1
            return f"{sign}{digits[:zeros]}{drawn % 10 ** (length - zeros):0{length - zeros}d}"
        low, high = 10 ** (length - 1), 10**length - 1
        for size, largest in _LARGEST:
            # What fits into a type still does.
            if length == size and int(digits) <= largest:
                high = largest
        return f"{sign}{low + drawn % (high - low + 1)}"

    def _when(self, value: str) -> str:
        """Another day of the same year and another time of day: both exist in every calendar and zone."""
        drawn = self._bytes(value)
        value = _DATE.sub(lambda m: f"{m[1]}-{1 + drawn[0] % 12:02d}-{1 + drawn[1] % 28:02d}", value, count=1)
        return _TIME.sub(
            lambda m: f"{3 + drawn[2] % 20:02d}:{drawn[3] % 60:02d}:{drawn[4] % 60:02d}", value, count=1
        )

    def _json(self, value: str) -> str:
        """Keys stay; texts and numbers behind them do not."""

        def other(match: re.Match[str]) -> str:
            if match[1] is not None:
                parts = _ESCAPE.split(match[1])
                inner = "".join(p if i % 2 else self._letters(p) for i, p in enumerate(parts))
                return f'"{inner}"' + match[0][len(match[1]) + 2 :]
            if match[2] is not None:
                return self._letters(match[2], number=True)
            return match[0]

        return _JSON.sub(other, value)

    def _letters(self, value: str, *, number: bool = False) -> str:
        """Digits for digits, letters for letters of the same case; the rest stays, and so does the form."""
        drawn = self._stream(value, len(value))
        made: list[str] = []
        hexadecimal = bool(re.fullmatch(r"(?:\\x)?[0-9a-fA-F-]+", value, re.ASCII)) and any(
            c in "abcdefABCDEF" for c in value
        )
        for place, (letter, byte) in enumerate(zip(value, drawn, strict=False)):
            if letter.isdigit() and letter.isascii():
                leading = place == 0 or not (value[place - 1].isascii() and value[place - 1].isdigit())
                if letter == "0" and leading:
                    made.append("0")
                elif leading and (number or "." in value):
                    made.append(str(1 + byte % 9))
                else:
                    made.append(str(byte % 10))
            elif hexadecimal and letter in "abcdef":
                made.append("abcdef"[byte % 6])
            elif hexadecimal and letter in "ABCDEF":
                made.append("ABCDEF"[byte % 6])
            elif "a" <= letter <= "z":
                # The escape of bytea is no value.
                made.append(letter if hexadecimal and letter == "x" else chr(97 + byte % 26))
            elif "A" <= letter <= "Z":
                made.append(chr(65 + byte % 26))
            elif letter > "\x7f":
                first, count = next((f, n) for last, f, n in _FOREIGN if letter <= last)
                made.append(chr(first + byte % count))
            else:
                made.append(letter)
        return "".join(made)


__all__ = ["Mask"]

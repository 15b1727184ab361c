"""Other values in the place of values: of the same type and length, equal where the values were, and
different where they were not, so that a key that was unique still is.

What a value is made into depends on a key that is drawn for each captured file and kept nowhere, so nobody
can try out values and see whether they come to the same.
"""

from __future__ import annotations

import calendar
import datetime
import hashlib
import re
import secrets
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from functools import lru_cache

_INTEGER = re.compile(r"([+-]?)([0-9]+)\Z", re.ASCII)
_NUMBER = re.compile(r"([+-]?)([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?\Z", re.ASCII)
_LARGEST = (2**15 - 1, 2**31 - 1, 2**32 - 1, 2**63 - 1)
"""Largest numbers of types: what fits into a type still does."""

_EXACT = 1 << 40
"""Of so many possible values or fewer each is made into another one than every other; of more they are drawn,
and two that come to the same are a rare chance."""

# --- times --------------------------------------------------------------------------------------

_DATE = r"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}"
_SHORT_DATE = r"(?:0?[1-9]|[12][0-9]|3[01])[/.](?:0?[1-9]|[12][0-9]|3[01])[/.](?:19|20)?[0-9]{2}"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_WRITTEN_DATE = (
    rf"(?:[A-Z][a-z]+,? )?(?:[0-9]{{1,2}}[ -]{_MONTH}[ -][0-9]{{4}}|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}})"
)
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
_ZONE = r"(?: ?(?:[+-][0-9]{2}(?::?[0-9]{2}){0,2}|Z|[A-Z]{3,4}|[A-Z][a-z]+/[A-Za-z_/]+))?"
_WHEN = re.compile(
    rf"(?=[0-9A-Z]\w*[-/:.,\s])(?P<date>{_DATE}|{_SHORT_DATE}|{_WRITTEN_DATE})?"
    rf"(?:(?:^|[ T])(?P<time>{_TIME})(?P<half> ?[AaPp][Mm])?)?{_ZONE}(?: (?:BC|AD))?\Z",
    re.ASCII,
)
_DAY = re.compile(r"(?<![0-9])[0-9]{1,2}(?![0-9])", re.ASCII)
_PLAIN_DATE = re.compile(r"((?:19|20)[0-9]{2})(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])\Z", re.ASCII)
_UNIT = r"(?:microsecond|millisecond|sec(?:ond)?|min(?:ute)?|hour|day|week|mon(?:th)?|year|decade)s?"
_INTERVAL = re.compile(
    rf"@? ?(?:[+-]?[0-9]+(?:\.[0-9]+)? {_UNIT},? ?)+(?:[+-]?[0-9]+:[0-9]{{2}}(?::[0-9.]+)?)?(?: ?ago)?\Z"
    r"|P(?=[0-9T-])(?:-?[0-9]+[YMWD])*(?:T(?:-?[0-9.]+[HMS])+)?\Z",
    re.ASCII | re.IGNORECASE,
)

# --- what has an inner form -----------------------------------------------------------------------

_DOCUMENT = re.compile(r'\{\s*"(?:[^"\\]++|\\.)*+"\s*:|\[\s*["{\[]|"(?:[^"\\]++|\\.)*+"\Z', re.DOTALL)
_JSON = re.compile(
    r'"(?:[^"\\]++|\\.)*+"\s*:|"((?:[^"\\]++|\\.)*+)"|(?<![\w.])(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.])',
    re.DOTALL,
)
_ESCAPE = re.compile(r"(\\(?:u[0-9a-fA-F]{4}|.))", re.DOTALL)
_MARKUP = re.compile(r"\s*<[A-Za-z?!].*>\s*\Z", re.DOTALL)
_TAG = re.compile(r"(<[^>]*>)")
_ATTRIBUTE = re.compile(r"""(?<!xmlns)(=\s*["'])([^"'<]*)(?=["'])""")
_ENTITY = re.compile(r"(&#?\w+;)")
_ADDRESS = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})(/[0-9]{1,2})?\Z", re.ASCII)
_HEXADECIMAL = re.compile(r"\\x[0-9a-fA-F]*\Z|(?=[^a-fA-F]*[a-fA-F])[0-9a-fA-F:/-]+\Z", re.ASCII)
_RANGE = re.compile(
    r"(?P<begin>[\[(]\s*)(?P<low>\"[^\"]*\"|[^\"\[\](){},]*)(?P<comma>,\s*)"
    r"(?P<high>\"[^\"]*\"|[^\"\[\](){},]*)(?P<end>[\])])"
)
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.|"")*)"|([^{}(),"]+)', re.DOTALL)
_ELEMENT_ESCAPE = re.compile(r'(\\.|"")', re.DOTALL)
_IN_PATTERN = re.compile(
    r"(\\[cux][0-9a-fA-F]*|\\[0-9]+|\\.|\[\^?\]?(?:\[[:.=][^\]]*\]|[^\]])*\]|\{[0-9,]*\}"
    r"|\(\?[a-z:=!<]*\)?|\*\*\*[:=])",
    re.DOTALL,
)

_FEW = frozenset(
    (
        *("", "t", "f", "true", "false", "yes", "no", "on", "off", "null", "infinity", "-infinity", "nan"),
        *("now", "today", "yesterday", "tomorrow", "epoch", "allballs", "empty"),
    )
)
"""Values that say nothing of anybody, and that nothing else could stand for."""

_FOREIGN = (("\u07ff", 0xE0, 22), ("\uffff", 0x3041, 86), ("\U0010ffff", 0x1F600, 80))
"""Last letter, and the letters that stand for those up to it: as long in UTF-8."""


class Mask:
    """Makes other values of values; the same of the same. key: 32 bytes, drawn where none is given. keep:
    values that stay as they are."""

    def __init__(self, key: bytes | None = None, *, keep: Collection[str] = ()) -> None:
        self._key = key or secrets.token_bytes(32)
        self._keep = frozenset(keep)
        self._cached = lru_cache(maxsize=50_000)(self._masked)

    def __call__(self, value: str) -> str:
        return self._cached(value) if len(value) <= 200 else self._masked(value)

    def pattern(self, value: str) -> str:
        """Masks a regular expression: classes, repetitions and escapes stay, its letters do not."""
        return self._in_parts(value, _IN_PATTERN, self._letters)

    def _masked(self, value: str) -> str:
        if value.lower() in _FEW or value in self._keep:
            return value
        if match := _INTEGER.match(value):
            return match[1] + self._integer(match[2])
        if match := _NUMBER.match(value):
            return match[1] + self._number(match[2], match[3] or "")
        if len(value) >= 5 and (match := _WHEN.match(value)) and (match["date"] or match["time"]):
            return self._when(value, match)
        if _INTERVAL.match(value):
            return value
        if value[0] in "[({" and (masked := self._ranges(value)) is not None:
            return masked
        if _DOCUMENT.match(value) and value[-1] in '}]"':
            return self._json(value)
        if value[0] + value[-1] in ("{}", "()"):
            return self._elements(value)
        if _MARKUP.match(value):
            return self._markup(value)
        if (match := _ADDRESS.match(value)) and all(int(part) < 256 for part in match.groups()[:4]):
            return self._address(match)
        return self._letters(value)

    def _stream(self, value: str, length: int) -> bytes:
        """Returns `length` bytes drawn for a value."""
        seed = value.encode("utf-8", "replace")
        drawn = []
        for _ in range(0, length, 64):
            seed = hashlib.blake2b(seed, key=self._key, digest_size=64).digest()
            drawn.append(seed)
        return b"".join(drawn)[:length]

    def _other(self, places: Sequence[tuple[int, int]], form: str, value: str) -> list[int]:
        """Returns other numbers in these places. places: the number in each and the number of possibilities,
        from 0 on; form: of the value, the part that all values share which are to differ after this."""
        size = 1
        for _, count in places:
            size *= count
            if size > _EXACT:
                break  # of a long value it would have millions of digits
        if size > _EXACT or not value.isascii():
            drawn = self._stream(value, 16 * len(places))
            return [
                int.from_bytes(drawn[16 * n : 16 * n + 16], "big") % count
                for n, (_, count) in enumerate(places)
            ]
        index = 0
        for number, count in places:
            index = index * count + number
        index = self._permuted(index, size, form)
        digits: list[int] = []
        for _, count in reversed(places):
            index, number = divmod(index, count)
            digits.append(number)
        return digits[::-1]

    def _permuted(self, number: int, size: int, form: str) -> int:
        """Returns another number below `size` for each number: a Feistel network, gone through until the
        number is small enough (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002)."""
        if size < 2:
            return number
        bits = ((size - 1).bit_length() + 1) // 2
        mask = (1 << bits) - 1
        while True:
            left, right = number >> bits, number & mask
            for turn in range(4):
                seed = f"{turn} {right} {size} {form}".encode("utf-8", "replace")
                drawn = hashlib.blake2b(seed, key=self._key, digest_size=8).digest()
                left, right = right, left ^ (int.from_bytes(drawn, "big") & mask)
            number = left << bits | right
            if number < size:
                return number

    def _in_parts(self, value: str, kept: re.Pattern[str], change: Callable[[str], str]) -> str:
        """Returns the value with the parts changed that lie between the kept ones; kept: a pattern with one
        group, all of it."""
        return "".join(part if n % 2 else change(part) for n, part in enumerate(kept.split(value)))

    # --- numbers ------------------------------------------------------------------------------------

    def _integer(self, digits: str) -> str:
        """Masks an integer by its digits alone, so that `-5` in a statement and in a parameter come to the
        same."""
        number, length = int(digits), len(digits)
        zeros = length - len(digits.lstrip("0"))
        if zeros:  # not a number that is counted with: a code with zeros in front, or zero itself
            return digits if zeros == length else digits[:zeros] + self._integer(digits[zeros:])
        if (date := self._plain_date(digits)) is not None:
            return date
        low, high = 10 ** (length - 1), 10**length - 1
        for largest in _LARGEST:
            if number == largest + 1:
                return digits  # with a sign the smallest number of a type
            if low <= largest + 1 < number:
                low = largest + 2
            elif number <= largest < high:
                high = largest
        while True:
            (drawn,) = self._other(((number - low, high - low + 1),), f"integer {low}", digits)
            number = low + drawn
            if self._plain_date(str(number)) is None:
                return str(number)

    def _plain_date(self, digits: str) -> str | None:
        """Masks a number such as 20240131, which is a date as well; None if it is no date."""
        return self._day(digits, "") if _PLAIN_DATE.match(digits) else None

    def _number(self, digits: str, exponent: str) -> str:
        # At the ends of a type even a first digit may be too large.
        edge = abs(int(exponent[1:] or 0)) >= 37
        return digits + exponent if edge else self._letters(digits) + exponent

    # --- times --------------------------------------------------------------------------------------

    def _when(self, value: str, match: re.Match[str]) -> str:
        """Returns another day of the same year and another time of day, which exists in every zone."""
        drawn = self._stream(value, 16)
        masked = value
        if (time := match["time"]) is not None:
            hours = 10 if match["half"] else 20
            parts = [f"{3 + drawn[2] % hours:02d}", f"{drawn[3] % 60:02d}", f"{drawn[4] % 60:02d}"]
            clock, dot, fraction = time.partition(".")
            other = ":".join(parts[: clock.count(":") + 1]) + dot
            other += "".join(str(byte % 10) for byte in drawn[5 : 5 + len(fraction)])
            masked = masked[: match.start("time")] + other + masked[match.end("time") :]
        if (date := match["date"]) is not None:
            masked = self._date(date, drawn) + masked[match.end("date") :]
        return masked

    def _date(self, date: str, drawn: bytes) -> str:
        month, day = 1 + drawn[0] % 12, 1 + drawn[1] % 28
        if date[:4].isdigit():
            separator = date[4]
            other = self._day(date.replace(separator, ""), separator)
            return other or f"{date[:5]}{month:02d}{separator}{day:02d}"
        written = any(letter.isalpha() for letter in date)
        numbers = iter((day,) if written else (month, 1 + drawn[1] % 12))  # whichever of both comes first

        def other_number(match: re.Match[str]) -> str:
            number = next(numbers, None)
            if number is None:  # a year of two digits
                return match[0]
            return f"{number:02d}" if len(match[0]) == 2 else str(1 + number % 9)

        return _DAY.sub(other_number, date)

    def _day(self, digits: str, separator: str) -> str | None:
        """Returns another day of the same year; None if the digits are no day."""
        try:
            day = datetime.date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
        except ValueError:
            return None
        first = datetime.date(day.year, 1, 1)
        days = 366 if calendar.isleap(day.year) else 365
        (number,) = self._other((((day - first).days, days),), f"day of {day.year}", digits)
        other = first + datetime.timedelta(number)
        return f"{other.year:04d}{separator}{other.month:02d}{separator}{other.day:02d}"

    # --- what has an inner form ---------------------------------------------------------------------

    def _ranges(self, value: str) -> str | None:
        """Masks both ends of a range, or of several; their order stays. None if it is another value."""
        several = value[0] == "{" and value[-1] == "}"
        inner = value[1:-1] if several else value
        matches = list(_RANGE.finditer(inner))
        rest = _RANGE.sub("", inner)
        if not matches or rest.strip(", ") or not (several or len(matches) == 1):
            return None
        if any(self._order(match["low"], match["high"]) is None for match in matches):
            return None
        masked = _RANGE.sub(self._range, inner)
        return f"{{{masked}}}" if several else masked

    def _range(self, match: re.Match[str]) -> str:
        low, high = (self._quoted(match[name]) for name in ("low", "high"))
        if (self._order(match["low"], match["high"]) or 0) < 0 < (self._order(low, high) or 0):
            low, high = high, low
        return f"{match['begin']}{low}{match['comma']}{high}{match['end']}"

    def _quoted(self, text: str) -> str:
        return f'"{self(text[1:-1])}"' if text.startswith('"') else self(text)

    @staticmethod
    def _order(low: str, high: str) -> int | None:
        """Returns the order, -1, 0 or 1, of two numbers or two times; 0 where an end is open; None for other
        values."""
        ends = [text.strip('"') for text in (low, high)]
        if all(_INTEGER.match(end) or _NUMBER.match(end) for end in ends):
            first, second = map(Decimal, ends)
            return int(first > second) - int(first < second)
        if all(not end or _INTEGER.match(end) or _NUMBER.match(end) for end in ends):
            return 0
        if all(not end or ((match := _WHEN.match(end)) and match["date"]) for end in ends):
            return int(ends[0] > ends[1]) - int(ends[0] < ends[1]) if all(ends) else 0
        return None

    def _json(self, value: str) -> str:
        """Masks the texts and numbers of a JSON value; its keys stay."""

        def other(match: re.Match[str]) -> str:
            if match[1] is not None:
                inner = match[1]
                masked = self._in_parts(inner, _ESCAPE, self._letters) if "\\" in inner else self(inner)
                return f'"{masked}"'
            if match[2] is not None:
                return self(match[2])
            return match[0]

        return _JSON.sub(other, value)

    def _elements(self, value: str) -> str:
        """Masks the elements of an array or a row."""

        def other(match: re.Match[str]) -> str:
            quoted, plain = match[1], match[2]
            if quoted is None:
                return self(plain)
            escaped = "\\" in quoted or '""' in quoted
            masked = self._in_parts(quoted, _ELEMENT_ESCAPE, self._letters) if escaped else self(quoted)
            return f'"{masked}"'

        return _ELEMENT.sub(other, value)

    def _markup(self, value: str) -> str:
        """Tags and the names of attributes stay."""
        parts = _TAG.split(value)
        for place, part in enumerate(parts):
            if not place % 2:
                parts[place] = self._in_parts(part, _ENTITY, self._letters)
            elif not part.startswith(("<?", "<!")):
                parts[place] = _ATTRIBUTE.sub(
                    lambda match: match[1] + self._in_parts(match[2], _ENTITY, self._letters), part
                )
        return "".join(parts)

    def _address(self, match: re.Match[str]) -> str:
        """Masks an address. In a network the part behind its bits stays: it is zero, or an address within the
        network."""
        bits = int((match[5] or "/32")[1:])
        parts = [match[n] for n in range(1, 5)]
        counted = [
            n
            for n, part in enumerate(parts)
            if str(int(part)) == part != "0" and (8 * (n + 1) <= bits or 8 * n >= bits)
        ]
        ranges = {1: (1, 9), 2: (10, 90), 3: (100, 156)}
        places = [(int(parts[n]) - ranges[len(parts[n])][0], ranges[len(parts[n])][1]) for n in counted]
        form = "address " + ".".join(str(len(part)) if n in counted else part for n, part in enumerate(parts))
        for n, number in zip(counted, self._other(places, form, match[0]), strict=True):
            parts[n] = str(ranges[len(parts[n])][0] + number)
        return ".".join(parts) + (match[5] or "")

    def _letters(self, value: str) -> str:
        """Returns digits for digits, letters for letters of the same case; the rest stays, and so does the
        form."""
        hexadecimal = _HEXADECIMAL.match(value) is not None
        masked = value
        while True:
            masked = self._other_letters(masked, hexadecimal=hexadecimal)
            # What is treated in another way is what others come to: on to the next.
            strange = masked.lower() in _FEW or hexadecimal != (_HEXADECIMAL.match(masked) is not None)
            if not strange or masked == value:
                return masked

    def _other_letters(self, value: str, *, hexadecimal: bool) -> str:
        # Behind the slash of a network stands how many bits of it count.
        network = hexadecimal and ":" in value and "/" in value
        size = value.rindex("/") if network else len(value)
        kinds = [self._alphabet(value, place, hexadecimal=hexadecimal) for place in range(size)]
        places = [
            (min(ord(letter) - first, count - 1), count)
            for letter, (first, count) in zip(value, kinds, strict=False)
        ]
        form = "".join(f"{first} " for first, _ in kinds)
        drawn = self._other(places, form, value)
        masked = "".join(chr(first + number) for (first, _), number in zip(kinds, drawn, strict=True))
        return masked + value[size:]

    @staticmethod
    def _alphabet(value: str, place: int, *, hexadecimal: bool) -> tuple[int, int]:
        """Returns the first letter that may stand in this place, and the number of letters that may."""
        letter = value[place]
        if "0" <= letter <= "9":
            leading = place == 0 or not "0" <= value[place - 1] <= "9"
            if not leading:
                return 48, 10
            return (48, 1) if letter == "0" else (49, 9)
        if "a" <= letter <= "z":
            # The escape of bytea is no value.
            return (97, 6 if hexadecimal else 26) if not (hexadecimal and letter == "x") else (ord(letter), 1)
        if "A" <= letter <= "Z":
            return 65, 6 if hexadecimal else 26
        if letter > "\x7f":
            return next((first, count) for last, first, count in _FOREIGN if letter <= last)
        return ord(letter), 1


__all__ = ["Mask"]

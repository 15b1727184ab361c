"""How numbers are written for people: grouped, with few digits, never rounded to a false zero.

Every function that writes takes None for "not known" and answers with an en dash; the unit belongs into the
header of the column, not beside each number. One reads what people write: `parse_share`.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

UNKNOWN = "–"


def significant(value: float | None, digits: int = 3) -> str:
    """Formats a number with this number of significant digits, thousands grouped.

    Digits before the decimal point are all kept: 48213.7 is `48,214` whatever `digits` is. Below 0.001
    a power of ten is written, 0.000253 as `2.53e-4`: rows of zeros are misread.
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    # The exponent is taken after rounding: 0.9996 has its first of three digits before the point.
    exponent = int(f"{abs(value):.{digits - 1}e}".partition("e")[2])
    if exponent < -3:
        return f"{value:.{digits - 1}e}".replace("e-0", "e-")
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def share_of_time(share: float | None, digits: int = 3) -> str:
    """Formats a share in [0, 1] as a percentage with this number of significant digits, without its sign; one
    above nothing is never 0, nor written as a power of ten."""
    if share is None or not 0 < share < 1e-5:
        return significant(share and 100 * share, digits)
    return "<0.001"


def rate(value: float | None) -> str:
    """Formats a rate: whole numbers from 100 upwards, three significant digits below."""
    return significant(value, 3)


def ratio(value: float | None) -> str:
    """Formats a relative rate, with three significant digits: 0.872, 1.04, 12.3."""
    return significant(value, 3)


def longer(factor: float) -> str:
    """Returns how long something takes compared to something else, as a person says it: `3.4 times as long`,
    `12 % longer`, `50 % less time`."""
    if not math.isfinite(factor) or factor <= 0:
        return UNKNOWN
    if factor >= 1.995:
        return f"{significant(factor, 2)} times as long"
    share = abs(factor - 1) * 100
    if share < 0.05:
        return "as long"
    return f"{significant(share, 2)} % {'longer' if factor > 1 else 'less time'}"


def count(value: float | None) -> str:
    """Formats a count, thousands grouped."""
    return UNKNOWN if value is None else f"{round(value):,}"


def counted(value: float, noun: str, plural: str | None = None) -> str:
    """Returns a count with its noun in the right number: `1 round`, `1,200 rounds`, `2 queries`.

    plural: where it is not the noun with an s. 1 is singular, every other number is not.
    """
    whole = round(value)
    return f"{whole:,} {noun if whole == 1 else plural or noun + 's'}"


def plural(noun: str, number: int) -> str:
    """Returns the noun alone in the number that goes with a list of names: `extension`, `extensions`."""
    return noun if number == 1 else f"{noun}s"


def agreeing(number: float, singular: str, plural: str) -> str:
    """Returns the verb or noun that goes with a number: `1 is`, `2 are`."""
    return singular if number == 1 else plural


def in_percent(share: float) -> str:
    """Formats a margin or another share that somebody chose, as it is written in a sentence: `3 %`."""
    return f"{100 * share:.3g} %"


def percent(value: float | None) -> str:
    """Formats a share in [0, 1] as a percentage without its sign; a share above nothing never looks like
    nothing."""
    if value is None or math.isnan(value):
        return UNKNOWN
    scaled = value * 100
    if scaled == 0:
        return "0"
    if scaled < 0.001:
        return "<0.001"
    if 99.999 < scaled < 100:
        return ">99.999"
    return "100" if scaled == 100 else f"{scaled:.3f}"


def parse_share(text: str) -> float | None:
    """Parses a share as people write it, `3%`, `3 %` or `0.03`; None for other texts, and for values not
    above 0 and below 1, since a bare `3` may mean both."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text, re.ASCII)
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    return value if 0 < value < 1 else None


def parse_duration(text: str) -> float | None:
    """Converts a time as people write it, `90s`, `10m`, `10 min` or `1.5h`, to seconds; None for other texts,
    and for a bare number, which may mean any of these."""
    match = re.fullmatch(r"\s*(\d{1,6}(?:\.\d{0,6})?)\s*(s|m|min|h)\s*", text, re.ASCII)
    return float(match[1]) * {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}[match[2]] if match else None


def milliseconds(seconds: float | None) -> str:
    """Formats seconds as milliseconds, three significant digits."""
    return significant(None if seconds is None else seconds * 1e3)


def size(value: float | None) -> str:
    """Formats bytes with a binary unit beside them, for prose and mixed columns."""
    if value is None:
        return UNKNOWN
    scaled = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(scaled) < 1024:
            return f"{round(scaled) if scaled == round(scaled) else significant(scaled)} {unit}"
        scaled /= 1024
    return f"{significant(scaled)} TiB"


def duration(seconds: float | None) -> str:
    """Formats a time span as a person says it: `45 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 120:
        return f"{significant(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def clock(seconds: float) -> str:
    """Formats a time span as a clock has it, for times that run on: `42 s`, `3:07 min`, `2:05 h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


def quantity(value: float, unit: str) -> str:
    """Formats a rate with its unit, thousands grouped; decimals only where the number is small."""
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:,.1f} {unit}"


def moment(text: str | None) -> str:
    """Formats an ISO 8601 time as date and minute in UTC; other text is returned as it is."""
    if not text:
        return UNKNOWN
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    if when.tzinfo is not None:
        when = when.astimezone(UTC)
    return f"{when:%Y-%m-%d %H:%M} UTC"

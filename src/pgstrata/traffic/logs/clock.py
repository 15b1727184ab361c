"""Times of a log, which carry the name of a zone, as microseconds since 1970."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import cache

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown

_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?"
    r" ([A-Za-z0-9+:-]{1,10})\Z"
)
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?(?::?([0-9]{2}))?\Z")
_EPOCH = re.compile(r"([0-9]{9,12})\.([0-9]{3})\Z")


class Clock:
    """Reads times. zone: where abbreviations such as IST are at home, which several countries use.

    Raises UsageError for a zone that does not exist, and where an abbreviation means several.
    """

    def __init__(self, zone: str | None = None) -> None:
        self._own: zoneinfo.ZoneInfo | None = None
        if zone:
            try:
                self._own = zoneinfo.ZoneInfo(zone)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                raise UsageError(
                    f"there is no time zone {shown(zone)}", "name one like Europe/Berlin"
                ) from None
        self._minute, self._zone, self._base = "", "", 0
        self._offsets: dict[tuple[str, int], int] = {}
        self.zones: set[str] = set()

    def microseconds(self, text: str) -> int | None:
        """Returns the microseconds since 1970 of a time as the server writes it: `2026-01-31 12:00:00.123
        CET`; None for a text that is no time."""
        # Most times are of the same minute and zone as the one before.
        if text[:17] == self._minute and text[23:] == self._zone:
            try:
                return self._base + int(text[17:19]) * 1_000_000 + int(text[20:23]) * 1000
            except ValueError:
                return None
        match = _TIME.match(text)
        if match is None:
            epoch = _EPOCH.match(text)
            return int(epoch[1]) * 1_000_000 + int(epoch[2]) * 1000 if epoch else None
        try:
            year, month, day, hour, minute = (int(match[n]) for n in range(1, 6))
            naive = datetime(year, month, day, hour, minute, tzinfo=UTC)
        except ValueError:
            return None
        zone = match[8]
        self.zones.add(zone)
        local = int(naive.timestamp())
        base = (local - self._offset(zone, naive)) * 1_000_000
        fraction = match[7]
        if fraction is not None and len(fraction) == 3:
            self._minute, self._zone, self._base = text[:17], text[23:], base
        return base + int(match[6]) * 1_000_000 + int((fraction or "0").ljust(6, "0"))

    def _offset(self, zone: str, local: datetime) -> int:
        """Returns the offset of a zone in seconds east of Greenwich."""
        if zone in ("UTC", "GMT", "Z", "UCT"):
            return 0
        if match := _OFFSET.match(zone):
            seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60 + int(match[4] or 0)
            return -seconds if match[1] == "-" else seconds
        key = (zone, local.year)
        offset = self._offsets.get(key)
        if offset is None:
            offset = self._offsets[key] = self._looked_up(zone, local)
        return offset

    def _looked_up(self, zone: str, local: datetime) -> int:
        if self._own is not None:
            for offset in _of(self._own, local.year).get(zone, ()):
                return offset
        offsets = _abbreviations(local.year).get(zone, frozenset())
        if len(offsets) == 1:
            return next(iter(offsets))
        why = "means several" if offsets else "is not known here"
        raise UsageError(
            f"the log's times are in zone {shown(zone)}, which {why}",
            "say where that is: --timezone Asia/Kolkata (the server's log_timezone)",
        )


def _of(zone: zoneinfo.ZoneInfo, year: int) -> dict[str, set[int]]:
    offsets: dict[str, set[int]] = {}
    for month in range(1, 13):
        when = datetime(year, month, 15, 12, tzinfo=zone)
        name, offset = when.tzname(), when.utcoffset() or timedelta()
        if name:
            offsets.setdefault(name, set()).add(int(offset.total_seconds()))
    return offsets


@cache
def _abbreviations(year: int) -> dict[str, frozenset[int]]:
    """Returns all abbreviations that the zones of this machine use in a year, with their offsets."""
    by_abbreviation: dict[str, set[int]] = {}
    for name in zoneinfo.available_timezones():
        if "/" in name and not name.startswith(("Etc/", "posix/", "right/")):
            for abbreviation, offsets in _of(zoneinfo.ZoneInfo(name), year).items():
                by_abbreviation.setdefault(abbreviation, set()).update(offsets)
    return {name: frozenset(offsets) for name, offsets in by_abbreviation.items()}


__all__ = ["Clock"]

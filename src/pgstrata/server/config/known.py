"""Which settings one server has: what the table says of its version, corrected by the server itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgstrata.server.capabilities import Programs
from pgstrata.server.config.settings import Setting, history, major_of, names, setting
from pgstrata.server.find.model import Server

UNITS_SINCE = 80200
"""The first version that takes units behind numbers, and `include` in its configuration."""
MILLISECONDS_SINCE = 80100
"""The first version with `%m` in log_line_prefix."""
_BUFFERS = re.compile(r"^#?shared_buffers = \d+(kB|MB|GB)?", re.M)
"""How the server's sample shows its most famous setting; somebody may have put another file in its place."""


@dataclass(frozen=True)
class KnownSettings:
    """The settings of one server. programs: None where they cannot be asked; then the version decides."""

    version_num: int
    programs: Programs | None = None

    @property
    def major(self) -> int:
        """The major version as `settings.major_of` counts."""
        return major_of(self.version_num)

    @property
    def logs_milliseconds(self) -> bool:
        """True if `%m` in log_line_prefix is a time with milliseconds, as from 8.1 on."""
        if self.programs is not None and "%t = " in (sample := self.programs.sample_config):
            return "%m = " in sample
        return self.version_num >= MILLISECONDS_SINCE

    @property
    def takes_name(self) -> bool:
        """True if a connection can name its application."""
        is_there = self.has_unlisted("application_name")
        return self.has("application_name") if is_there is None else is_there

    @property
    def takes_units(self) -> bool:
        """True if numbers may have units, and the configuration may include files."""
        if self.programs is not None and (shown := _BUFFERS.search(self.programs.sample_config)):
            return shown[1] is not None
        return self.version_num >= UNITS_SINCE

    def get(self, name: str) -> Setting | None:
        """Returns the setting as this server has it; None where it lacks it.

        A server in the middle of its development may lack what its number promises, and have what only the
        next one has: then the row of the nearest version tells how the value is written.
        """
        row, rows = setting(name, self.major), history(name)
        if not rows or (is_there := self._is_there(name)) is None:
            return row
        if not is_there:
            return None
        if row is None and (self.programs is None or name not in self.programs.listed_settings):
            return None  # an old name of another setting, or a value that the server only tells
        return row or min(rows, key=lambda other: abs(other.first - self.major))

    def has(self, name: str) -> bool:
        """Returns whether this server has a setting of the table."""
        return self.get(name) is not None

    def has_unlisted(self, name: str) -> bool | None:
        """Returns whether this server has a setting the table lacks; None where it cannot be asked."""
        unknown = None if self.programs is None else self.programs.unknown_settings([name])
        return None if unknown is None else not unknown

    def takes(self, name: str, value: str) -> bool | None:
        """Returns whether the server itself takes a value; None where it cannot be asked."""
        if self.programs is None or not self.programs.checks_settings:
            return None
        return not self.programs.complaints({name: value})

    def _is_there(self, name: str) -> bool | None:
        # All at once: one answer for every setting that may be asked about later.
        unknown = None if self.programs is None else self.programs.unknown_settings(names())
        return None if unknown is None else name not in unknown


def known_settings(server: Server) -> KnownSettings:
    """Returns the settings of a server."""
    return KnownSettings(server.version_num, server.programs)


__all__ = ["KnownSettings", "known_settings"]

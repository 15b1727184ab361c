"""Reading the text of a configuration fragment, by the grammar of postgresql.conf."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import UsageError


@dataclass(frozen=True)
class Fragment:
    """A piece of postgresql.conf; `path` is its file, `name` what it is called in results."""

    name: str
    text: str
    path: Path | None = None

    @property
    def shown(self) -> str:
        """What an error calls it."""
        return str(self.path) if self.path else f"{self.name}.conf"


@dataclass(frozen=True)
class SettingLine:
    """`name = value` as it stands in a fragment; name in lower case, value without its quotes."""

    name: str
    value: str
    fragment: Fragment
    line: int

    @property
    def place(self) -> str:
        return f"{self.fragment.shown}:{self.line}"


_LINE = re.compile(
    r"""\s*(?P<name>[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*)   # letters, digits, _ ; dots for custom classes
        \s*(?:=\s*|\s)                                   # the equals sign may be left out
        (?P<value>'(?:[^'\\]|\\.|'')*'|[^\s#'"=]+)       # quoted, or a word or number
        \s*(?:\#.*)?$""",
    re.VERBOSE,
)
_INCLUDES = ("include", "include_dir", "include_if_exists")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)|''")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def assignments(fragment: Fragment) -> list[SettingLine]:
    """The assignments of a fragment, in order.

    Raises UsageError with file and line for what is not a setting, and for include directives.
    """
    found = []
    for number, raw in enumerate(fragment.text.removeprefix("\ufeff").split("\n"), 1):
        line = raw.rstrip("\r")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = f"{fragment.shown}:{number}"
        match = _LINE.fullmatch(line)
        if line.split(None, 1)[0].partition("=")[0].lower() in _INCLUDES:
            raise UsageError(
                f"{place}: include directives are not read in fragments",
                'name the other file as a fragment of its own: config = ["base.conf", "more.conf"]',
            )
        if match is None:
            raise UsageError(
                f"{place}: not a setting: {line.strip()[:80]}", "write name = value, text in single quotes"
            )
        value = match["value"]
        if value.startswith("'"):
            value = _ESCAPE.sub(_unescape, value[1:-1])
        if any(ord(letter) < 32 for letter in value):
            raise UsageError(f"{place}: the value of {match['name']} holds a control character")
        found.append(SettingLine(match["name"].lower(), value, fragment, number))
    return found


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code is None:
        return "'"
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _ESCAPED.get(code, code)


def quoted(value: str) -> str:
    """A value as postgresql.conf text."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

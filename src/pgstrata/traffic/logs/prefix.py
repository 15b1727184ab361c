"""A `log_line_prefix` and the pattern that matches the beginning of an entry behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown

ADVICE = "log_line_prefix = '%m [%c] %e %q%u@%d ' has all that is needed; --prefix names the one of this log"

STAMP = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
ZONE = r"(?:[A-Za-z]{1,10}|[+-][0-9]{2}(?::?[0-9]{2}){0,2})"
HOST = r"(?:\[local\]|[\w.:%-]{0,255}(?:\([0-9]{1,5}\))?)"
SEVERITY = (
    rb"(?P<severity>DEBUG[1-5]?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|QUERY|CONTEXT|LOCATION|"
    rb"STATEMENT|BACKTRACE): {1,2}"
)

# Bounded, so that no line takes more than linear time for each of them.
_ANY = r"[^\n]{0,255}?"
_ESCAPES = {
    "a": _ANY,
    "u": rf"(?P<user>{_ANY})",
    "d": rf"(?P<database>{_ANY})",
    "r": HOST,
    "h": HOST,
    "L": _ANY,
    "b": r"(?P<backend>[a-z ]{0,64})",
    "p": r"(?P<process>[0-9]{1,10})",
    "P": r"[0-9]{0,10}",
    "t": rf"(?P<time>{STAMP} {ZONE})",
    "m": rf"(?P<time>{STAMP}\.[0-9]{{3}} {ZONE})",
    "n": r"(?P<time>[0-9]{1,12}\.[0-9]{3})",
    "i": rf"(?P<tag>{_ANY})",
    "e": r"(?P<sqlstate>[0-9A-Z]{5})",
    "c": r"(?P<session>[0-9a-f]{1,8}\.[0-9a-f]{1,8})",
    "l": r"(?P<number>[0-9]{1,19})",
    "s": rf"(?P<started>{STAMP} {ZONE})",
    "v": r"(?P<transaction>[0-9]{0,10}(?:/[0-9]{0,10})?)",
    "x": r"[0-9]{0,20}",
    "Q": r"-?[0-9]{0,20}",
    "%": "%",
}
_ESCAPE = re.compile(r"%(-?[0-9]*)([A-Za-z%])")


@dataclass(frozen=True)
class Prefix:
    """A log_line_prefix, ready to match entries."""

    text: str
    pattern: re.Pattern[bytes]
    #: Groups of the pattern.
    names: frozenset[str]
    #: The times have no fraction of a second.
    whole_seconds: bool
    #: It was recognized in the log, not named by the user.
    is_recognized: bool = False


def lacking(text: str) -> str:
    """Returns what a prefix leaves out that is needed, empty where it has all."""
    letters = {match[2] for match in _ESCAPE.finditer(text)}
    if not letters & {"t", "m", "n"}:
        return "no time (%m)"
    if not letters & {"p", "c"}:
        return "nothing that tells sessions apart (%c or %p)"
    return ""


def prefix(text: str, *, is_recognized: bool = False) -> Prefix:
    """Returns the pattern of a prefix.

    Raises UsageError where it leaves out the time, or what tells sessions apart.
    """
    if what := lacking(text):
        raise UsageError(f"the log_line_prefix {shown(text)} has {what}", ADVICE)
    pieces: list[str] = []
    at, closing = 0, ""
    seen: set[str] = set()
    letters = [match[2] for match in _ESCAPE.finditer(text)]
    for match in _ESCAPE.finditer(text):
        literal = text[at : match.start()]
        pieces.append(re.escape(literal))
        at = match.end()
        padding, letter = match.groups()
        if letter == "q":
            # What follows is left out in lines that belong to no session.
            pieces.append("(?:")
            closing += ")?"
            continue
        field = _ESCAPES.get(letter, "")
        if letter == "t" and {"m", "n"} & set(letters):
            field = rf"{STAMP} {ZONE}"  # the other one says more
        elif letter == "d" and literal.endswith("@"):
            # User names hold an @ more often than databases do.
            field = field.replace(r"[^\n]", r"[^\n@]")
        if is_recognized and letter in "ud":
            field = field.replace(r"[^\n", r"[^\s")
        name = re.match(r"\(\?P<(\w+)>", field)
        if name and name[1] in seen:
            field = field.replace(f"?P<{name[1]}>", "?:", 1)
        elif name:
            seen.add(name[1])
        pieces.append(rf" *{field} *" if padding else field)
    pieces.append(re.escape(text[at:]) + closing)
    return Prefix(
        text,
        re.compile("".join(pieces).encode() + SEVERITY),
        frozenset(seen),
        not {"m", "n"} & set(letters),
        is_recognized,
    )


__all__ = ["ADVICE", "HOST", "SEVERITY", "STAMP", "ZONE", "Prefix", "lacking", "prefix"]

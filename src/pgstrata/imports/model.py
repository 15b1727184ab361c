"""What a reader of a format gets, gives and raises."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pgstrata.files.user_files import shown
from pgstrata.store.imported import ImportedStep

MOST_INTERVALS = 100_000
"""Of one step: more than a day of seconds."""

MOST_STEPS = 10_000
"""Of one command: rows × columns of all tables."""

_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?")


class FormatError(Exception):
    """A file is damaged or of another format. `line` counts from 1; 0 for the file as a whole."""

    def __init__(self, reason: str, line: int = 0) -> None:
        self.reason = reason
        self.line = line
        super().__init__(reason)

    def at(self, name: str) -> str:
        """Returns the error as one sentence that names the file."""
        place = f", line {self.line}" if self.line else ""
        return f"{shown(name)}{place}: {self.reason}"


@dataclass(frozen=True)
class Lines:
    """A text file by lines, without their ends. `is_whole`: its last line has an end."""

    name: str
    lines: Sequence[str]
    is_whole: bool = True

    def check_end(self) -> None:
        """Raises FormatError where the last line has no end: of a table or a log it may be cut off."""
        if not self.is_whole:
            raise FormatError("the last line has no end: the file is cut off", len(self.lines))

    @property
    def stem(self) -> str:
        """The file's name without a usual ending of text files."""
        return re.sub(r"\.(?:txt|log|out|tsv|csv|json)$", "", self.name) or self.name


@dataclass(frozen=True)
class Found:
    """One step of one variant that a file has. `variant`, `step`: empty where the file names none."""

    step: ImportedStep
    workload: str
    tool: str
    variant: str = ""


@dataclass(frozen=True)
class Format:
    """A format of result files: `fits` looks at a file, `read` reads it and raises FormatError."""

    name: str
    fits: Callable[[Lines], bool]
    read: Callable[[Lines], list[Found]]


def number(text: str, what: str, line: int) -> float:
    """Parses a number that is not negative. Raises FormatError, which says what it should have been."""
    if _NUMBER.fullmatch(text) is None or not math.isfinite(value := float(text)):
        raise FormatError(f"{shown(text, 40) or 'nothing'} is not a number ({what})", line)
    return value


def whole(text: str, what: str, line: int) -> int:
    """Parses a whole number of at most 18 digits. Raises FormatError."""
    if re.fullmatch(r"\d{1,18}", text) is None:
        raise FormatError(f"{shown(text, 40) or 'nothing'} is not a whole number ({what})", line)
    return int(text)


__all__ = [
    "MOST_INTERVALS",
    "MOST_STEPS",
    "Format",
    "FormatError",
    "Found",
    "Lines",
    "number",
    "whole",
]

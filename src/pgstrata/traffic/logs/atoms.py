"""Samples of an unknown `log_line_prefix` cut into atoms, and what many samples have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pgstrata.traffic.logs.prefix import STAMP

_HEX = "[0-9a-fA-F]{1,4}"
_GROUPS = rf"{_HEX}(?::{_HEX}){{0,6}}"
_IPV6 = rf"(?:{_HEX}(?::{_HEX}){{7}}|(?:{_GROUPS})?::(?:{_GROUPS}))"
_BACKENDS = (
    "client backend|not initialized|parallel worker|background worker|autovacuum (?:launcher|worker)|"
    "logical replication (?:launcher|worker)|walsender|walwriter|checkpointer|background writer|postmaster|"
    "startup|archiver|logger"
)
PATTERNS = {
    "<time>": rf"{STAMP}(?:\.[0-9]{{3}})? (?:[A-Za-z]{{1,10}}|[+-][0-9]{{2}}(?::?[0-9]{{2}}){{0,2}})",
    "<epoch>": r"\b[0-9]{10}\.[0-9]{3}\b",
    "<host>": rf"\[local\]|(?:[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}|{_IPV6})(?:\([0-9]{{1,5}}\)|(?![\w.]))"
    r"|[\w.-]+\([0-9]{1,5}\)",
    "<session>": r"(?<![\w.])[0-9a-f]{7,8}\.[0-9a-f]{1,8}(?![\w.])",
    "<transaction>": r"\b[0-9]+/[0-9]+\b",
    "<backend>": rf"\b(?:{_BACKENDS})\b",
    "<number>": r"(?:[0-9]+|(?=[0-9A-Z]{0,4}[0-9])[0-9A-Z]{5})(?!\w)",
}
"""Atoms with a type, in the order in which they are tried. No other symbol has more than one mark."""

_ATOM = re.compile(
    "|".join(f"(?P<{kind[1:-1]}>{pattern})" for kind, pattern in PATTERNS.items())
    + r"|(?P<word>\[unknown\]|\w[\w.$]*)|(?P<mark>.)",
    re.DOTALL,
)


class Atom(NamedTuple):
    """A piece of a prefix. symbol: a key of PATTERNS, or the text itself where it has no type."""

    symbol: str
    text: str


def atoms(text: str) -> list[Atom]:
    """Returns the atoms of a sample, in their order."""
    pieces = ((f"<{match.lastgroup}>", match[0]) for match in _ATOM.finditer(text))
    return [Atom(kind if kind in PATTERNS else text, text) for kind, text in pieces]


def common(sequences: Sequence[Sequence[str]]) -> list[str]:
    """Returns the symbols that all sequences have, in their order (longest common subsequences, by pairs)."""
    shared = list(sequences[0])
    for sequence in sequences[1:]:
        shared = _common_of_two(shared, sequence)
    return shared


def _common_of_two(first: Sequence[str], second: Sequence[str]) -> list[str]:
    if list(first) == list(second):
        return list(first)
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i in range(len(first) - 1, -1, -1):
        row, below = lengths[i], lengths[i + 1]
        for j in range(len(second) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if first[i] == second[j] else max(below[j], row[j + 1])
    shared: list[str] = []
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i] == second[j]:
            shared.append(first[i])
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return shared


class Column(NamedTuple):
    """A place of the prefix and its value in every sample. symbol: empty between two symbols, where the
    samples differ."""

    symbol: str
    values: tuple[str, ...]


def columns(samples: Sequence[str]) -> list[Column]:
    """Returns the places that a prefix has, from samples of it."""
    sequences = {tuple(atom.symbol for atom in atoms(sample)): None for sample in samples}
    shared = common(list(sequences)[:50])
    pattern = "(.*?)".join(
        ["", *(f"({PATTERNS[s]})" if s in PATTERNS else f"({re.escape(s)})" for s in shared), ""]
    )
    matches = [match for sample in samples if (match := re.fullmatch(pattern, sample, re.DOTALL))]
    table = list(zip(*(match.groups() for match in matches), strict=True))
    places: list[Column] = []
    for number, values in enumerate(table):
        symbol = shared[number // 2] if number % 2 else ""
        if symbol or any(values):
            places.append(Column(symbol, values))
    return places


__all__ = ["PATTERNS", "Atom", "Column", "atoms", "columns", "common"]

"""SQL files cut into statements and the rows of COPY between them, as psql reads them.

What psql would do with a file is done by the driver, statement by statement and timed. The rows are never
held: a dump may have a terabyte of them.
"""

from __future__ import annotations

import mmap
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.workload.custom.encoding import codec_of, copy_in, encoding_set_by

MOST_STATEMENT_BYTES = 64 << 20
"""Of all statements of a file together, the rows of COPY apart: the driver holds them."""


@dataclass(frozen=True)
class SqlStatement:
    """One statement without the semicolon at its end. line: where it begins, from 1; within: what it is a
    line of, where that is not the file itself; written: as it stands in the file, where another text is
    executed in its place."""

    text: str
    line: int
    within: str = ""
    written: str = ""


@dataclass(frozen=True)
class Copy:
    """COPY … FROM stdin, and which bytes of the file are its rows, the `\\.` at their end left out."""

    text: str
    line: int
    begin: int
    end: int


Item = SqlStatement | Copy

_WORD = rb"[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*"
_TOKEN = re.compile(
    rb"(?P<space>[ \t\r\n\f\v]+|--[^\n]*)"
    rb"|(?P<comment>/\*)"
    rb"|(?P<quoted>[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|'[^']*(?:''[^']*)*'|\"[^\"]*(?:\"\"[^\"]*)*\")"
    rb"|(?P<dollar>\$(?:[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$)"
    rb"|(?P<open>['\"])"
    rb"|(?P<word>" + _WORD + rb")"
    rb"|(?P<number>[0-9][0-9A-Za-z_.]*|\$[0-9]+)"
    rb"|(?P<semicolon>;)|(?P<paren>[()])|(?P<command>\\)|(?P<other>.)",
    re.DOTALL,
)
_IN_COMMENT = re.compile(rb"/\*|\*/")
_FROM_STDIN = re.compile(r"COPY\b.*\bFROM\s+STDIN\b", re.IGNORECASE | re.DOTALL)
_END_OF_ROWS = re.compile(rb"^\\\.\r?$", re.MULTILINE)
# Behind CREATE [OR REPLACE] of these a body may stand between BEGIN ATOMIC and END, with semicolons.
_WITH_BODY = {(b"create", b"function"), (b"create", b"procedure")}
# pg_dump brackets a dump with these; they guard psql against a forged dump, and nothing here obeys it.
_RESTRICT = re.compile(rb"\\(?:un)?restrict\b[^\n]*")


def items(file: Path) -> Iterator[Item]:
    """Yields the statements and COPYs of a file, in order. Raises UsageError with file and line of what
    cannot be read."""
    with file.open("rb") as opened:
        if not opened.seek(0, 2):
            return
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from _Scanner(data, str(file)).items()


class _Scanner:
    def __init__(self, data: mmap.mmap | bytes, name: str) -> None:
        self._data, self._name = data, name
        self._line, self._counted = 1, 0
        self._size = 0
        self._encoding = ""

    def items(self) -> Iterator[Item]:
        # Editors of Windows write the byte order mark, and psql leaves it out.
        at, begin = len(BOM_UTF8) if self._data[: len(BOM_UTF8)] == BOM_UTF8 else 0, -1
        parens = depth = 0
        words: list[bytes] = []
        while match := _TOKEN.match(self._data, at):
            at = match.end()
            kind = match.lastgroup
            if kind in ("space", "comment"):
                at = self.behind_comment(match.start()) if kind == "comment" else at
                continue
            if kind == "command":
                if begin < 0 and (skipped := _RESTRICT.match(self._data, match.start())):
                    at = skipped.end()
                    continue
                raise self._no_sql(match.start())
            if kind == "semicolon" and not parens and not depth:
                if begin >= 0:
                    entry, at = self._made(begin, match.start(), at)
                    if (encoding := encoding_set_by(entry.text)) is None:
                        yield entry
                    else:
                        self._encoding = encoding
                begin, words = -1, []
                continue
            if begin < 0:
                begin = match.start()
            if kind == "dollar":
                at = self.behind(match.group(), at, match.start())
            elif kind == "open":
                raise self._error(
                    match.start(), f"a {shown(match.group().decode(errors='replace'), 60)} is never closed"
                )
            elif kind == "paren":
                parens = max(0, parens + (1 if match.group() == b"(" else -1))
            elif kind == "word" and not parens:
                word = match.group().lower()
                if len(words) < 4 and word not in (b"or", b"replace"):
                    words.append(word)
                if tuple(words[:2]) in _WITH_BODY:
                    if word == b"begin" or (word == b"case" and depth):
                        depth += 1
                    elif word == b"end" and depth:
                        depth -= 1
        if begin >= 0:
            yield self._made(begin, len(self._data), len(self._data))[0]

    def _made(self, begin: int, end: int, behind: int) -> tuple[Item, int]:
        """Returns the statement, and where the next one begins."""
        line = self._line_of(begin)
        raw = bytes(self._data[begin:end]).rstrip()
        self._size += len(raw)
        if self._size > MOST_STATEMENT_BYTES:
            raise self._error(
                begin,
                "there is more than 64 MiB of statements up to here",
                "rows belong into COPY: dump without --inserts, or load them from CSV files",
            )
        try:
            text = raw.decode(codec_of(self._encoding) or "utf-8")
        except UnicodeDecodeError:
            encoding = "UTF-8" if codec_of(self._encoding) is None else self._encoding
            raise self._error(begin, f"this is not {encoding} text", "save or dump it as UTF-8") from None
        if "\0" in text:
            raise self._error(begin, "a statement holds a NUL")
        if not _FROM_STDIN.match(text):
            return SqlStatement(text, line), behind
        newline = self._data.find(b"\n", behind)
        rows = newline + 1 if newline >= 0 else len(self._data)
        last = _END_OF_ROWS.search(self._data, rows)
        if last is None:
            raise self._error(begin, "the rows of this COPY have no end", "a line with \\. ends them")
        return Copy(copy_in(text, self._encoding), line, rows, last.start()), last.end()

    def behind(self, closing: bytes, at: int, begin: int) -> int:
        end = self._data.find(closing, at)
        if end < 0:
            raise self._error(begin, f"a {shown(closing.decode(errors='replace'), 60)} is never closed")
        return end + len(closing)

    def behind_comment(self, begin: int) -> int:
        depth, at = 0, begin
        while match := _IN_COMMENT.search(self._data, at):
            at = match.end()
            depth += 1 if match.group() == b"/*" else -1
            if not depth:
                return at
        raise self._error(begin, "a comment is never closed")

    def _no_sql(self, at: int) -> UsageError:
        end = self._data.find(b"\n", at)
        text = bytes(self._data[at : end if end >= 0 else at + 200]).decode(errors="replace").strip()
        return self._error(
            at, f"{shown(text, 60)} is a command of psql, not SQL", "write it as SQL, or leave it out"
        )

    def _error(self, at: int, what: str, hint: str = "") -> UsageError:
        return UsageError(f"{shown(self._name)}:{self._line_of(at)}: {what}", hint)

    def _line_of(self, at: int) -> int:
        """Returns the number of the line at a place, counted in pieces, forwards: there may be gigabytes of
        rows in between."""
        while self._counted < at:
            end = min(at, self._counted + (1 << 20))
            self._line += self._data[self._counted : end].count(b"\n")
            self._counted = end
        return self._line


@dataclass(frozen=True)
class Mentioned:
    """What a statement mentions outside of literals and comments: its words, in lower case, and the number of
    the last parameter, `$1` …, 0 where it has none."""

    words: frozenset[str]
    parameters: int


def mentioned(statement: str) -> Mentioned:
    """Returns what a statement mentions. Raises UsageError for literals and comments without an end."""
    text = statement.encode()
    scanner = _Scanner(text, "the statement")
    words, parameters, at = set(), 0, 0
    while match := _TOKEN.match(text, at):
        at = match.end()
        if match.lastgroup == "comment":
            at = scanner.behind_comment(match.start())
        elif match.lastgroup == "dollar":
            at = scanner.behind(match.group(), at, match.start())
        elif match.lastgroup == "word":
            words.add(match.group().decode().lower())
        elif match.lastgroup == "number" and match.group().startswith(b"$"):
            parameters = max(parameters, int(match.group()[1:]))
    return Mentioned(frozenset(words), parameters)


__all__ = ["Copy", "Item", "Mentioned", "SqlStatement", "items", "mentioned"]

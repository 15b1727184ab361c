"""In which encoding a file or a dump is written, by its `SET client_encoding`.

Sessions of the load keep UTF-8: statements are decoded here, and COPY is told the encoding of its rows.
"""

from __future__ import annotations

import re
from typing import Final

from pgstrata.sql_text import literal

_SET: Final = re.compile(
    r"SET\s+(?:SESSION\s+)?client_encoding\s*(?:=|\sTO\b)\s*'?([\w-]+)'?\s*\Z", re.IGNORECASE
)
_LINE: Final = re.compile(rb"^SET client_encoding = '([\w-]+)';$", re.MULTILINE)
_FROM_STDIN: Final = re.compile(r"\bFROM\s+STDIN\s*\Z", re.IGNORECASE)

# By PostgreSQL's name without what it leaves out of names. Bytes of these below 128 are ASCII, so that the
# ends of statements can be told; those of SJIS, BIG5, GBK and others are not.
_CODECS: Final = {
    "utf8": "utf-8",
    "unicode": "utf-8",
    **{f"latin{n}": f"iso8859-{part}" for n, part in enumerate((1, 2, 3, 4, 9, 10, 13, 14, 15, 16), 1)},
    **{f"iso8859{part}": f"iso8859-{part}" for part in (5, 6, 7, 8)},
    **{f"win{page}": f"cp{page}" for page in (866, 874, *range(1250, 1259))},
    "koi8": "koi8-r",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "eucjp": "euc_jp",
    "euckr": "euc_kr",
    "euccn": "gb2312",
}


def encoding_set_by(statement: str) -> str | None:
    """Returns the encoding that a statement sets for its session, as it is written; None for another
    statement."""
    match = _SET.match(statement)
    return match[1] if match else None


def encoding_of_dump(text: bytes) -> str:
    """Returns the encoding that the head of a dump names; empty where there is none."""
    match = _LINE.search(text)
    return match[1].decode() if match else ""


def codec_of(encoding: str) -> str | None:
    """Returns Python's name of an encoding; None where statements in it cannot be cut or decoded."""
    return _CODECS.get(re.sub(r"[^a-z0-9]", "", encoding.lower()))


def copy_in(copy: str, encoding: str) -> str:
    """Returns the COPY of a dump with the encoding of its rows, unless that is UTF-8, or bytes as they are.

    Servers take the option since 9.1.
    """
    if not encoding or encoding.upper() == "SQL_ASCII" or codec_of(encoding) == "utf-8":
        return copy
    if not _FROM_STDIN.search(copy):
        return copy  # with options of its own, which a person has written for a session in UTF-8
    return f"{copy.rstrip()} WITH (ENCODING {literal(encoding)})"


__all__ = ["codec_of", "copy_in", "encoding_of_dump", "encoding_set_by"]

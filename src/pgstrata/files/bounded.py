"""Reads packed data and JSON whose sender is not trusted: size, depth and number of values are bounded.

The size that a file states is never believed: packed data are inflated until they are whole or a limit is
reached. Whatever is wrong is a BoundError, also a document that is nested too deep.
"""

from __future__ import annotations

import itertools
import re
import zlib
from typing import Any, TypeVar

import msgspec

from pgstrata import numbers

T = TypeVar("T")

GZIP = 16 + zlib.MAX_WBITS
"""`wbits` of data that gzip has packed; zlib's own format is the default."""


class BoundError(ValueError):
    """Data are damaged, or larger or deeper than they may be. The message says which, without a place."""


def inflate(data: bytes, most: int, wbits: int = zlib.MAX_WBITS) -> bytes:
    """Returns the unpacked data, of at most `most` bytes.

    No more than `most` bytes and one are ever held of them. Raises BoundError for data that are larger,
    damaged or cut, and for packed data with something behind their end.
    """
    inflater = zlib.decompressobj(wbits)
    try:
        whole = inflater.decompress(data, most + 1)
    except zlib.error as error:
        raise BoundError("its packed data are damaged") from error
    if len(whole) > most:
        raise BoundError(f"unpacked it has more than {numbers.size(most)}")
    if not inflater.eof:
        raise BoundError("its packed data are cut off")
    if inflater.unused_data:
        raise BoundError("there is something behind its packed data")
    return whole


_QUOTES = re.compile(rb'(?:[^"\\]++|\\.)*+"', re.DOTALL)

MOST_VALUES = 4_000_000
"""Most commas, colons and opening brackets of a JSON document: each stands for at most 70 bytes of memory."""


def json_as(data: bytes, kind: type[T], most_texts: int = 1_000_000) -> T:
    """Returns a JSON document as a msgspec type.

    A text, and so an object, takes up to twelve times as much memory as it has bytes in a file: most_texts
    bounds how many there are, names of keys counted too. Raises BoundError for what is no JSON, is nested too
    deep, or is not of the type.
    """
    if data.count(b'"') > 2 * most_texts:
        quotes = sum(1 for _ in itertools.islice(_QUOTES.finditer(data), 2 * most_texts + 1))
        if quotes > 2 * most_texts:
            raise BoundError(f"it holds more than {most_texts:,} texts")
    if len(data) > MOST_VALUES and sum(map(data.count, (b",", b":", b"[", b"{"))) > MOST_VALUES:
        raise BoundError(f"it holds more than {MOST_VALUES:,} values")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise BoundError(str(error)) from error
    except RecursionError:
        raise BoundError("it is nested too deep") from None


def json_any(data: bytes | str) -> Any:
    """Returns a JSON document as Python values. Raises BoundError as `json_as` does."""
    try:
        return json_as(data.encode() if isinstance(data, str) else data, Any)
    except UnicodeEncodeError as error:
        raise BoundError("it is not valid Unicode") from error

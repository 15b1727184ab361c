"""JSON objects of a file, one by one: a line each, an array, or within `{"records": [`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from pgstrata.traffic.logs.line import CUT, FRAGMENT, LONGEST, TOO_LONG, Trouble

_MOST = 2 * LONGEST
"""Bytes of one object."""

_AROUND = re.compile(rb'\s*\{\s*"(?:records|events|logEvents|entries)"\s*:\s*\[')
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|"|[{}]', re.DOTALL)
_CHUNK = 1 << 18
_DECODER = msgspec.json.Decoder(dict[str, Any])


def objects(file: IO[bytes], trouble: Trouble) -> Iterator[dict[str, Any]]:
    """Yields every object of a file. What is cut off or none is counted in `trouble`."""
    # Most files have one object a line, which needs no search for its end.
    is_by_line = False
    while line := file.readline(LONGEST):
        text = line.strip().rstrip(b",")
        if not text or (is_by_line and text == b"]"):
            continue
        decoded = _decoded(text) if text.startswith(b"{") and text.endswith(b"}") else None
        if decoded is not None:
            is_by_line = is_by_line or bool(decoded)
            if _AROUND.match(text):
                yield from (entry for entry in next(iter(decoded.values())) if isinstance(entry, dict))
            else:
                yield decoded
        elif not is_by_line and (text.endswith((b"{", b"[")) or text.startswith(b"[") or _AROUND.match(text)):
            yield from _spread_over_lines(line, file, trouble)
            return
        else:
            trouble.lose(CUT if text.startswith(b"{") else FRAGMENT, line)


def _spread_over_lines(data: bytes, file: IO[bytes], trouble: Trouble) -> Iterator[dict[str, Any]]:
    """Yields objects however they are laid out."""
    data += file.read(_CHUNK)
    if around := _AROUND.match(data):
        data = data[around.end() :]
    depth = begin = at = 0
    while True:
        scanned = len(data)
        for match in _TOKEN.finditer(data, at):
            mark = match[0]
            if mark == b'"':
                scanned = match.start()  # a text that goes on in what is not read yet
                break
            if mark == b"{":
                begin = begin if depth else match.start()
                depth += 1
            elif mark == b"}" and depth:
                depth -= 1
                if not depth:
                    text = data[begin : match.end()]
                    if (decoded := _decoded(text)) is None:
                        trouble.lose(FRAGMENT, text)
                    else:
                        yield decoded
        if depth and len(data) - begin > _MOST:
            trouble.lose(TOO_LONG, data[begin : begin + 200])
            depth, scanned = 0, len(data)
        keep = begin if depth else scanned
        data, begin, at = data[keep:], 0, scanned - keep
        if not (more := file.read(max(_CHUNK, len(data)))):
            if depth:
                trouble.lose(CUT, data)
            return
        data += more


def _decoded(text: bytes) -> dict[str, Any] | None:
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        text.decode()
    except UnicodeDecodeError:
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            return _DECODER.decode(text.decode("latin-1"))
    return None


def text_of(entry: dict[str, Any], *keys: str) -> str:
    """Returns the first of these keys that has a text, empty where none has."""
    for key in keys:
        value = entry.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


__all__ = ["objects", "text_of"]

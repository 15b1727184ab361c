"""One message: any bytes in, text that PostgreSQL accepts out.

The standard library reads what headers say, and the whole message where it has several parts; that
the others have no structure to look for makes them twice as fast. Whatever is wrong with a message is
repaired and counted, or counted and left out.
"""

from __future__ import annotations

import binascii
import email
import email.message
import email.utils
import hashlib
import quopri
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import HeaderParseError
from email.header import decode_header
from functools import lru_cache

MOST_TEXT = 500_000
"""Characters of a body that are kept: a tsvector ends at a megabyte, positions included."""

MOST_LINE = 1_000
"""Characters of a subject or an author that are kept."""

_WANTED = re.compile(
    rb"^(?:message-id|in-reply-to|references|date|from|subject|content-type|content-transfer-encoding)"
    rb"[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*\n?",
    re.MULTILINE | re.IGNORECASE,
)
_ID = re.compile(r"<([^<>\s]{1,500})>")
_TAG = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Mail:
    """A message as it is loaded. sent: in UTC; parent_id: message id of what it answers."""

    id: str
    parent_id: str | None
    sent: datetime | None
    subject: str
    author: str
    body: str


def parse(raw: bytes, counts: Counter[str]) -> Mail | None:
    """Parses a message; None if it has neither headers nor text.

    counts: `messages`; `repaired_*` for what was wrong; `skipped_messages`.
    """
    head, body = _cut(raw)
    headers = _WANTED.findall(head)
    if not headers and not body.strip():
        counts["skipped_messages"] += 1
        return None
    try:
        mail = _mail(raw, headers, body, counts)
    except Exception:  # the library raises what it likes: AttributeError, RecursionError, AssertionError, …
        counts["repaired_structure"] += 1
        mail = Mail(_invented(raw), None, None, "", "", _text(body, "utf-8", counts))
    counts["messages"] += 1
    return mail


def _cut(raw: bytes) -> tuple[bytes, bytes]:
    """Returns the headers and body, which a blank line divides."""
    if raw.startswith((b"\n", b"\r\n")):
        return b"", raw
    at, width = raw.find(b"\n\n"), 2
    dos = raw.find(b"\r\n\r\n", 0, at if at >= 0 else len(raw))
    if dos >= 0:
        at, width = dos, 4
    return (raw[: at + 1], raw[at + width :]) if at >= 0 else (raw, b"")


def _mail(raw: bytes, headers: list[bytes], body: bytes, counts: Counter[str]) -> Mail:
    fields: dict[str, str] = {}
    for line in headers:
        name, _, value = line.decode("ascii", "surrogateescape").partition(":")
        # The first of several wins, as with the library's `get`.
        fields.setdefault(name.rstrip().lower(), value.strip())

    def header(name: str) -> str:
        value = fields.get(name)
        return _header(value, counts) if value else ""

    match = _ID.search(header("message-id"))
    if match is None:
        counts["repaired_id"] += 1
    parents = _ID.findall(header("in-reply-to")) or _ID.findall(header("references"))[-1:]
    sent = _date(header("date"))
    if sent is None:
        counts["repaired_date"] += 1
    return Mail(
        id=match.group(1) if match else _invented(raw),
        parent_id=parents[0] if parents else None,
        sent=sent,
        subject=_line(header("subject")),
        author=_line(header("from")),
        body=_body(raw, fields, body, counts)[:MOST_TEXT],
    )


def _invented(raw: bytes) -> str:
    return hashlib.md5(raw, usedforsecurity=False).hexdigest() + "@no-message-id"


def _line(text: str) -> str:
    return " ".join(text.split())[:MOST_LINE]


# --- headers ----------------------------------------------------------------------------------


def _header(text: str, counts: Counter[str]) -> str:
    if not text.isascii():
        # Bytes that have no place in a header: UTF-8 most of the time.
        text = _text(text.encode("utf-8", "surrogateescape"), "utf-8", counts)
    if "=?" in text:
        text = _encoded_words(text, counts)
    return clean(text, counts)


def _encoded_words(text: str, counts: Counter[str]) -> str:
    try:
        parts = decode_header(text)
    except (HeaderParseError, ValueError, binascii.Error):
        counts["repaired_header"] += 1
        return text
    return "".join(
        part if isinstance(part, str) else _text(part, charset or "latin-1", counts)
        for part, charset in parts
    )


def _date(text: str) -> datetime | None:
    """Parses a date, in UTC; None for text that is not a date, or for a date before 1970 or after 2100."""
    try:
        date = email.utils.parsedate_to_datetime(text)
        date = date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if 1970 <= date.year <= 2100 else None


# --- bodies -----------------------------------------------------------------------------------


@lru_cache(maxsize=1_000)
def _content(value: str) -> tuple[str, str]:
    """Returns type and charset of a Content-Type header; an archive has few different headers."""
    message = email.message.Message()
    if value:
        message.set_raw("Content-Type", value)
    return message.get_content_type(), str(message.get_content_charset("utf-8"))


def _body(raw: bytes, fields: Mapping[str, str], body: bytes, counts: Counter[str]) -> str:
    kind, charset = _content(fields.get("content-type", ""))
    if kind.startswith("multipart/"):
        return _of_parts(email.message_from_bytes(raw), counts)
    encoding = fields.get("content-transfer-encoding", "").lower()
    if encoding in ("quoted-printable", "base64"):
        body = _decoded(body, encoding, counts)
    text = _text(body, charset, counts)
    return _without_tags(text) if kind == "text/html" else text


def _of_parts(message: email.message.Message, counts: Counter[str]) -> str:
    plain: list[str] = []
    marked_up: list[str] = []
    if message.defects:
        counts["repaired_structure"] += 1
    for part in message.walk():
        kind = part.get_content_type()
        if part.is_multipart() or kind not in ("text/plain", "text/html"):
            continue
        payload = part.get_payload(decode=True)
        text = _text(
            payload if isinstance(payload, bytes) else b"", str(part.get_content_charset("utf-8")), counts
        )
        (plain if kind == "text/plain" else marked_up).append(text)
    return "\n".join(plain) if plain else "\n".join(map(_without_tags, marked_up))


def _without_tags(text: str) -> str:
    return _TAG.sub(" ", text)


def _decoded(body: bytes, encoding: str, counts: Counter[str]) -> bytes:
    if encoding == "quoted-printable":
        return quopri.decodestring(body)
    try:
        return binascii.a2b_base64(body)
    except binascii.Error:
        counts["repaired_encoding"] += 1
        usable = re.sub(rb"[^A-Za-z0-9+/]", b"", body)
        return binascii.a2b_base64(usable[: len(usable) - len(usable) % 4])


def _text(data: bytes, charset: str, counts: Counter[str]) -> str:
    """Decodes bytes as text; a charset that is unknown or does not fit gives way to UTF-8, then Latin-1."""
    try:
        return clean(data.decode(charset), counts)
    except (LookupError, ValueError, UnicodeError, AssertionError):
        pass
    counts["repaired_charset"] += 1
    try:
        return clean(data.decode("utf-8"), counts)
    except UnicodeDecodeError:
        return clean(data.decode("latin-1"), counts)


def clean(text: str, counts: Counter[str]) -> str:
    """Returns the text without NUL and without halves of surrogate pairs, which UTF-8 cannot hold."""
    if "\0" in text:
        counts["repaired_nul"] += 1
        text = text.replace("\0", "")
    if not text.isascii() and _LONE.search(text):
        counts["repaired_bytes"] += 1
        text = _LONE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text

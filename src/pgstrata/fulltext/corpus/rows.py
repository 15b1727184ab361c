"""Messages as rows of COPY's text format."""

from __future__ import annotations

from pgstrata.fulltext.corpus.mail import Mail

COLUMNS = ("id", "parent_id", "sent", "subject_plain", "author", "body_plain")


def escaped(text: str) -> str:
    """Returns text as a column of COPY; `translate` is slow, and most text needs two replacements."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if "\t" in text:
        text = text.replace("\t", "\\t")
    if "\r" in text:
        text = text.replace("\r", "\\r")
    return text.replace("\n", "\\n")


def row(mail: Mail) -> bytes:
    """Returns a message as a line of COPY, valid UTF-8 without NUL, its newline included."""
    sent = mail.sent.isoformat(" ", "seconds") if mail.sent else "\\N"
    parent = escaped(mail.parent_id) if mail.parent_id is not None else "\\N"
    columns = (
        escaped(mail.id),
        parent,
        sent,
        escaped(mail.subject),
        escaped(mail.author),
        escaped(mail.body),
    )
    return ("\t".join(columns) + "\n").encode("utf-8")

"""One message at a time: real ones, encoded ones, broken ones, and any bytes at all."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.fulltext.corpus import rows
from pgstrata.fulltext.corpus.mail import MOST_TEXT, Mail, parse
from pgstrata.workload.core.recorded import rows_of


def parsed(raw: bytes) -> tuple[Mail, Counter[str]]:
    counts: Counter[str] = Counter()
    mail = parse(raw, counts)
    assert mail is not None
    return mail, counts


PLAIN = b"""Received: from somewhere by elsewhere;
\tThu, 11 Feb 2010 17:27:14 +0000 (UTC)
Message-ID: <1@example.org>
In-Reply-To: Your message of today
 <0@example.org>
References: <a@example.org> <b@example.org>
From: =?iso-8859-1?Q?J=F6rg?= <joerg@example.org>
Date: Thu, 11 Feb 2010 18:27:14 +0100
Subject: =?utf-8?B?w6R0aGVy?= and
 folded
Content-Type: text/plain; charset=ISO-8859-1
Content-Transfer-Encoding: quoted-printable

caf=E9 =
tail
"""


def test_a_message_is_read_whole() -> None:
    mail, counts = parsed(PLAIN)
    assert mail == Mail(
        "1@example.org",
        "0@example.org",
        datetime(2010, 2, 11, 17, 27, 14, tzinfo=UTC),
        "äther and folded",
        "Jörg <joerg@example.org>",
        "café tail\n",
    )
    assert counts == Counter(messages=1)


def test_the_parent_is_the_last_reference_where_there_is_no_reply_to() -> None:
    raw = PLAIN.replace(b"In-Reply-To: Your message of today\n <0@example.org>\n", b"")
    assert parsed(raw)[0].parent_id == "b@example.org"
    assert parsed(b"Subject: x\n\ny\n")[0].parent_id is None


def test_of_several_parts_the_plain_text_is_taken() -> None:
    email_message = EmailMessage()
    email_message["Message-ID"] = "<2@example.org>"
    email_message["Date"] = "Thu, 11 Feb 2010 18:27:14 +0100"
    email_message.set_content("plain größe\n", charset="utf-8")
    email_message.add_alternative("<p>marked <b>up</b></p>", subtype="html")
    email_message.add_attachment(
        b"\0\1\2" * 100, maintype="application", subtype="octet-stream", filename="x"
    )
    mail, counts = parsed(email_message.as_bytes())
    assert mail.body.strip() == "plain größe"
    assert counts == Counter(messages=1)
    only = EmailMessage()
    only.set_content("<style>p {}</style><p>marked <b>up</b></p>", subtype="html")
    assert parsed(only.as_bytes())[0].body.split() == ["marked", "up"]


@pytest.mark.parametrize(
    ("raw", "count", "body"),
    [
        (b"Subject: x\nContent-Type: text/plain; charset=klingon\n\ncaf\xc3\xa9", "repaired_charset", "café"),
        (b"Subject: x\nContent-Type: text/plain; charset=us-ascii\n\ncaf\xe9", "repaired_charset", "café"),
        (b"Subject: x\nContent-Type: text/plain; charset=utf-8\n\n\xff\xfe", "repaired_charset", "ÿþ"),
        (b"Subject: x\n\nnul\0here", "repaired_nul", "nulhere"),
        (b"Subject: x\nContent-Type: text/plain; charset=base64\n\naGk=", "repaired_charset", "aGk="),
        (b"Subject: x\nContent-Transfer-Encoding: base64\n\naGVsbG8*gd29ybGQ", "repaired_encoding",
         "hello wor"),
        (b"Subject: =?utf-8?B?w6R0a?=\nDate: yesterday\n\nz", "repaired_date", "z"),
        (b"no header at all, only text\n", "repaired_id", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_repaired_and_counted(raw: bytes, count: str, body: str) -> None:
    counts: Counter[str] = Counter()
    mail = parse(raw, counts)
    if mail is None:
        assert counts["skipped_messages"] == 1
        return
    assert mail.body == body
    assert counts[count] == 1


def test_dates_outside_of_mail_s_time_are_none() -> None:
    for date in ("Thu, 11 Feb 1910 18:27:14 +0000", "Thu, 11 Feb 9999 18:27:14 -2359", "", "32 Jan 2000"):
        mail, counts = parsed(b"Subject: x\nDate: " + date.encode() + b"\n\ny")
        assert mail.sent is None
        assert counts["repaired_date"] == 1


def test_endless_text_is_cut() -> None:
    mail, _ = parsed(b"Subject: " + b"s" * 10_000 + b"\n\n" + b"word " * 400_000)
    assert len(mail.body) == MOST_TEXT
    assert len(mail.subject) == 1_000


def test_a_message_without_an_id_gets_one_that_stays() -> None:
    first, second = parsed(b"Subject: x\n\ny")[0], parsed(b"Subject: x\n\ny")[0]
    assert first.id == second.id != parsed(b"Subject: x\n\nz")[0].id


def test_deep_nesting_is_survived() -> None:
    raw = b"Subject: deep\n"
    for n in range(500):
        raw += b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n)
    mail, counts = parsed(raw + b"\nthe end\n")
    assert mail.subject == "deep" or counts["repaired_structure"]


words = st.sampled_from([
    b"Message-ID: <1@x>\n", b"Subject: =?utf-8?Q?=FF?=\n", b"From: \xff\xfe\n",
    b"Date: 1 Jan 2000 00:00 +0\n",
    b"Content-Type: multipart/mixed; boundary=b\n", b"Content-Type: text/html; charset=utf-16\n",
    b"Content-Transfer-Encoding: base64\n", b"--b\n", b"--b--\n", b"\n", b"text\0\n", b"\r\n",
    b"In-Reply-To: <\xed\xa0\x80@x>\n",
    b"Subject: =?iso-2022-jp?B?GyRC?= =?x?y?z?=\n", b"Content-Type: ;;;==\n", b"\xc3\x28",
])  # fmt: skip


@given(st.one_of(st.binary(max_size=300), st.lists(words, max_size=12).map(b"".join)))
def test_any_bytes_become_one_row_that_postgres_takes(raw: bytes) -> None:
    counts: Counter[str] = Counter()
    mail = parse(raw, counts)
    assert counts["messages"] + counts["skipped_messages"] == 1
    if mail is None:
        return
    line = rows.row(mail)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert b"\0" not in line
    (cells,) = rows_of(line.decode("utf-8"))
    assert len(cells) == len(rows.COLUMNS)
    assert (cells[0], cells[1], cells[5]) == (mail.id, mail.parent_id, mail.body)


FOLDED = st.lists(st.text("abc <>@=?\t", min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=3)


@given(
    subjects=st.lists(FOLDED, min_size=1, max_size=3), name=st.sampled_from(["Subject", "SUBJECT", "subject"])
)
def test_headers_are_what_the_library_reads(subjects: list[list[str]], name: str) -> None:
    lines = "".join(f"{name}: " + "\n\t".join(part.strip() for part in s) + "\n" for s in subjects)
    raw = f"X-Before: 1\n{lines}From: a@example.org\n\ntext\n".encode()
    mail = parse(raw, Counter())
    assert mail is not None
    assert mail.subject == " ".join(message_from_bytes(raw)["subject"].split())
    assert mail.author == "a@example.org"

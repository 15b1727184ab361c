"""Reading archives: real mbox files and maildirs made by the standard library, and every kind of damage."""

from __future__ import annotations

import gzip
import io
import mailbox
import random
import tracemalloc
from collections import Counter
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.fulltext.corpus import sources


def message(n: int, body: str = "hello\n") -> EmailMessage:
    mail = EmailMessage()
    mail["Message-ID"] = f"<{n}@example.org>"
    mail["Date"] = "Thu, 11 Feb 2010 18:27:14 +0100"
    mail["From"] = "Ada <ada@example.org>"
    mail["Subject"] = f"number {n}"
    mail.set_content(body)
    return mail


def mbox(path: Path, *messages: EmailMessage) -> Path:
    box = mailbox.mbox(path)
    for message in messages:
        box.add(message)
    box.close()
    return path


def read(path: Path) -> tuple[list[bytes], Counter[str]]:
    counts: Counter[str] = Counter()
    mails = [raw for file in sources.files(path) for raw in sources.messages(file, counts)]
    return mails, counts


def test_an_mbox_gives_its_messages_back(tmp_path: Path) -> None:
    bodies = ["one\n", "From here on\n> From quoted\n", "three\n\nFrom the end\n", "\n" * 3]
    path = mbox(tmp_path / "list.mbox", *(message(n, body) for n, body in enumerate(bodies)))
    mails, counts = read(path)
    assert len(mails) == 4
    assert [raw.split(b"\n\n", 1)[1].strip() for raw in mails] == [
        b"one", b"From here on\n> From quoted", b"three\n\nFrom the end", b"",
    ]  # fmt: skip
    assert counts == Counter(read_bytes=path.stat().st_size, cut_messages=0)


def test_a_folder_holds_all_of_them(tmp_path: Path) -> None:
    mbox(tmp_path / "a.mbox", message(1), message(2))
    with gzip.open(tmp_path / "b.mbox.gz", "wb") as packed:
        packed.write(mbox(tmp_path / "away", message(3)).read_bytes())
    (tmp_path / "away").unlink()
    (tmp_path / "sub").mkdir()
    maildir = mailbox.Maildir(tmp_path / "sub" / "mails")
    maildir.add(message(4))
    maildir.add(message(5))
    (tmp_path / "notes.txt").write_text("no mail at all\n")
    (tmp_path / "empty.mbox").touch()
    mails, counts = read(tmp_path)
    ids = sorted(raw.split(b"Message-ID: <")[1].split(b"@")[0] for raw in mails)
    assert ids == [b"1", b"2", b"3", b"4", b"5"]
    assert counts["skipped_files"] == 1


def test_a_gzip_cut_short_gives_what_came_before(tmp_path: Path) -> None:
    dice = random.Random(1)  # text that compresses badly, so that a cut loses only its end
    bodies = ["".join(dice.choices("abcdefghij \n", k=20_000)) + "\n" for _ in range(30)]
    whole = mbox(tmp_path / "whole", *(message(n, body) for n, body in enumerate(bodies))).read_bytes()
    packed = gzip.compress(whole)
    cut = tmp_path / "cut.mbox.gz"
    cut.write_bytes(packed[: len(packed) * 2 // 3])
    mails, counts = read(cut)
    assert 10 < len(mails) < 30
    assert counts["cut_files"] == 1
    broken = bytearray(packed)
    broken[len(broken) // 2] ^= 0xFF
    cut.write_bytes(bytes(broken))
    _, counts = read(cut)
    assert counts["cut_files"] == 1


def test_a_message_of_any_size_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.mbox"
    with path.open("wb") as out:
        out.write(b"From a@b Thu Feb 11 18:27:14 2010\nSubject: huge\n\n")
        for _ in range(100):
            out.write(b"x" * (1 << 20))  # a line of a hundred megabytes
        out.write(b"\n\nFrom a@b Thu Feb 11 18:27:14 2010\nSubject: after\n\nbye\n")
    tracemalloc.start()
    mails, counts = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(raw) for raw in mails] == [sources.MOST_BYTES, len(b"Subject: after\n\nbye\n")]
    assert counts["cut_messages"] == 1
    assert counts["read_bytes"] == path.stat().st_size
    assert peak < 4 * sources.MOST_BYTES


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    assert list(sources.messages(tmp_path, counts)) == []  # a folder is no file
    assert counts["unreadable_files"] == 1
    (tmp_path / "fake.gz").write_bytes(b"\x1f\x8bnot a gzip at all")
    assert list(sources.messages(tmp_path / "fake.gz", counts)) == []
    assert counts["cut_files"] == 1
    with pytest.raises(UsageError, match="no mail archive"):
        sources.files(tmp_path / "nowhere")


SEPARATOR = b"From a@b Thu Feb 11 18:27:14 2010\n"
bodies = st.lists(
    st.sampled_from(
        [b"Subject: x\n", b"\n", b"text\n", b"From nobody\n", b"\xff\x00\n", b"long" * 50 + b"\n"]
    ),
    min_size=1,
    max_size=6,
).map(b"".join)


@given(st.lists(bodies, min_size=1, max_size=5), st.integers(1, 60))
def test_messages_are_the_same_wherever_reads_end(parts: list[bytes], step: int) -> None:
    whole = b"".join(SEPARATOR + body for body in parts)

    class Slowly(io.BytesIO):
        def read(self, n: int | None = -1, /) -> bytes:
            return super().read(step)

    source = Slowly(whole)
    assert list(sources.split(source, source.read(step), Counter())) == parts


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_a_complaint(data: bytes) -> None:
    assert list(sources.split(io.BytesIO(b""), b"From " + data, Counter()))

"""The corpus that nobody wrote: the same bytes for a seed, Zipf's law, heavy tails, threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgstrata.errors import ServerError, UsageError
from pgstrata.fulltext.corpus import build
from pgstrata.fulltext.corpus.synthetic import STEADY_ENDS, CorpusShape, rows, vocabulary
from pgstrata.workload.core.recorded import rows_of

N = 3_000


@pytest.fixture(scope="module")
def corpus_rows() -> list[list[str | None]]:
    return rows_of(b"".join(rows(N, 7)).decode())


@pytest.mark.long
def test_the_same_seed_gives_the_same_bytes_on_every_machine() -> None:
    digest = hashlib.sha256(b"".join(rows(1_500, 1))).hexdigest()
    assert digest == hashlib.sha256(b"".join(rows(1_500, 1))).hexdigest()
    assert digest.startswith(KNOWN)
    assert digest != hashlib.sha256(b"".join(rows(1_500, 2))).hexdigest()


KNOWN = "dfd6ad1148ceee79"


def test_words_are_different_and_no_stemmer_shortens_them() -> None:
    words = vocabulary(20_000, 3)
    assert len(set(words)) == len(words) == 20_000
    assert {len(w) for w in words[:150]} == {3}
    assert all(w[-1] in STEADY_ENDS and w.isascii() and w.isalpha() for w in words)


def test_rows_are_messages(corpus_rows: list[list[str | None]]) -> None:
    assert len(corpus_rows) == N
    assert [row[0] for row in corpus_rows] == [f"m{n}@synthetic" for n in range(N)]
    assert all(len(row) == 6 and row[5] and row[3] for row in corpus_rows)
    sent = [row[2] or "" for row in corpus_rows]
    assert sent == sorted(sent)
    assert sent[0] == "2000-01-01 00:00:00+00"


def test_threads_answer_what_came_shortly_before(corpus_rows: list[list[str | None]]) -> None:
    parents = [(n, int(row[1].split("@")[0][1:])) for n, row in enumerate(corpus_rows) if row[1]]
    assert 0.7 * N < len(parents) < 0.8 * N
    assert all(1 <= n - parent <= 64 for n, parent in parents)


def test_words_follow_zipf_s_law(corpus_rows: list[list[str | None]]) -> None:
    counts = Counter(word for row in corpus_rows for word in (row[5] or "").split())
    frequent = [count for _, count in counts.most_common(1000)]
    ranks = np.arange(1, 1001)
    slope = np.polyfit(np.log(ranks[5:]), np.log(frequent[5:]), 1)[0]
    assert -1.12 < slope < -0.98
    assert len(counts) > 20_000


def test_lengths_have_a_heavy_tail(corpus_rows: list[list[str | None]]) -> None:
    lengths = np.array([len((row[5] or "").split()) for row in corpus_rows])
    shape = CorpusShape()
    assert lengths.min() >= shape.shortest * 0.8  # one token in sixteen is the end of a line
    assert lengths.max() > 10 * np.median(lengths)
    assert lengths.max() <= shape.longest


def test_a_corpus_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path))
    corpus = build.synthetic(build.Synthetic(500, 1))
    messages: list[str] = []
    first = corpus.build(messages.append)
    assert first["messages"] == 500
    assert first["bytes"] == corpus.file.stat().st_size
    assert first["bytes"] == pytest.approx(corpus.size, rel=0.5)
    assert corpus.build(messages.append) == first
    assert len(messages) == 1
    assert build.synthetic(build.Synthetic(500, 2)).about() is None
    (corpus.folder / "about.json").write_text('{"mess')
    assert corpus.build(messages.append)["bytes"] == first["bytes"]
    assert [p.name for p in corpus.folder.parent.iterdir()] == [corpus.folder.name]


def test_an_archive_without_a_message_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path / "cache"))
    archive = tmp_path / "mails"
    archive.mkdir()
    for corpus in (build.archive(archive), _with(archive, "notes", "nothing"), _with(archive, "empty", "")):
        with pytest.raises(UsageError, match="no message"):
            corpus.build()
        assert list((tmp_path / "cache" / "corpus").iterdir()) == []


def _with(archive: Path, name: str, text: str) -> build.Corpus:
    (archive / name).write_text(text)
    return build.archive(archive)


@pytest.mark.program
def test_a_disk_that_becomes_full_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        monkeypatch.setenv("PGSTRATA_CACHE", str(small))
        with pytest.raises(ServerError, match="became full") as raised:
            replace(build.synthetic(build.Synthetic(2_000, 1)), size=0).build()  # it was large enough before
        assert "PGSTRATA_CACHE" in raised.value.hint
        assert list((small / "corpus").iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def test_giving_up_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path))
    corpus = build.synthetic(build.Synthetic(10_000, 1))

    def give_up() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corpus.build(check=give_up)
    assert list(corpus.folder.parent.iterdir()) == []
    with pytest.raises(ServerError, match="GiB free"):
        build.synthetic(build.Synthetic(100_000_000, 1, CorpusShape(shortest=19_000))).build()

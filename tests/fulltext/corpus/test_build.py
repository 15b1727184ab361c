"""Making a corpus of an archive: one that is not whole is refused unless it is asked for."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest

from pgstrata.errors import UsageError
from pgstrata.fulltext import corpus


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path / "cache"))


def _archive(folder: Path) -> bytes:
    """An mbox of thirty messages, packed; text that compresses badly, so that a cut loses only its end."""
    dice = random.Random(1)
    text = "".join(
        f"From a@b Thu Feb 11 18:27:14 2010\nSubject: {n}\n\n{''.join(dice.choices('abcdef ', k=20_000))}\n\n"
        for n in range(30)
    )
    return gzip.compress(text.encode())


def test_an_archive_that_breaks_off_is_refused_with_what_was_read(tmp_path: Path) -> None:
    folder = tmp_path / "mail"
    folder.mkdir()
    packed = _archive(folder)
    (folder / "whole.mbox.gz").write_bytes(packed)
    (folder / "cut.mbox.gz").write_bytes(packed[: len(packed) // 2])
    for _ in range(2):  # nothing of it is kept in the cache
        with pytest.raises(UsageError) as refused:
            corpus.archive(folder).build()
        assert "is not whole: 1 of its files break off" in refused.value.message
        assert "cut.mbox.gz" in refused.value.message
        assert " KiB, could be read" in refused.value.message
        assert 'damaged = "use"' in refused.value.hint
    about = corpus.archive(folder, damaged=True).build()
    assert 40 <= about["messages"] < 60
    assert about["counts"]["cut_files"] == 1
    # Also not from the cache, where it is now.
    with pytest.raises(UsageError, match="is not whole"):
        corpus.archive(folder).build()


def test_a_whole_archive_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "whole.mbox.gz"
    file.write_bytes(_archive(tmp_path))
    assert corpus.archive(file).build()["messages"] == 30


def test_a_fifo_in_an_archive_is_no_mail(tmp_path: Path) -> None:
    folder = tmp_path / "mail"
    folder.mkdir()
    os.mkfifo(folder / "a.fifo")
    (folder / "b.mbox").write_bytes(gzip.decompress(_archive(folder)))
    about = corpus.archive(folder).build()
    assert about["messages"] == 30
    assert about["counts"]["skipped_files"] == 1

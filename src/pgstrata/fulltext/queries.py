"""The queries: of a file, or made up from words of the corpus, frequent and rare ones.

A made-up query has one to five terms. A third of the queries has frequent terms only, a third rare ones
only, a third both; terms are joined by `&`, in one query of five by `|`.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pgstrata.errors import UsageError
from pgstrata.files.user_files import read_bytes
from pgstrata.fulltext.corpus import sources
from pgstrata.fulltext.corpus.mail import parse
from pgstrata.fulltext.corpus.synthetic import STEADY_ENDS, CorpusShape, vocabulary

SAMPLE = 3_000
"""Messages at the beginning of an archive whose words are counted."""

FREQUENT = 300
"""Ranks up to this one are frequent words."""

MOST_FILE_BYTES = 64 << 20
"""Of a file of queries: more than a million of them."""

_MOST_TERMS = 5
_WORD = re.compile(r"[a-z]{3,20}")


def from_file(path: Path, most: int) -> list[str]:
    """Returns one query for each line, empty lines left out. Raises UsageError if there are none.

    Whether a line is a tsquery is for the server to say: one that is not is recorded and the rest goes on.
    """
    text = read_bytes(path, "query file", most=MOST_FILE_BYTES).decode("utf-8", "replace").replace("\0", "")
    lines = [line for line in map(str.strip, text.split("\n")) if line][:most]
    if not lines:
        raise UsageError(f"the query file {path} has no queries", "write one tsquery a line: backup & !dump")
    return lines


def made_up(words: Sequence[str], count: int, seed: int) -> list[str]:
    """Returns made-up queries over these words. words: the most frequent ones first."""
    dice = random.Random(f"fulltext/{seed}")
    cut = min(FREQUENT, max(1, len(words) // 10))
    frequent, rare = words[:cut], words[cut:] or words
    queries = []
    for number in range(count):
        terms = _terms(dice, number % 3, frequent, rare)
        joined = " | " if dice.random() < 0.2 else " & "
        queries.append(joined.join(terms))
    return queries


def _terms(dice: random.Random, kind: int, frequent: Sequence[str], rare: Sequence[str]) -> list[str]:
    """Returns the terms of a query. kind: 0 frequent terms, 1 rare ones, 2 both in turn; different terms, as
    far as there are any."""
    pools = ([frequent], [rare], [frequent, rare])[kind]
    wanted = dice.randint(2 if kind == 2 else 1, _MOST_TERMS)
    terms: dict[str, None] = {}
    for index in range(wanted):
        terms.setdefault(dice.choice(pools[index % len(pools)]))
    return list(terms)


@lru_cache(maxsize=4)
def synthetic_words(seed: int) -> list[str]:
    """Returns the vocabulary of a synthetic corpus, frequent words first."""
    return vocabulary(CorpusShape().words, seed)


@lru_cache(maxsize=4)
def archive_words(path: Path, stamp: tuple[int, int], language: str) -> list[str]:
    """Returns words of the first messages of an archive, frequent words first.

    stamp: changes with the archive. Only words that come out of `language` as they went in: with `simple`
    every one, else those whose endings no stemmer takes for a suffix. Raises UsageError without any.
    """
    counts: Counter[str] = Counter()
    read: Counter[str] = Counter()
    for file in sources.files(path):
        for raw in sources.messages(file, read):
            mail = parse(raw, read)
            if mail is not None:
                counts.update(set(_WORD.findall(f"{mail.subject} {mail.body}".lower())))
            if read["messages"] >= SAMPLE:
                break
        if read["messages"] >= SAMPLE:
            break
    ends = "abcdefghijklmnopqrstuvwxyz" if language == "simple" else STEADY_ENDS
    words = [w for w, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if w[-1] in ends]
    if not words:
        raise UsageError(
            f"no words for queries were found in {path}",
            "is it a mail archive? Name a file of queries with the option `queries`",
        )
    return words


def stamp(path: Path) -> tuple[int, int]:
    """Returns the number of files and the time of the latest change in nanoseconds."""
    times = [file.stat().st_mtime_ns for file in sources.files(path)]
    return len(times), max(times, default=0)

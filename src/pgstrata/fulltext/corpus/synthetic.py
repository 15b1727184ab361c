"""A corpus that nobody wrote: words by Zipf's law, lengths with a heavy tail, threads. Same seed, same bytes.

The random numbers are the raw words of PCG64, whose stream NumPy promises never to change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

FIRST_DAY = "2000-01-01"
DAYS = 9_000
BATCH = 1_000
"""Messages made at a time."""

_TABLE_BITS = 20
_LINE_ENDS = 16
"""One token in so many is the end of a line."""

_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprstvz"
# No stemmer of PostgreSQL shortens an English-like word that ends in one of these.
STEADY_ENDS = "bkpxvz"


@dataclass(frozen=True)
class CorpusShape:
    """words: of the vocabulary; exponent: of Zipf's law; shortest: words of a body at least; tail: Pareto
    index of the lengths, longest: words at most; answers: share of messages that answer one before."""

    words: int = 50_000
    exponent: float = 1.05
    shortest: int = 200
    tail: float = 1.3
    longest: int = 20_000
    answers: float = 0.75


def vocabulary(n: int, seed: int) -> list[str]:
    """Returns n different words of 3, 5 or 7 letters, the most frequent first and shortest."""
    bits = np.random.PCG64(seed)
    words: dict[str, None] = {}
    while len(words) < n:
        syllables = 1 + int(len(words) >= 150) + int(len(words) >= 9_000)
        draws = [int(x) for x in bits.random_raw(2 * syllables + 1)]
        word = ""
        for i in range(syllables):
            word += _CONSONANTS[draws[2 * i] % len(_CONSONANTS)] + _VOWELS[draws[2 * i + 1] % len(_VOWELS)]
        words.setdefault(word + STEADY_ENDS[draws[-1] % len(STEADY_ENDS)])
    return list(words)


def token_table(words: list[str], exponent: float) -> Words:
    """Returns 2^20 tokens in the proportions of Zipf's law: a single look-up draws a word, or the end of a
    line.

    A token is eight bytes, the word with a space behind it and zeros, which are taken out of the text
    afterwards: that way text is made without touching single words in Python.
    """
    size = 1 << _TABLE_BITS
    weights = np.arange(1, len(words) + 1, dtype=np.float64) ** -exponent
    bounds = np.cumsum(weights) / weights.sum()
    ends = size // _LINE_ENDS
    points = (np.arange(size - ends) + 0.5) / (size - ends)
    tokens = np.frombuffer(b"".join((w + " ").encode().ljust(8, b"\0") for w in words), dtype="<u8")
    end = np.frombuffer(b"\\n".ljust(8, b"\0"), dtype="<u8")
    drawn = tokens[np.minimum(np.searchsorted(bounds, points), len(words) - 1)]
    return np.concatenate([drawn, np.repeat(end, ends)])


def rows(messages: int, seed: int, shape: CorpusShape = CorpusShape()) -> Iterator[bytes]:
    """Yields rows for COPY (corpus.rows.COLUMNS), a thousand at a time."""
    table = token_table(vocabulary(shape.words, seed), shape.exponent)
    bits = np.random.PCG64(seed + 1)
    first = int(np.datetime64(FIRST_DAY, "s").astype(np.int64))
    step = max(1, DAYS * 86_400 // max(1, messages))
    for begin in range(0, messages, BATCH):
        count = min(BATCH, messages - begin)
        sent = (first + (begin + np.arange(count)) * step).astype("datetime64[s]")
        times = [t.replace("T", " ") for t in np.datetime_as_string(sent).tolist()]
        yield _batch(begin, times, bits, table, shape)


def _batch(begin: int, times: list[str], bits: np.random.PCG64, table: Words, shape: CorpusShape) -> bytes:
    count = len(times)
    draws: Words = bits.random_raw(4 * count).reshape(4, count)
    uniform = (draws[0] >> np.uint64(11)).astype(np.float64) / float(1 << 53)
    # Pareto: shortest × u^(−1/tail)
    lengths = np.minimum(shape.longest, shape.shortest * (1.0 - uniform) ** (-1.0 / shape.tail))
    ends = np.cumsum(lengths.astype(np.int64))
    raw: Words = bits.random_raw(-(-int(ends[-1]) // 2))
    # One 64-bit draw makes two tokens.
    text = table[raw.view(np.uint32)[: int(ends[-1])] >> np.uint32(32 - _TABLE_BITS)]
    back, authors = (draws[1] >> np.uint64(32)).tolist(), (draws[2] % np.uint64(997)).tolist()
    answers = ((draws[3] >> np.uint64(11)).astype(np.float64) / float(1 << 53) < shape.answers).tolist()
    lines: list[bytes] = []
    at = 0
    for i, end in enumerate(ends.tolist()):
        number = begin + i
        # Answers go to recent messages, 1 … 64 back, so that threads stay together.
        parent = f"m{number - 1 - back[i] % min(64, number)}@synthetic" if answers[i] and number else "\\N"
        head = f"m{number}@synthetic\t{parent}\t{times[i]}+00\t"
        subject = (
            text[at : at + 3 + back[i] % 5].tobytes().translate(None, b"\0").replace(b"\\n", b"").rstrip()
        )
        author = f"\tauthor{authors[i]}@example.org\t"
        body = text[at:end].tobytes().translate(None, b"\0")
        lines += (head.encode(), subject, author.encode(), body, b"\n")
        at = end
    return b"".join(lines)

"""Rows of COPY made of numpy arrays: a column is a matrix of bytes, a row each, in which zeros are nothing.

Half a million rows take a second this way, and ten as many by Python's own formatting.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_ALPHANUMERIC = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_DIGITS = b"0123456789"


def _fixed(texts: npt.NDArray[np.bytes_]) -> Column:
    """Returns texts as a matrix of their bytes."""
    return np.ascontiguousarray(texts).view(np.uint8).reshape(len(texts), -1)


def constant(text: str, rows: int) -> Column:
    """Returns the same text for every row."""
    return np.broadcast_to(np.frombuffer(text.encode(), dtype=np.uint8), (rows, len(text)))


def integers(values: Numbers) -> Column:
    """Returns whole numbers from 0 on, as decimals."""
    width = len(str(int(values.max(initial=0))))
    return _fixed(values.astype(f"S{width}"))


def decimals(values: Numbers, places: int) -> Column:
    """Returns numbers that are given in units of the last of so many decimal places."""
    whole, rest = np.divmod(values, 10**places)
    padded = _fixed((rest + 10**places).astype(f"S{places + 1}"))[:, 1:]
    return np.hstack([integers(whole), constant(".", len(values)), padded])


def one_of(texts: Sequence[str], which: Numbers) -> Column:
    """Returns for every row the text of this number."""
    return _fixed(np.array([text.encode() for text in texts])[which])


def letters(
    draw: np.random.RandomState, rows: int, low: int, high: int, alphabet: bytes = _ALPHANUMERIC
) -> Column:
    """Returns random texts of uniform length from `low` to `high` (a-strings of clause 4.3.2.2)."""
    table = np.array([alphabet[byte % len(alphabet)] for byte in range(256)], dtype=np.uint8)
    drawn = np.frombuffer(draw.bytes(rows * high), dtype=np.uint8).reshape(rows, high)
    column: Column = table[drawn]
    if low < high:
        lengths = draw.randint(low, high + 1, size=rows)
        column[np.arange(high) >= lengths[:, None]] = 0
    return column


def digits(draw: np.random.RandomState, rows: int, length: int) -> Column:
    """Returns random texts of so many digits."""
    return letters(draw, rows, length, length, _DIGITS)


def with_word(draw: np.random.RandomState, column: Column, share: float, word: bytes = b"ORIGINAL") -> Column:
    """Returns the column with the word at a random place of this share of the rows, drawn exactly."""
    chosen = draw.permutation(len(column))[: round(share * len(column))]
    lengths = np.count_nonzero(column[chosen], axis=1)
    begins = (draw.random_sample(len(chosen)) * (lengths - len(word) + 1)).astype(np.int64)
    places = begins[:, None] + np.arange(len(word))
    column[chosen[:, None], places] = np.frombuffer(word, dtype=np.uint8)
    return column


def rows_text(columns: Sequence[Column]) -> bytes:
    """Returns rows in COPY's text format."""
    rows = len(columns[0])
    tab, newline = constant("\t", rows), constant("\n", rows)
    parts: list[Column] = []
    for column in columns:
        parts += [column, tab]
    whole: npt.NDArray[np.uint8] = np.hstack([*parts[:-1], newline]).ravel()
    return bytes(whole[whole != 0])


__all__ = [
    "Column",
    "Numbers",
    "constant",
    "decimals",
    "digits",
    "integers",
    "letters",
    "one_of",
    "rows_text",
    "with_word",
]

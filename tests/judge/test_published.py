"""Published ratios against verdicts: what agrees, which versions stand for each other, and damaged files."""

from __future__ import annotations

import csv
import io
import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.judge.published import COLUMNS, Published, Rounded, agreement, read_published, same_version
from pgstrata.stats.verdict import Verdict, Word

ROOT = Path(__file__).parents[2]
ratios = st.floats(0.01, 100)


def verdict(low: float, high: float, word: Word = "unclear") -> Verdict:
    return Verdict(word, math.sqrt(low * high) if low else 1.0, low, high, 0.02, 0.95, 9, 0.5, None, "")


def exact(value: float) -> Rounded:
    return Rounded(value, value, value)


def written(*rows: dict[str, object]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


ROW: dict[str, object] = {
    "study": "s",
    "source": "a table",
    "date": "2026-04-30",
    "step": "scan",
    "clients": 40,
    "base": "12.22",
    "version": "18.2",
    "ratio": "0.97",
}


def read(text: str) -> list[Published]:
    with tempfile.TemporaryDirectory() as folder:
        (file := Path(folder) / "published.csv").write_text(text)
        return read_published(file)


@given(ratios, ratios, ratios)
def test_inside_means_inside(a: float, b: float, value: float) -> None:
    low, high = sorted((a, b))
    assert (agreement(exact(value), verdict(low, high)) == "inside") == (low <= value <= high)


@given(ratios, st.floats(0, 0.05))
def test_digits_that_were_not_published_are_left_open(value: float, half: float) -> None:
    assume(value > half)
    assert (
        agreement(Rounded(value, value - half, value + half), verdict(value + half, value + half)) == "inside"
    )


@pytest.mark.parametrize(
    ("value", "low", "high", "word", "expected"),
    [
        (0.60, 0.94, 0.96, "slower", "same direction"),
        (2.50, 0.94, 0.96, "slower", "not"),
        (1.00, 0.94, 0.96, "slower", "not"),
        (2.50, 1.90, 1.95, "faster", "same direction"),
        (1.01, 0.99, 1.005, "same", "same direction"),
        (1.10, 0.99, 1.005, "same", "not"),
        (1.10, 0.90, 1.05, "unclear", "not"),
        (1.04, 0.90, 1.05, "unclear", "inside"),
        (1.00, 0.0, math.inf, "unclear", "open"),
    ],
)
def test_agreement(value: float, low: float, high: float, word: Word, expected: str) -> None:
    assert agreement(exact(value), verdict(low, high, word)) == expected


def test_a_disturbed_step_tells_nothing() -> None:
    assert agreement(exact(0.95), replace(verdict(0.94, 0.96), aside=True)) == "open"


def test_versions_that_stand_for_each_other() -> None:
    assert same_version("17.6", ["17.6", "18.0"], ["17.6", "17.11"]) == ["17.6"]
    assert same_version("17.6", ["17.6", "18.0"], ["17.11", "18.6"]) == ["17.11"]
    assert same_version("17.6", ["17.5", "17.6"], ["17.11"]) == []
    assert same_version("17.6", ["17.6"], ["17.10", "17.11"]) == []
    assert same_version("18beta1", ["17.5", "18beta1"], ["18.6"]) == ["18.6"]
    assert same_version("9.6.24", ["9.5.25", "9.6.24"], ["9.5.1", "9.6.1"]) == ["9.6.1"]


@given(
    st.text(
        st.characters(categories=["L", "N", "P", "Zs"], exclude_characters="\x85\u2028"),
        min_size=1,
        max_size=50,
    ),
    st.decimals("0.01", 1000, places=2),
    st.none() | st.integers(1, 999_999),
)
def test_what_is_written_is_read(text: str, ratio: object, clients: int | None) -> None:
    assume(text.isprintable())
    (entry,) = read(written({**ROW, "source": text, "ratio": str(ratio), "clients": clients or ""}))
    assert entry.source == text and entry.clients == clients
    assert entry.ratio.value == float(str(ratio))
    assert entry.ratio.high - entry.ratio.low == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ratio": "0.00"}, "0.00 is not a ratio"),
        ({"ratio": "nan"}, "nan is not a ratio"),
        ({"ratio": "-1.0"}, "-1.0 is not a ratio"),
        ({"version": "MySQL 8"}, "MySQL 8 is not a version"),
        ({"date": "April"}, "April is not a date"),
        ({"clients": "0"}, "0 is not a number of clients"),
        ({"source": ""}, "source is empty"),
        ({"step": "a\x1b[0m"}, "a text that cannot be shown"),
    ],
)
def test_a_wrong_row_is_named(change: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=f"line 3: .*{re.escape(says)}") as error:
        read(written(ROW, {**ROW, **change}))
    assert error.value.hint.startswith("write: study,source")


def test_other_files_are_refused() -> None:
    for text in ("", "a,b\n1,2\n", written(ROW).replace("scan", '"scan')):
        with pytest.raises(UsageError):
            read(text)


def test_the_file_that_comes_with_pgstrata() -> None:
    """Every study is a campaign beside it, all but one have ratios, and each row names its source."""
    folder = ROOT / "campaigns/published"
    rows = read_published(folder / "published.csv")
    campaigns = {file.stem for file in folder.glob("*.toml")}
    assert campaigns - {row.study for row in rows} == {"sb-scaleup-48core"}  # ratios of clients, not versions
    assert campaigns >= {row.study for row in rows}
    assert len({(r.study, r.step, r.base, r.version) for r in rows}) == len(rows) > 1000
    assert all(row.source.startswith("mdcallag/mytools bench/arc/") for row in rows)

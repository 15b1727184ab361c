"""How numbers are written."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (48213.7, "48,214"),
        (1234567.0, "1,234,567"),
        (0.8724, "0.872"),
        (0.99951, "1.00"),
        (1.0449, "1.04"),
        (12.34, "12.3"),
        (999.6, "1,000"),
        (0.000253, "2.53e-4"),
        (0.0, "0"),
        (-0.5, "-0.500"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
    ],
)
def test_three_significant_digits(value: float | None, text: str) -> None:
    assert numbers.significant(value) == text


@given(st.floats(min_value=1e-12, max_value=1e15))
def test_what_is_written_is_within_half_a_unit_of_the_third_digit(value: float) -> None:
    written = float(numbers.significant(value).replace(",", ""))
    assert written == pytest.approx(value, rel=0.0051)


@given(st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True))
def test_a_share_that_is_there_never_looks_like_none_or_all(share: float) -> None:
    assert numbers.percent(share) not in ("0", "100", "0.000", "100.000")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90s", 90.0), ("10m", 600.0), ("10 min", 600.0), (" 1.5h ", 5400.0), ("0s", 0.0)),
        *((text, None) for text in ("", "10", "m", "-1m", "1d", "1e3s", "10m5s", "9999999s", "١m")),
    ],
)
def test_a_time_has_a_unit(text: str, seconds: float | None) -> None:
    assert numbers.parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("3%", 0.03),
        (" 0.5 % ", 0.005),
        ("0.03", 0.03),
        (".5", 0.5),
        ("3", None),
        ("0%", None),
        ("3 %%", None),
    ],
)
def test_a_share_is_read_as_people_write_it(text: str, share: float | None) -> None:
    assert numbers.parse_share(text) == (None if share is None else pytest.approx(share))


def test_shares_of_nothing_and_everything() -> None:
    assert numbers.percent(0.0) == "0"
    assert numbers.percent(1.0) == "100"
    assert numbers.percent(0.12553) == "12.553"


@given(st.integers(min_value=0, max_value=2**60))
def test_sizes_have_a_unit_and_few_digits(size: int) -> None:
    assert re.fullmatch(r"[\d,]+(\.\d+)? (B|KiB|MiB|GiB|TiB)", numbers.size(size))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.500 s"), (60, "60.0 s"), (200, "3 min 20 s"), (180, "3 min"), (7500, "2 h 5 min"), (None, "–")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert numbers.duration(seconds) == text


def test_moments_are_utc_and_strangers_stay_as_they_are() -> None:
    assert numbers.moment("2026-01-31T13:05:00+02:00") == "2026-01-31 11:05 UTC"
    assert numbers.moment("yesterday") == "yesterday"
    assert numbers.moment(None) == "–"


def test_counts_agree_with_their_nouns() -> None:
    assert [numbers.counted(n, "round") for n in (0, 1, 2, 1200)] == [
        "0 rounds",
        "1 round",
        "2 rounds",
        "1,200 rounds",
    ]
    assert numbers.counted(2, "query", "queries") == "2 queries"
    assert numbers.counted(1, "query", "queries") == "1 query"
    assert [numbers.plural("CPU", n) for n in (1, 3)] == ["CPU", "CPUs"]
    assert [numbers.agreeing(n, "is", "are") for n in (0, 1, 3)] == ["are", "is", "are"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0"), (6.2e-7, "<0.001"), (1.5e-5, "0.0015"), (0.00404, "0.40"), (0.12345, "12"), (1.0, "100")],
)
def test_shares_are_no_powers_of_ten(share: float, text: str) -> None:
    assert numbers.share_of_time(share, 2) == text
    assert numbers.share_of_time(None) == numbers.UNKNOWN


def test_no_message_makes_its_plural_by_itself() -> None:
    """`1 round are too few` came of a rule of its own beside the helper."""
    source = Path(numbers.__file__).parent
    pattern = re.compile(r"""['"]s['"] (?:\* \(|if )|if \w+ == 1 else \w*['"]\w+s['"]""")
    places = [
        f"{path.relative_to(source)}:{number}"
        for path in source.rglob("*.py")
        if path.name != "numbers.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not places


def test_no_note_on_traffic_counts_one_as_many() -> None:
    """`1 transactions are open`: what is counted by `{n:,} nouns` has no singular."""
    source = Path(numbers.__file__).parent / "traffic"
    counted = re.compile(r"\{(?!_?[A-Z])[^{}\"]+:,\} [a-z]+s\b")
    places = [
        f"{path.relative_to(source)}:{number}"
        for path in source.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if counted.search(line)
    ]
    assert not places


SEVERAL = {
    "search/bisect/text.py: changes are suspected, each with 95 % probability in: ",
    "search/commands/bisect.py: are ",
    "api.py: statements have no single answer",
    "search/patch/series.py: commits, at most ",
    "stats/verdict.py: pairs are not enough for an interval",
    "stats/noise.py: pairs are not enough to know the noise",
}
"""Texts behind a count that is never 1 there."""


def test_no_verb_is_of_many_whatever_the_number() -> None:
    """`hba_file, ident_file: it names a place`, `1 of 2 runs are there`: a verb behind a count or a list in
    a text has one number only, where the number of the other is not asked for."""
    source = Path(numbers.__file__).parent
    places = {
        f"{path.relative_to(source)}:{text}"
        for path in source.rglob("*.py")
        for text in _behind_counts(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not {place for place in places if not place.startswith(tuple(SEVERAL))}


def _behind_counts(tree: ast.Module) -> Iterator[str]:
    """The texts with a verb for many that stand behind a count, or right behind a list of names."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in itertools.pairwise([*node.values, ast.Constant("")]):
            if not isinstance(value, ast.FormattedValue) or not isinstance(behind, ast.Constant):
                continue
            shown, text = ast.unparse(value.value), str(behind.value)
            is_count = shown.startswith(("len(", "sum(")) and _OF_MANY.match(re.split("[.;:,]", text)[0])
            if is_count or (".join(" in shown and re.match(f" {_VERBS}", text)):
                yield text


_VERBS = r"(?:are|were|have|differ|take|begin|lack|need|fail)\b"
_OF_MANY = re.compile(rf" .*\b{_VERBS}")

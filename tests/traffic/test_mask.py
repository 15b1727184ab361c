"""Masked values: of the same type and length, equal where they were, and nothing like what they were."""

from __future__ import annotations

import json
import re
from datetime import date, datetime, timedelta
from string import ascii_uppercase
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.traffic.mask import Mask

VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)


@given(VALUES)
def test_as_long_and_the_same_for_the_same(value: str) -> None:
    mask = Mask()
    masked = mask(value)
    assert len(masked) == len(value) and mask(value) == masked
    assert len(masked.encode()) == len(value.encode())
    assert Mask(b"k" * 32)(value) == Mask(b"k" * 32)(value)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_whole_numbers_stay_in_their_type(value: int) -> None:
    masked = Mask()(str(value))
    assert re.fullmatch(r"-?[0-9]+", masked) and len(masked) == len(str(value))
    assert (int(masked) < 0) == (value < 0)
    for bits in (15, 31, 63):
        if abs(value) < 2**bits:
            assert abs(int(masked)) < max(2**bits, 10 ** len(str(abs(value))) if bits == 15 else 2**bits)
            break


@given(st.integers(-(2**31) + 1, 2**31 - 1))
def test_what_fits_into_an_integer_still_does(value: int) -> None:
    assert abs(int(Mask()(str(value)))) < 2**31


@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 28)))
def test_times_stay_times(value: datetime) -> None:
    for text in (str(value), value.isoformat(), str(value.date()), f"{value.replace(microsecond=0)}+02"):
        masked = Mask()(text)
        assert datetime.fromisoformat(masked).year == value.year, (text, masked)


@given(st.uuids())
def test_uuids_stay_uuids(value: UUID) -> None:
    masked = Mask()(str(value))
    assert UUID(masked) != value


@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        st.text(max_size=20).filter(lambda text: "\x00" not in text)
        | st.integers(0, 10**6)
        | st.booleans()
        | st.none(),
        min_size=1,
    )
)
def test_documents_keep_their_form_and_keys(value: dict[str, object]) -> None:
    masked = json.loads(Mask()(json.dumps(value)))
    assert list(masked) == list(value)
    assert [type(part) for part in masked.values()] == [type(part) for part in value.values()]


@pytest.mark.parametrize(
    "values",
    [
        [str(number) for number in range(12_000)],
        [f"{first}{second}" for first in ascii_uppercase for second in ascii_uppercase],
        [str(date(2024, 1, 1) + timedelta(n)) for n in range(366)],
        [f"{date(2023, 1, 1) + timedelta(n):%Y%m%d}" for n in range(365)],
        [f"10.0.{n // 250}.{n % 250}" for n in range(1000)],
        [f"{n / 100:.2f}" for n in range(1000)],
    ],
    ids=["numbers", "letters", "days", "days as numbers", "addresses", "fractions"],
)
def test_what_was_unique_still_is(values: list[str]) -> None:
    mask = Mask()
    masked = [mask(value) for value in values]
    assert len(set(masked)) == len(values) and masked != values


def test_nothing_is_left_of_what_a_value_said() -> None:
    mask = Mask()
    for value in (
        "Frederike Müller",
        "frederike@example.com",
        "+49 30 1234567",
        "日本語の名前",
        "Жанна",
        "(12.5,7.25)",
    ):
        masked = mask(value)
        same = sum(a == b for a, b in zip(masked, value, strict=True) if a.isalnum())
        assert same < max(3, len(value) // 2), (value, masked)
    assert mask("true") == "true" and mask("NULL") == "NULL" and mask("0") == "0"
    assert mask("\\xdeadbeef").startswith("\\x") and mask("\\xdeadbeef") != "\\xdeadbeef"


def test_masks_of_two_files_differ() -> None:
    assert Mask()("Frederike Amalie") != Mask()("Frederike Amalie")

"""Values are drawn as the column has them: how often, between what, and how often none."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pgstrata.traffic.synthetic.draw import Distribution, FreshKeys, UnknownValuesError, longest
from pgstrata.traffic.synthetic.statistics import KnownColumn

DRAWS = 1000

words = some.text("abcdefgh,'\"\\% _é", min_size=1, max_size=12)
seeds = some.integers(0, 2**32)


def column(type: str = "text", **known: object) -> KnownColumn:
    return KnownColumn("public", "t", "c", type, rows=1000.0, analyzed=True, **known)  # type: ignore[arg-type]


@some.composite
def common(draw: some.DrawFn) -> tuple[tuple[str, float], ...]:
    values = draw(some.lists(words, min_size=1, max_size=8, unique=True))
    parts = [draw(some.integers(1, 100)) for _ in values]
    whole = sum(parts) * draw(some.floats(1.0, 3.0))
    return tuple((value, part / whole) for value, part in zip(values, parts, strict=True))


def near(seen: int, share: float) -> bool:
    """Within six standard deviations of a binomial, which one test in 500 million is not."""
    return bool(abs(seen - DRAWS * share) <= 6 * (DRAWS * share * (1 - share)) ** 0.5 + 1)


@given(common(), some.floats(0, 0.9), seeds)
def test_common_values_come_as_often_as_rows_have_them(
    values: tuple[tuple[str, float], ...], nulls: float, seed: int
) -> None:
    """Shares are those of all rows, the ones with NULL included."""
    shares = tuple((value, share * (1 - nulls)) for value, share in values)
    bounds = ("low", "middle", "top")
    whole = sum(share for _, share in shares)
    distribution = Distribution(column(common=shares, bounds=bounds, null_share=nulls))
    dice = Random(seed)
    drawn = [distribution.value(dice) for _ in range(DRAWS)]
    assert near(drawn.count(None), nulls)
    for value, share in shares:
        if value not in bounds:
            assert near(drawn.count(value), share)
    others = sum(value in bounds for value in drawn if value not in dict(shares))
    assert near(others, max(0.0, 1 - nulls - whole))
    assert set(drawn) <= {None, *dict(shares), *bounds}


numbers = some.lists(some.integers(-(2**62), 2**62), min_size=2, max_size=20, unique=True).map(sorted)


@given(numbers, some.floats(0, 1), some.floats(0, 1), seeds)
def test_numbers_lie_between_the_bounds(known: list[int], share: float, other: float, seed: int) -> None:
    dense = column("bigint", bounds=tuple(map(str, known)), distinct=float(known[-1] - known[0] + 1))
    sparse = column("bigint", bounds=tuple(map(str, known)), distinct=float(len(known)))
    dice = Random(seed)
    for _ in range(50):
        assert known[0] <= int(Distribution(dense).equal(dice)) <= known[-1]
    if known[-1] - known[0] > 4 * len(known):
        # What is mostly not there is not drawn.
        assert all(int(Distribution(sparse).equal(dice)) in known for _ in range(50))
    low, high = sorted((share, other))
    distribution = Distribution(sparse)
    assert known[0] <= int(distribution.at(low)) <= int(distribution.at(high)) <= known[-1]
    assert int(distribution.at(0.0)) == known[0]


@given(numbers, seeds)
def test_as_many_fall_between_two_bounds_as_between_others(known: list[int], seed: int) -> None:
    distribution = Distribution(
        column("bigint", bounds=tuple(map(str, known)), distinct=float(known[-1] - known[0] + 1))
    )
    dice = Random(seed)
    drawn = sorted(int(distribution.at(dice.random())) for _ in range(DRAWS))
    for low, high in pairwise(known):
        # A bound belongs to the stretch on either side of it.
        inside = (high - low - 1) / (high - low + 1)
        assert near(sum(low < value < high for value in drawn), inside / (len(known) - 1))


@given(
    some.lists(
        some.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), min_size=2, max_size=9, unique=True
    ).map(sorted),
    some.floats(0, 1),
)
def test_times_and_dates_are_of_their_type(known: list[datetime], share: float) -> None:
    moments = tuple(f"{moment.isoformat(' ')}+00" for moment in known)
    drawn = Distribution(column("timestamp(6) with time zone", bounds=moments)).at(share)
    assert drawn.endswith("+00")
    assert known[0] <= datetime.fromisoformat(drawn.removesuffix("+00")) <= known[-1]
    days = tuple(moment.date().isoformat() for moment in known)
    assert known[0].date() <= date.fromisoformat(Distribution(column("date", bounds=days)).at(share))
    assert date.fromisoformat(Distribution(column("date", bounds=days)).at(share)) <= known[-1].date()


@given(
    some.lists(some.decimals(-(10**9), 10**9, places=4), min_size=2, max_size=9, unique=True).map(sorted),
    some.floats(0, 1),
)
def test_fractions_have_as_many_digits_as_the_column(known: list[Decimal], share: float) -> None:
    drawn = Distribution(column("numeric(14,4)", bounds=tuple(map(str, known)))).at(share)
    assert known[0] <= Decimal(drawn) <= known[-1]
    assert len(drawn.partition(".")[2]) <= 4


@pytest.mark.parametrize("strange", ["infinity", "0044-03-15 00:00:00+00 BC", "tomorrow"])
def test_what_has_no_place_among_times_is_drawn_as_it_is(strange: str) -> None:
    known = (strange, "2024-01-01 00:00:00+00")
    distribution = Distribution(column("timestamp with time zone", bounds=known))
    assert {distribution.equal(Random(seed)) for seed in range(50)} == set(known)
    assert distribution.at(0.9) in known


def test_a_column_of_which_nothing_is_known() -> None:
    with pytest.raises(UnknownValuesError):
        Distribution(column("jsonb"))
    assert Distribution(column("boolean")).equal(Random(1)) in "tf"
    assert Distribution(column("state", labels=("open", "paid"))).equal(Random(1)) in ("open", "paid")


@pytest.mark.parametrize(
    ("type_", "known"),
    [
        ("integer", ("1", "77")),
        ("smallint", ("1", "32000")),
        ("bigint", (str(2**63 - 10),)),
        ("numeric", ("7", "NaN")),
        ("uuid", ()),
        ("text", ("some", "names")),
        ("character varying(12)", ("some", "names")),
        ("character varying(200)", ()),
    ],
)
def test_new_keys_are_new(type_: str, known: tuple[str, ...]) -> None:
    keys = FreshKeys(column(type_, bounds=known))
    dice = Random(3)
    number = 4 if "63" in str(known) or known == (str(2**63 - 10),) else 100
    values = [keys.value(dice) for _ in range(number)]
    assert len(set(values)) == number and not set(values) & set(known)
    if type_ in ("integer", "smallint", "bigint"):
        assert min(map(int, values)) > max(map(int, known))
        assert max(map(int, values)) < {"integer": 2**31, "smallint": 2**15, "bigint": 2**63}[type_]
    limit = longest(type_)
    assert limit is None or max(map(len, values)) <= limit
    with pytest.raises(UnknownValuesError):
        FreshKeys(column("point"))


@given(some.lists(words, min_size=1, max_size=30, unique=True), some.floats(0, 1), seeds)
def test_a_beginning_is_had_by_no_more_than_it_is_to_be(known: list[str], share: float, seed: int) -> None:
    distribution = Distribution(column(bounds=(*sorted(known), "~", "~~")))
    value = distribution.equal(Random(seed))
    begin = distribution.beginning(value, share)
    assert begin and value.startswith(begin)
    bounds = distribution.column.bounds
    having = sum(bound.startswith(begin) for bound in bounds) / len(bounds)
    assert begin == value or having <= max(share, 1.01 / len(bounds))


def test_selectivity_is_that_of_a_row_s_own_value() -> None:
    """Half of the rows have one value, the others one each of fifty."""
    bounds = tuple(map(str, range(1, 52)))
    mixed_column = column("integer", common=(("0", 0.5),), bounds=bounds, distinct=51.0)
    assert Distribution(mixed_column).selectivity() == pytest.approx(0.25 + 0.25 / 50)

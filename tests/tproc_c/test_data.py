"""Rows and random numbers by the rules of the specification, and options that are refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pgstrata.tproc_c import schema
from pgstrata.tproc_c.data import Rows
from pgstrata.tproc_c.options import TprocCOptions
from pgstrata.tproc_c.rules import (
    CUSTOMER,
    ITEM,
    NAME_ASKED,
    NAME_LOADED,
    SIZES,
    WEIGHTS,
    NonUniform,
    last_name,
)
from pgstrata.tproc_c.text import decimals, integers, letters, rows_text, with_word

pytestmark = pytest.mark.usefixtures("own_cache")

TINY = SIZES["tiny"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    """The rows of a tiny warehouse and of the items, by table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGSTRATA_CACHE", str(tmp_path_factory.mktemp("rows")))
        tiny_rows = Rows(1, TINY)
        tiny_rows.make(1, lambda: None)
        files = {table: tiny_rows.file(table, int(table != "item")) for table in schema.TABLES}
        texts = {table: file.read_text().splitlines() for table, file in files.items()}
    return {table: [line.split("\t") for line in lines] for table, lines in texts.items()}


@given(st.integers(0, 8191), st.integers(1, 100_000), st.sampled_from([NAME_LOADED, NAME_ASKED, ITEM]))
def test_a_number_lies_within_its_bounds_and_is_that_of_the_formula(
    draw_a: int, draw: int, which: NonUniform
) -> None:
    low, high = 1, 100_000
    number = which.of(draw_a % (which.a + 1), draw, low, high)
    assert low <= number <= high
    assert number == (((draw_a % (which.a + 1)) | draw) + which.constant) % (high - low + 1) + low


def test_the_constants_are_those_that_the_specification_allows() -> None:
    assert (NAME_LOADED.a, CUSTOMER.a, ITEM.a) == (255, 1023, 8191)
    assert all(0 <= formula.constant <= formula.a for formula in (NAME_LOADED, NAME_ASKED, CUSTOMER, ITEM))
    apart = abs(NAME_LOADED.constant - NAME_ASKED.constant)
    assert 65 <= apart <= 119 and apart not in (96, 112)
    assert list(WEIGHTS.values()) == [10, 10, 1, 1, 1]
    shares = {kind: weight / sum(WEIGHTS.values()) for kind, weight in WEIGHTS.items()}
    assert shares["payment"] >= 0.43 and min(shares.values()) >= 0.04


@given(st.integers(0, 999))
def test_a_last_name_has_a_syllable_for_each_digit(number: int) -> None:
    rest = last_name(number)
    for digit in f"{number:03}":
        syllable = last_name(int(digit) * 111)
        syllable = syllable[: len(syllable) // 3]
        assert rest.startswith(syllable)
        rest = rest.removeprefix(syllable)
    assert not rest
    assert last_name(371) == "PRICALLYOUGHT"


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20), st.integers(1, 4))
def test_decimals_are_written_as_decimal_numbers(values: list[int], places: int) -> None:
    written = rows_text([integers(np.array(values)), decimals(np.array(values), places)])
    for value, line in zip(values, written.decode().splitlines(), strict=True):
        whole, decimal = line.split("\t")
        assert int(whole) == value
        assert decimal == f"{value // 10**places}.{value % 10**places:0{places}}"


@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(8, 40), st.integers(0, 20))
def test_texts_have_their_lengths_and_a_share_of_them_the_word(
    seed: int, rows: int, low: int, more: int
) -> None:
    draw = np.random.RandomState(seed)
    column = letters(draw, rows, low, low + more)
    before = [len(line) for line in rows_text([column]).decode().splitlines()]
    after = rows_text([with_word(draw, column, 0.1)]).decode().splitlines()
    assert all(low <= length <= low + more for length in before)
    assert [len(line) for line in after] == before
    assert sum("ORIGINAL" in line for line in after) == round(rows / 10)
    assert all(line.isalnum() for line in after)


def test_the_tables_have_the_rows_that_belong_together(rows: dict[str, list[list[str]]]) -> None:
    counts = {table: len(lines) for table, lines in rows.items()}
    lines = counts.pop("order_line")
    assert counts == {
        "item": 1000, "warehouse": 1, "district": 10, "customer": 1000, "history": 1000, "stock": 1000,
        "orders": 1000, "new_order": 300,
    }  # fmt: skip
    assert all(len(line) == columns(table) for table, table_lines in rows.items() for line in table_lines)
    assert sum(int(order[6]) for order in rows["orders"]) == lines
    assert {int(order[6]) for order in rows["orders"]} == set(range(5, 16))
    # Every customer has one order, in another order of them in each district.
    ordered = [[int(o[3]) for o in rows["orders"] if o[1] == str(d)] for d in (1, 2)]
    assert sorted(ordered[0]) == sorted(ordered[1]) == list(range(1, 101)) and ordered[0] != ordered[1]
    waiting = {(o[1], o[2]) for o in rows["orders"] if o[5] == "\\N"}
    assert waiting == {(n[1], n[2]) for n in rows["new_order"]}
    assert all((line[6] == "\\N") == ((line[1], line[2]) in waiting) for line in rows["order_line"])
    assert all((line[8] == "0.00") == (line[6] != "\\N") for line in rows["order_line"])


def columns(table: str) -> int:
    return schema.COLUMNS[table].replace("numeric(", "").count(", ") + 1


def test_shares_and_ranges_are_those_of_the_specification(rows: dict[str, list[list[str]]]) -> None:
    for table in ("item", "stock"):
        assert sum("ORIGINAL" in line[-1] for line in rows[table]) == 100
        assert {len(line[-1]) for line in rows[table]} == set(range(26, 51))
    assert {line[3] for line in rows["item"]} <= {f"{c // 100}.{c % 100:02}" for c in range(100, 10_001)}
    assert {len(line[2]) for line in rows["item"]} == set(range(14, 25))
    customers = rows["customer"]
    assert Counter(line[13] for line in customers) == {"GC": 900, "BC": 100}
    assert {len(line[-1]) for line in customers} <= set(range(300, 501))
    assert {line[5] for line in customers} == {last_name(n) for n in range(100)}
    assert {(line[4], line[14], line[16], line[17]) for line in customers} == {
        ("OE", "50000.00", "-10.00", "10.00")
    }
    assert all(line[10].endswith("11111") and len(line[10]) == 9 for line in customers)
    assert {int(line[2]) for line in rows["stock"]} <= set(range(10, 101))
    assert all(len(text) == 24 for line in rows["stock"] for text in line[3:13])
    assert rows["warehouse"][0][-1] == "10000.00" and {d[-2] for d in rows["district"]} == {"1000.00"}


def test_the_same_seed_makes_the_same_rows_however_many_warehouses_there_are() -> None:
    def text(seed: int, warehouses: int) -> str:
        rows = Rows(seed, TINY)
        rows.make(warehouses, lambda: None)
        return rows.file("customer", warehouses).read_text()

    two = text(1, 2)
    assert text(1, 3) != two == text(1, 2) != text(2, 2)
    # Written down: another numpy must not make others.
    assert two.startswith("2\t1\t1\t")
    assert two.split("\t")[3] == "uFzgfP4hH"


def test_making_them_ends_when_it_is_asked_to_and_leaves_nothing() -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 6:
            raise KeyboardInterrupt

    rows = Rows(1, TINY)
    with pytest.raises(KeyboardInterrupt):
        rows.make(2, check)
    left = {path.name for path in rows.folder(0).parent.iterdir()}
    assert left <= {rows.folder(0).name} and not rows.folder(1).exists()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"warehouses": 0}, "greater than or equal to 1"),
        ({"warehouses": [2, 2]}, "warehouses names one of 2, 2 twice"),
        ({"clients": "1 1"}, "clients"),
        ({"transactions": "new-orders"}, "new-order"),
        ({"transactions": []}, "at least 1 item"),
        ({"code": "procedures"}, "functions"),
        ({"size": "small"}, "tiny"),
        ({"seed": -1}, "greater than or equal to 0"),
    ],
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        TprocCOptions.model_validate(wrong)


def test_a_seed_of_any_size_has_its_own_rows(tmp_path: Path) -> None:
    assert len({Rows(seed, TINY).folder(1) for seed in (1, 2, 2**32 + 1, 2**53 - 1)}) == 4

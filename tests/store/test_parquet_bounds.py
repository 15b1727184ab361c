"""Parquet files that unpack to more than they may, or claim what is not there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pgstrata.errors import StoreError
from pgstrata.files.bounded import BoundError
from pgstrata.store import Results, parquet_bounds, tables
from pgstrata.store.parquet import to_bytes
from pgstrata.store.parquet_bounds import check
from support.parquet_files import write_parquet
from support.runs import make_campaign

MANY = "SELECT 1.5::DOUBLE AS second FROM range(21_000_000)"
"""A value that takes little room however often it is there."""


def test_every_table_of_results_is_within_the_bounds(tmp_path: Path) -> None:
    make_campaign(tmp_path / "results", seconds=2)
    for file in (tmp_path / "results").rglob("*.parquet"):
        check(file)
    for name in tables.TABLES:
        (tmp_path / "empty").write_bytes(to_bytes(name, []))
        check(tmp_path / "empty")


@pytest.mark.long
def test_a_text_that_unpacks_to_more_is_refused(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a", "SELECT repeat('x', 500 << 20) AS a")
    assert file.stat().st_size < 1 << 20
    with pytest.raises(BoundError, match="unpacked it has more than 400 MiB"):
        check(file)


def test_a_value_that_is_repeated_too_often_is_refused(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a", MANY)
    with pytest.raises(BoundError, match="more than 20,000,000 values"):
        check(file)


def test_types_and_encodings_that_grow_are_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "uuid", "SELECT uuid() AS a FROM range(1000)")
    with pytest.raises(BoundError, match="of a type that no table of results has"):
        check(tmp_path / "uuid")


def test_many_pages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_bounds, "MOST_PAGES", 1)
    with pytest.raises(BoundError, match="more than 1 pages"):
        check(write_parquet(tmp_path / "a", "SELECT 1 AS a, 2 AS b"))


def test_the_file_is_named_where_a_table_is_read(tmp_path: Path) -> None:
    make_campaign(tmp_path / "results", seconds=2)
    run = next(iter(Results(tmp_path / "results").runs()))
    write_parquet(run.folder / "series.parquet", MANY)
    with pytest.raises(StoreError, match=r"series\.parquet cannot be read: it has more than"):
        run.table("series")


@pytest.mark.long
def test_damage_is_one_error(tmp_path: Path) -> None:
    make_campaign(tmp_path / "results", seconds=2)
    sound = next((tmp_path / "results").rglob("series.parquet")).read_bytes()
    file = tmp_path / "damaged"
    refused = 0
    for number in range(500):
        dice = random.Random(f"parquet/{number}")
        data = bytearray(sound)
        # Most of a small file is its description.
        for _ in range(dice.choice((1, 3, 20))):
            data[dice.randrange(4, len(data))] = dice.randrange(256)
        file.write_bytes(data)
        try:
            check(file)
        except BoundError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 100

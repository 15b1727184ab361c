"""Parquet files that unpack to more than they may, or claim what is not there."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import polars as pl
import pytest

from pgstrata.errors import StoreError
from pgstrata.files.bounded import BoundError
from pgstrata.store import Results, parquet_bounds, tables
from pgstrata.store.parquet_bounds import check
from support.runs import make_campaign


def written(path: Path, table: pl.DataFrame) -> Path:
    table.write_parquet(path, compression="zstd")
    return path


def test_every_table_of_results_is_within_the_bounds(tmp_path: Path) -> None:
    make_campaign(tmp_path / "results", seconds=2)
    for file in (tmp_path / "results").rglob("*.parquet"):
        check(file)
    for name in tables.TABLES:
        (tmp_path / "empty").write_bytes(tables.parquet(tables.empty(name)))
        check(tmp_path / "empty")


@pytest.mark.long
def test_a_text_that_unpacks_to_more_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "a", pl.DataFrame({"a": ["x" * (500 << 20)]}))
    assert file.stat().st_size < 1 << 20
    with pytest.raises(BoundError, match="unpacked it has more than 400 MiB"):
        check(file)


def test_a_value_that_is_repeated_too_often_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "a", pl.select(a=pl.repeat(1.5, 21_000_000)))
    with pytest.raises(BoundError, match="more than 20,000,000 values"):
        check(file)


def test_types_and_encodings_that_grow_are_refused(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT uuid() AS a FROM range(1000)) TO '{tmp_path}/uuid' (FORMAT parquet)"
        )
    with pytest.raises(BoundError, match="of a type that no table of results has"):
        check(tmp_path / "uuid")


def test_many_pages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_bounds, "MOST_PAGES", 1)
    with pytest.raises(BoundError, match="more than 1 pages"):
        check(written(tmp_path / "a", pl.DataFrame({"a": [1], "b": [2]})))


def test_the_file_is_named_where_a_table_is_read(tmp_path: Path) -> None:
    make_campaign(tmp_path / "results", seconds=2)
    run = next(iter(Results(tmp_path / "results").runs()))
    written(run.folder / "series.parquet", pl.select(second=pl.repeat(1.5, 21_000_000)))
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

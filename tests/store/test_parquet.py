"""Tables of runs as Parquet: what is written is what is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import StoreError
from pgstrata.store import parquet
from pgstrata.store.tables import TABLES, conform
from support.parquet_files import write_parquet

_OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    "text": st.text(max_size=20),
    "int": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(allow_nan=False),
    "bool": st.booleans(),
}


def rows_of(table: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    columns = {
        name: st.none() | _OF_KIND[kind]
        for name, kind in TABLES[table].items()
        if name not in ("run_id", "step")
    }
    return st.lists(st.fixed_dictionaries({}, optional=columns), max_size=5)


def plain(text: str) -> str:
    """As it is stored: halves of letters are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


@pytest.mark.parametrize("table", TABLES)
@given(data=st.data())
def test_rows_come_back_as_they_were(
    table: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = data.draw(rows_of(table))
    path = tmp_path_factory.getbasetemp() / f"{table}.parquet"
    path.write_bytes(parquet.to_bytes(table, conform(table, "a run", "a step", rows)))
    read = parquet.read(path, table)
    assert read.names == tuple(TABLES[table])
    expected = [
        {name: plain(v) if isinstance(v := row.get(name), str) else v for name in TABLES[table]}
        | {"run_id": "a run", "step": "a step"}
        for row in rows
    ]
    assert list(read) == expected


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    row = {"role": "query", "second": 1, "seconds": float("nan"), "operations": 1 << 64}
    (tmp_path / "series").write_bytes(parquet.to_bytes("series", conform("series", "r", "s", [row])))
    (read,) = parquet.read(tmp_path / "series", "series")
    assert read["seconds"] is None and read["operations"] is None and read["second"] == 1


def test_folders_may_be_called_as_patterns_are(tmp_path: Path) -> None:
    folder = tmp_path / "[a]*?\\ 'x"
    files = [folder / name / "lag.parquet" for name in ("1", "2")]
    for second, file in enumerate(files):
        file.parent.mkdir(parents=True)
        file.write_bytes(parquet.to_bytes("lag", [("r", "s", second, 5, 0.5)]))
    assert parquet.read(files[1], "lag", ["second"]).values == [(1,)]
    assert parquet.grouped(files, "lag", ("step",), ("second",), "second") == [("s", [0, 1])]


def test_what_an_older_release_lacks_is_null_and_cannot_be_asked_for(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "lag.parquet", "SELECT 'r' AS run_id, 's' AS step, 7::INTEGER AS second")
    (read,) = parquet.read(file, "lag")
    assert (read["second"], read["lag_bytes"]) == (7, None)
    with pytest.raises(StoreError, match=r"lag\.parquet cannot be read: .*lag_bytes"):
        parquet.read(file, "lag", ["lag_bytes"])


def test_the_damaged_file_of_many_is_named_and_others_can_be_read_afterwards(tmp_path: Path) -> None:
    sound = parquet.to_bytes("lag", [("r", "s", 1, 5, 0.5)])
    files = [tmp_path / name for name in ("sound", "damaged", "sound too")]
    for file in files:
        file.write_bytes(sound)
    files[1].write_bytes(sound[:40] + bytes(20) + sound[60:])
    with pytest.raises(StoreError, match="damaged cannot be read"):
        parquet.grouped(files, "lag", ("step",), ("second",), "second")
    assert len(parquet.read(files[2], "lag")) == 1

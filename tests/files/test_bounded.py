"""Files that are larger, deeper or of more values than they may be: one sentence, little memory."""

from __future__ import annotations

import ast
import base64
import gzip
import struct
import zlib
from pathlib import Path

import pytest

import pgstrata
from pgstrata.count.measure.callgrind import read_part
from pgstrata.driver.events import StatementDone
from pgstrata.errors import ServerError, StoreError, UsageError
from pgstrata.files.bounded import GZIP, MOST_VALUES, BoundError, inflate, json_any, json_as
from pgstrata.store import histogram
from pgstrata.traffic.synthetic import files
from pgstrata.vector.data import VectorData
from pgstrata.workload.core.recorded import explained

DEEP = "[" * 100_000

UNBOUNDED = {
    "gzip": {"decompress", "open"},
    "json": {"load", "loads"},
    "lzma": {"decompress", "open"},
    "bz2": {"decompress", "open"},
    "pickle": {"load", "loads"},
    "zlib": {"decompress"},
    "tomllib": {"load", "loads"},
}
"""Functions that read as much as they are given, at any depth."""

ALLOWED = {
    "campaign/file/toml.py": "of a text that is bounded, with its depth caught",
    "driver/generate.py": "of a schema of the project",
    "source/mend.py": "of a file of the package",
    "traffic/upgrade/checklist/changes.py": "of a file of the package",
    "traffic/upgrade/checklist/rehearsal.py": "of a file of the package",
    "server/find/recipe.py": "of a file of the package",
    "traffic/upgrade/planned/extended_values.py": "of a text that is bounded, with its depth caught",
    "store/read.py": "of a file that is bounded, with its depth caught",
}


def test_what_is_read_goes_through_bounded_readers() -> None:
    root = Path(pgstrata.__file__).parent
    users = set()
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.attr in UNBOUNDED.get(node.value.id, ())
            ):
                users.add(str(file.relative_to(root)))
    assert users == set(ALLOWED)


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000, "9" * 5000, "NaN", "", '"\ud800"', "\0"])
def test_json_that_is_none_is_one_error(text: str) -> None:
    with pytest.raises(BoundError):
        json_any(text)


def test_json_of_too_many_values_is_refused_before_it_is_read() -> None:
    data = b"[" + b"[]," * (MOST_VALUES // 2) + b"[]]"
    with pytest.raises(BoundError, match="4,000,000 values"):
        json_as(data, list[list[int]])


def test_packed_data_stop_at_their_bound() -> None:
    bomb = gzip.compress(bytes(100 << 20))
    with pytest.raises(BoundError, match="more than 1 MiB"):
        inflate(bomb, 1 << 20, GZIP)
    assert inflate(gzip.compress(b"x"), 10, GZIP) == b"x"


def packed(inner: bytes) -> str:
    data = zlib.compress(inner)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()


@pytest.mark.long
def test_a_histogram_unpacks_to_no_more_than_one() -> None:
    inner = zlib.decompress(base64.b64decode(histogram.histogram_of([1, 2, 3]).encode())[8:])
    wide = inner[:8] + struct.pack(">iiqqd", 0, 5, 1, 2**62, 1.0) + inner[40:]
    for text, why in (
        (packed(inner + bytes(500 << 20)), "more than 1 MiB"),
        (packed(wide), "5 digits"),
        (packed(inner[:20]), "damaged"),
        ("", "damaged"),
    ):
        with pytest.raises(StoreError, match=why):
            histogram.decode(text)
        with pytest.raises(StoreError, match=why):
            histogram.total([text])
    assert histogram.total([packed(inner)]).responses == 3


CALLGRIND = "events: Ir\nob=(1) /bin/postgres\nfn=(1) main\n0 {}\n{}totals: 10\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CALLGRIND.format("x", ""), "no number"),
        (CALLGRIND.format("1e999", ""), "no number"),
        (CALLGRIND.format("9" * 5000, ""), "no number"),
        (CALLGRIND.format("1 2 3 4", ""), "is damaged"),
        (CALLGRIND.format("1", "calls=\n"), "is damaged"),
        (CALLGRIND.format("1", "".join(f"fn=({n}) f{n}\n0 1\n" for n in range(2, 260_000))), "500,000"),
        ("events: Ir\n0 1\n", "is cut"),
    ],
)
def test_what_callgrind_did_not_write_is_said(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "part").write_text(text)
    with pytest.raises(ServerError, match=why) as error:
        read_part(tmp_path / "part")
    assert error.value.hint and len(error.value.message) < 300


def test_a_part_file_that_is_a_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "part").symlink_to("/dev/zero")
    with pytest.raises(ServerError, match="no regular file"):
        read_part(tmp_path / "part")


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        ("query,calls\n" + "," * 3_000_000, "commas"),
        ("query,calls\n" + ('"' + "," * 900_000 + '\n",') * 4, "commas"),
        (",".join(f"c{n}" for n in range(300)), "200 columns"),
        ("query,calls\n" + "x,1\n" * 200_001, "200,000 rows"),
        ("query,calls\nx,many\n", "no numbers"),
        ('query,calls\n"x,1\n', "is no CSV"),
        ("query,calls\nx,\n", "no numbers"),
        ("query,calls,seconds\nx,1,x\n", "is damaged"),
        ("query,calls\n\udcff,1\n", "is not UTF-8"),
    ],
)
def test_statistics_that_are_too_large_are_refused(tmp_path: Path, statements: str, why: str) -> None:
    (tmp_path / files.STATEMENTS).write_bytes(statements.encode(errors="surrogateescape"))
    (tmp_path / files.COLUMNS).write_text("schemaname,tablename,attname,null_frac\np,t,a,0\n")
    with pytest.raises(UsageError, match=why) as error:
        files.of_folder(tmp_path)
    assert error.value.hint


def test_true_neighbours_that_are_none_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path))
    data = VectorData(100, 2, 1, 10, 3, "l2", 1)
    data.folder.mkdir(parents=True)
    for text, why in ((DEEP, "larger"), ("[[1,2,3]]", "3 neighbours of each of 10"), ("[[1,", "truncated")):
        (data.folder / "truth.json").write_text(text)
        with pytest.raises(ServerError, match=why) as error:
            data.truth()
        assert "pgstrata data remove" in error.value.hint


def test_a_plan_without_end_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "1").write_text(f"{DEEP}\n")
    event = StatementDone(
        role="q",
        client=0,
        name="q1",
        start=0.0,
        seconds=1.0,
        planning_seconds=None,
        rows=1,
        error=None,
        result="1",
    )
    with pytest.raises(ServerError, match="plan in 1 cannot be read"):
        explained(10.0)([event], tmp_path)

"""What the cache holds beside servers is shown with its size, and removed unless it is in use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata import numbers
from pgstrata.files.disk import folder_bytes
from pgstrata.fulltext.corpus.build import Synthetic, synthetic
from pgstrata.server.find.cache import cache_dir
from pgstrata.vector.data import VectorData
from pgstrata.workload.cached import cached
from support.program import Program


@pytest.fixture
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of its own."""
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    return cache_dir()


def test_what_is_made_is_shown_and_stays_while_it_is_in_use(cache: Path, pgstrata: Program) -> None:
    vectors = VectorData(100, 4, 2, 3, 2, "l2", 1)
    vectors.make(lambda: None)
    synthetic(Synthetic(20, 1)).build()
    for name, text in {
        "custom/0123456789abcdef/about.json": json.dumps({"file": "shop.dump"}),
        "custom/0123456789abcdef/0.rows": "1\n",
        "tpcds/sf1-tpcgen4.0.0/store.dat": "1|\n" * 1000,
        "digests/1-2-3": "0" * 32,
        "delay/00112233/delay.so": "",
        "loaded/89abcdef01234567/broken": "x",
    }.items():
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_text(text)
    rows = json.loads(pgstrata("data", "list", "--format", "json").stdout)
    assert {(row["data"], row["what"]) for row in rows} == {
        ("89abcdef", "damaged"),
        ("01234567", "rows of shop.dump"),
        ("sf1-tpcgen4.0.0", "rows and answers of TPC-DS"),
        (synthetic(Synthetic(20, 1)).folder.name[:8], "mail"),
        (vectors.folder.name[:8], "vectors"),
        ("00112233", "library that delays a disk"),
        ("digests", "digests of large files"),
    }
    sizes = {row["what"]: row["size"] for row in rows}
    assert sizes["rows and answers of TPC-DS"] == numbers.size(folder_bytes(cache / "tpcds/sf1-tpcgen4.0.0"))
    assert len(set(sizes.values())) > 1
    # This process uses two of them.
    refused = pgstrata("data", "remove", vectors.folder.name[:8])
    assert refused.returncode == 1 and "in use" in refused.stderr and vectors.truth()
    assert pgstrata("data", "remove", "sf1-tpcgen4.0.0").stdout == "removed sf1-tpcgen4.0.0\n"
    everything = pgstrata("data", "remove", "all")
    assert everything.returncode == 0, everything.stderr
    lines = everything.stdout.splitlines()
    assert len([line for line in lines if line.startswith("left: ") and "in use" in line]) == 2
    assert "removed digests" in lines and "removed 01234567" in lines and len(lines) == 6
    assert {entry.what for entry in cached()} == {"mail", "vectors"}
    assert pgstrata("data", "remove", "01234567").returncode == 2

"""What benchmarks/hammerdb.py says of lines that are there; the measuring itself needs HammerDB."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pgstrata.tproc_c.rules import WEIGHTS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def hammerdb(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("hammerdb")


def pair(theirs: float, ours: float) -> dict[str, dict[str, float]]:
    cpu = {"hammerdb": 200.0, "ours": 50.0}
    return {"nopm": {"hammerdb": theirs, "ours": ours}, "client": cpu, "server": cpu}


def test_ratios_are_those_of_pairs(hammerdb: ModuleType) -> None:
    text = hammerdb.table([pair(1000, 1100), pair(2000, 2100), pair(4000, 4600)])
    rows = [line for line in text.splitlines() if line.startswith("| NOPM")]
    assert rows == ["| NOPM | 2,000 | 2,100 | 1.099 | 0.982 – 1.231 | 3 |"]
    assert "| CPU of the client per order, µs | 200 | 50 | 0.250 | 0.250 – 0.250 | 3 |" in text


def test_rows_of_one_side_only_are_told(hammerdb: ModuleType) -> None:
    ours = {kind: {"statements": 7.0} for kind in WEIGHTS}
    theirs = {kind: {"statements": 7.0, "update stock": 10.1} for kind in WEIGHTS}
    text = hammerdb.table([{"executed": {"hammerdb": theirs, "ours": ours}}])
    assert "| new-order | update stock | 10.1 | 0 |" in text


def test_calls_differ_from_draw_to_draw_and_name_every_kind(hammerdb: ModuleType) -> None:
    draw = random.Random(1)
    for calls in hammerdb.CALLS.values():
        for kind in WEIGHTS:
            assert len({calls(kind, number, draw, 10) for number in range(20)}) > 10

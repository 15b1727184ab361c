"""The vectors, their true neighbours, and the search for the setting that finds so many of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pgstrata.errors import UsageError
from pgstrata.server.features import NEWEST, Features
from pgstrata.vector.data import VectorData
from pgstrata.vector.options import Distance, VectorOptions
from pgstrata.vector.recall import recall_of, smallest
from pgstrata.vector.steps import Vector
from pgstrata.workload.core.language import Step


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path))


def read(file: Path) -> dict[int, list[int]]:
    rows = (line.split("\t") for line in file.read_text().splitlines())
    return {int(number): [int(x) for x in vector.strip("[]").split(",")] for number, vector in rows}


def apart(kind: Distance, a: list[int], b: list[int]) -> float:
    product = sum(x * y for x, y in zip(a, b, strict=True))
    if kind == "ip":
        return -product
    if kind == "cosine":
        return 1 - product / (math.hypot(*a) * math.hypot(*b))
    return math.dist(a, b)


@pytest.mark.parametrize("kind", ["l2", "cosine", "ip"])
def test_the_true_neighbours_are_those_that_counting_by_hand_finds(
    kind: Distance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgstrata.vector.data.AT_ONCE", 64)  # in several pieces
    data = VectorData(rows=300, dimensions=6, clusters=5, queries=12, k=7, distance=kind, seed=3)
    data.make(lambda: None)
    items, probes = read(data.items), read(data.probes)
    assert list(items) == list(range(1, 301)) and len(probes) == 12
    for number, true in enumerate(data.truth(), 1):
        ranked = sorted(items, key=lambda i: apart(kind, probes[number], items[i]))
        farthest = apart(kind, probes[number], items[ranked[6]])
        assert len(set(true)) == 7
        assert all(apart(kind, probes[number], items[i]) <= farthest + 1e-9 for i in true)


def test_the_same_seed_makes_the_same_vectors_and_another_one_others() -> None:
    def text(seed: int) -> str:
        data = VectorData(rows=50, dimensions=3, clusters=2, queries=10, k=2, distance="l2", seed=seed)
        data.make(lambda: None)
        return data.items.read_text()

    first = text(1)
    assert text(1) == first != text(2)
    # Written down: another numpy must not make others.
    assert first.splitlines()[0] == "1\t[311,-114,-144]"


def test_making_them_ends_when_it_is_asked_to_and_leaves_nothing(tmp_path: Path) -> None:
    def asked() -> None:
        raise KeyboardInterrupt

    data = VectorData(rows=50, dimensions=3, clusters=2, queries=10, k=2, distance="l2", seed=1)
    with pytest.raises(KeyboardInterrupt):
        data.make(asked)
    assert list((tmp_path / "vectors").iterdir()) == []


def test_recall_is_the_share_of_true_neighbours() -> None:
    assert recall_of([[1, 2, 3], [4]], [[1, 2, 9], [5, 6, 7]]) == 2 / 6
    assert recall_of([[3, 2, 1]], [[1, 2, 3]]) == 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.01, 1))
def test_the_smallest_setting_that_reaches_a_recall_is_found(values: list[float], target: float) -> None:
    growing = sorted(values)
    value, reached = smallest(target, len(growing), lambda n: growing[n - 1])
    assert reached == growing[value - 1]
    if growing[-1] < target:
        assert value == len(growing), "the most there is"
    else:
        assert reached >= target
        assert value == 1 or growing[value - 2] < target


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.01, 1))
def test_where_recall_wavers_what_is_found_has_been_tried(values: list[float], target: float) -> None:
    value, reached = smallest(target, len(values), lambda n: values[n - 1])
    assert 1 <= value <= len(values) and reached == values[value - 1]


def test_each_recall_is_a_step_of_each_index() -> None:
    options = VectorOptions(recall=(0.9, 0.995), rows=2_000)
    steps = [phase for phase in Vector().phases(options, NEWEST) if isinstance(phase, Step)]
    assert [step.name for step in steps] == [
        "load", "hnsw-build", "hnsw-r90", "hnsw-r99.5", "ivfflat-build", "ivfflat-r90", "ivfflat-r99.5",
    ]  # fmt: skip
    assert [step.reads_only for step in steps] == [False, False, True, True, False, True, True]
    assert Vector().extensions(options) == ["vector"]
    with pytest.raises(UsageError, match="PostgreSQL 11 or later"):
        Vector().phases(options, Features(100_023))


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 1000, "rows": 100},
        {"m": 40, "ef_construction": 64},
        {"recall": [0.9, 0.9]},
        {"recall": [0.9, 0.90000001]},
        {"recall": [1.0]},
        {"indexes": ["hnsw", "hnsw"]},
        {"dimensions": 2001},
    ],
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        VectorOptions.model_validate(wrong)

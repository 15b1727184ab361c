from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.store import RunKey, slug
from pgstrata.store.names import BUILDING_FOLDER, RUN_FOLDER, new_run_id

NASTY = [
    "../../etc",
    "<script>",
    "a\0b",
    "x" * 300,
    "é" * 150,
    "Übung ☃",
    ".",
    "..",
    "...",
    ".hidden",
    "-rf",
    "",
    " ",
    "/",
    "a/b",
    "a\\b",
    "new\nline",
    "\ud800",
    "~root",
    "C:",
]


@pytest.mark.parametrize("name", ["insert-cached", "pg17.11.x10a", "pg9.6.24.a_b", "A", "0"])
def test_plain_names_stay_as_they_are(name: str) -> None:
    assert slug(name) == name


def check_component(component: str) -> None:
    assert component == Path(component).name
    assert component not in {"", ".", ".."}
    assert component[0] not in ".-~"
    assert len(os.fsencode(component)) <= 100
    assert set(component) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-~")


@given(st.one_of(st.text(), st.sampled_from(NASTY), st.text(alphabet="./-~_a\0", max_size=8)))
def test_every_name_is_one_safe_component(name: str) -> None:
    check_component(slug(name))
    assert Path("results").joinpath(slug(name)).parent == Path("results")


@given(st.lists(st.one_of(st.text(alphabet="a_./-~", max_size=6), st.sampled_from(NASTY)), unique=True))
def test_distinct_names_stay_distinct(names: list[str]) -> None:
    assert len({slug(name) for name in names}) == len(names)


@given(st.one_of(st.text(), st.sampled_from(NASTY)))
def test_a_component_taken_for_a_name_is_no_other_names_component(name: str) -> None:
    if (component := slug(name)) != name:
        assert slug(component) != component


@pytest.mark.parametrize("name", NASTY)
def test_a_folder_of_that_name_can_be_made(tmp_path: Path, name: str) -> None:
    folder = RunKey(name, name, name, 1).folder(tmp_path)
    folder.mkdir(parents=True)
    assert folder.resolve().is_relative_to(tmp_path.resolve())
    assert len(folder.relative_to(tmp_path).parts) == 3


def test_run_ids_make_names_of_runs() -> None:
    ids = {new_run_id() for _ in range(1000)}
    assert len(ids) == 1000
    for run_id in ids:
        assert RUN_FOLDER.fullmatch(f"12-{run_id}")
        assert BUILDING_FOLDER.fullmatch(f".12-{run_id}.building")
        assert not RUN_FOLDER.fullmatch(f".12-{run_id}.building")

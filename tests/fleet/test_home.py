"""Runs that come home: each once, whole, and only those that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pgstrata.errors import ServerError
from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.home import bring_home
from pgstrata.fleet.parcel import pack
from pgstrata.fleet.tasks import Parcel
from pgstrata.store import Results, RunKey
from support.campaign import plan
from support.runs import make_run


def asked_for(place: Path) -> Assignment:
    planned = plan(place, 'servers = ["pg:12", "pg:17"]').runs
    return Assignment("insert", 1, 10.0, runs=tuple(planned))


def measured(place: Path, keys: Sequence[RunKey], name: str = "machine") -> Parcel:
    """What a machine sends after it has measured these runs."""
    root = place / name
    folders = [make_run(root, key, seconds=2) for key in keys]
    return pack(root, [str(folder.relative_to(root)) for folder in folders])


def test_they_lie_where_a_local_run_would_put_them(place: Path) -> None:
    assignment, results = asked_for(place), Results(place / "results")
    keys = [run.key for run in assignment.runs]
    runs = bring_home(results, assignment, measured(place, keys))
    assert [run.key for run in results.runs()] == sorted(keys, key=str)
    assert {run.folder for run in runs} == {run.folder for run in results.runs()}
    assert all(results.find(key) for key in keys)
    assert results.broken == []
    assert not list((place / "results" / ".fleet").iterdir())


def test_a_parcel_that_comes_twice_counts_once(place: Path) -> None:
    assignment, results = asked_for(place), Results(place / "results")
    sent = measured(place, [run.key for run in assignment.runs])
    first = {run.folder for run in bring_home(results, assignment, sent)}
    again = {run.folder for run in bring_home(results, assignment, sent)}
    assert first == again == {run.folder for run in Results(place / "results").runs()}


def test_another_measurement_of_the_same_replaces_the_first(place: Path) -> None:
    assignment, results = asked_for(place), Results(place / "results")
    keys = [run.key for run in assignment.runs]
    bring_home(results, assignment, measured(place, keys))
    second = bring_home(results, assignment, measured(place, keys, "another"))
    assert {run.folder for run in Results(place / "results").runs()} == {run.folder for run in second}


def test_half_of_it_is_nothing(place: Path) -> None:
    assignment, results = asked_for(place), Results(place / "results")
    with pytest.raises(ServerError, match="came home without"):
        bring_home(results, assignment, measured(place, [assignment.runs[0].key]))
    assert results.runs() == []


def test_what_nobody_asked_for_stays_outside(place: Path) -> None:
    assignment, results = asked_for(place), Results(place / "results")
    keys = [replace(run.key, campaign="another") for run in assignment.runs]
    with pytest.raises(ServerError, match="nobody has asked"):
        bring_home(results, assignment, measured(place, keys))
    assert results.runs() == []


def test_a_damaged_run_is_none(place: Path) -> None:
    assignment, results = asked_for(place), Results(place / "results")
    root = place / "machine"
    folders = [make_run(root, run.key, seconds=2) for run in assignment.runs]
    (folders[0] / "settings.json").write_text("{}")
    with pytest.raises(ServerError, match="came home damaged"):
        bring_home(results, assignment, pack(root, [str(f.relative_to(root)) for f in folders]))
    assert results.runs() == []
    assert not list((place / "results" / ".fleet").iterdir())

"""What CONTRIBUTING.md and the page on architecture say of the code is so."""

from __future__ import annotations

import importlib
import re
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
ARCHITECTURE = (ROOT / "docs/explanation/architecture.md").read_text()


def walks(text: str) -> list[list[str]]:
    """Returns the stops of each walk: tables whose first column is called stop."""
    tables = re.findall(r"^\| stop \|.*\n\|---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) for table in tables]


STOPS = [stop for walk in (*walks(TEXT), *walks(ARCHITECTURE)) for stop in walk]


def test_walks_have_at_most_ten_stops() -> None:
    assert (len(walks(TEXT)), len(walks(ARCHITECTURE))) == (2, 3)
    assert all(5 < len(walk) <= 10 for walk in (*walks(TEXT), *walks(ARCHITECTURE)))


@pytest.mark.parametrize("walk", walks(ARCHITECTURE))
def test_a_walk_goes_in_one_direction(walk: list[str]) -> None:
    """It does not come back to a package that it has left."""
    packages = [".".join(re.split(r"[./]", stop)[:2]) for stop in walk]
    left = [package for package, after in pairwise(packages) if package != after]
    assert len(left) == len(set(left)) and packages[-1] not in left


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop.startswith("pgstrata.")])
def test_a_stop_in_python_is_there(stop: str) -> None:
    parts = stop.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            target: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            target = getattr(target, name)
        assert callable(target) or isinstance(target, cached_property)
        return
    pytest.fail(f"no module of {stop}")


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop.startswith("crates/")])
def test_a_stop_in_rust_is_there(stop: str) -> None:
    file, name = stop.split(": ")
    kind, function = name.split("::")
    text = (ROOT / file).read_text()
    assert re.search(rf"impl(<[^>]*>)? {kind}\b", text)
    assert re.search(rf"fn {function}\b", text)


@pytest.mark.parametrize("path", re.findall(r"^\| `((?:src|crates)/[^`: ]+)` \|", TEXT, re.MULTILINE))
def test_what_the_map_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()

"""What CONTRIBUTING.md says of the code is so."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
WAYS = TEXT.split("## Two ways through the code")[1].split("## Rules")[0]
STOPS = re.findall(r"^\| `([^`]+)` \|", WAYS, re.MULTILINE)


def test_both_ways_have_fewer_than_ten_stops() -> None:
    of_each = [len(re.findall(r"^\| `", part, re.MULTILINE)) for part in WAYS.split("The latency histogram")]
    assert len(of_each) == 2
    assert all(5 < stops < 10 for stops in of_each)


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop.startswith("pgstrata.")])
def test_a_stop_in_python_is_there(stop: str) -> None:
    parts = stop.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name)
        assert callable(found)
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

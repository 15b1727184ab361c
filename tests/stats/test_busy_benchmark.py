"""benchmarks/sensitivity/busy.py: what it measures next, and the table of what is there."""

from __future__ import annotations

import argparse
from types import ModuleType
from typing import Any

import pytest

from support.benchmarks import benchmark


@pytest.fixture(scope="module")
def busy() -> ModuleType:
    return benchmark("sensitivity/busy.py")


def line(condition: str, *words: str, low: float = 0.99, disturbed: str = "", share: float = 0.0) -> Any:
    steps = [
        {"step": "s", "word": word, "low": low, "high": 1.01, "disturbance": disturbed} for word in words
    ]
    times = {"wall": 10.0, "measured": 8.0}
    return {"share": share, "condition": condition, "procedure": "verdict", **times, "steps": steps}


def arguments(**more: Any) -> argparse.Namespace:
    usual = {"verdicts": 12, "planted_verdicts": 6, "planted": 0.03, "condition": ["quiet", "1 loop"]}
    return argparse.Namespace(**{**usual, "procedure": ["verdict"], **more})


def test_the_cell_that_lacks_most_comes_next_until_all_are_done(busy: ModuleType) -> None:
    there = [line("quiet", *["same"] * 6)]
    cells = [(job["share"], job["condition"]) for job in busy.jobs(arguments(), there)]
    assert cells == [(0.0, "1 loop"), (0.03, "quiet"), (0.03, "1 loop"), (0.0, "quiet"), (0.0, "1 loop")]
    assert list(busy.jobs(arguments(verdicts=6, planted_verdicts=0, condition=["quiet"]), there)) == []


def test_wrong_words_and_intervals_are_counted(busy: ModuleType) -> None:
    lines = [
        line("2 loops", "same", "unclear"),
        line("2 loops", "slower", low=1.005),
        line("2 loops", "unclear", low=1.005, disturbed="other programs used 90 % of the CPUs"),
    ]
    (row,) = (text for text in busy.table(lines, 0.03).splitlines() if text.startswith("| 2 loops"))
    assert row == "| 2 loops | verdict | 4 | 1 | 0 | 1 | 2 | 1 | 1 of 3 | 0.80 |"

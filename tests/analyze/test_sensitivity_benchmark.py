"""The file of benchmarks/sensitivity/measure.py: it outlives a crash, and the table is made of it alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "sensitivity" / "measure.py"


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sensitivity_measure", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sensitivity_measure"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_line_that_was_cut_is_made_again(measure: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    measure.append(file, {"number": 0})
    measure.append(file, {"number": 1})
    with file.open("a") as out:
        out.write('{"number": 2, "base": [1.')
    assert [line["number"] for line in measure.read(file)] == [0, 1]
    measure.append(file, {"number": 2})
    assert [line["number"] for line in measure.read(file)] == [0, 1, 2]
    file.write_text('nonsense\n{"number": 1}\n')
    with pytest.raises(SystemExit, match=r"s.jsonl:1: not a line"):
        measure.read(file)


def test_the_jobs_are_those_of_the_issue(measure: ModuleType) -> None:
    jobs = list(measure.jobs(20))
    assert len(jobs) == len(set(jobs)) == 80 * 2
    assert sum(share == 0 and procedure == measure.PAIRS for share, procedure, _ in jobs) == 40
    assert sum(share == 0.05 and procedure == measure.FIELD for share, procedure, _ in jobs) == 20


def test_the_table_finds_the_words_in_the_rates(measure: ModuleType) -> None:
    dice = np.random.default_rng(5)
    lines = [{"arguments": {"budget": 240.0, "slice": 2.0}}]
    for share in measure.PLANTED:
        base, other = (
            list(rate * np.exp(dice.normal(0, 0.01, 60))) for rate in (40_000, 40_000 * (1 - share))
        )
        lines += [
            {"share": share, "procedure": measure.PAIRS, "base": base, "other": other},
            {"share": share, "procedure": measure.FIELD, "base": base[:1], "other": [0.94 * base[0]]},
        ]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in measure.table(lines).splitlines()[2:]]
    words = {(row[0], row[1]): dict(zip(("slower", "faster", "same"), row[3:6], strict=True)) for row in rows}
    field, fixed, watched = measure.TITLES
    assert words["0%", fixed]["same"] == words["0%", watched]["same"] == "1"
    assert words["3%", fixed]["slower"] == words["5%", watched]["slower"] == "1"
    assert words["0%", field]["slower"] == "1"
    seconds = {(row[0], row[1]): float(row[-1]) for row in rows}
    assert seconds["5%", fixed] == 240
    assert seconds["5%", watched] < 120

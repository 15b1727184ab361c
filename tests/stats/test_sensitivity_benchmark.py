"""The file of benchmarks/sensitivity/measure.py: it outlives a crash, and the table is made of it alone."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from support.benchmarks import benchmark


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    return benchmark("sensitivity/measure.py")


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


def test_the_jobs_are_those_that_were_asked_for(measure: ModuleType) -> None:
    jobs = list(measure.jobs([0.03, 0.05], 20, 20))
    assert len(jobs) == len(set(jobs)) == 80 * 2
    assert sum(share == 0 and procedure == measure.PAIRS for share, procedure, _ in jobs) == 40
    assert sum(share == 0.05 and procedure == measure.FIELD for share, procedure, _ in jobs) == 20
    fewer = list(measure.jobs([0.03, 0.05], 20, 3))
    assert set(fewer) < set(jobs)
    assert sum(procedure == measure.FIELD for _, procedure, _ in fewer) == 12


def test_the_table_counts_the_words(measure: ModuleType) -> None:
    def line(share: float, procedure: str, word: str, ratio: float, seconds: float) -> dict[str, object]:
        return {"share": share, "procedure": procedure, "word": word, "ratio": ratio, "seconds": seconds}

    lines = [
        {"arguments": {"planted": [0.03, 0.05]}},
        line(0.0, measure.PAIRS, "same", 1.001, 30),
        line(0.0, measure.PAIRS, "unclear", 1.003, 240),
        line(0.05, measure.PAIRS, "slower", 0.95, 20),
        line(0.05, measure.FIELD, "same", 0.97, 240),
    ]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in measure.table(lines).splitlines()[2:]]
    field, pairs = measure.TITLES[measure.FIELD], measure.TITLES[measure.PAIRS]
    assert [row[:7] for row in rows] == [
        ["0%", pairs, "2", "0", "0", "1", "1"],
        ["5%", field, "1", "0", "0", "1", "0"],
        ["5%", pairs, "1", "1", "0", "0", "0"],
    ]
    assert [row[-1] for row in rows] == ["135", "240", "20"]

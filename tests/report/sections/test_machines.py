"""What the report says of several machines, and that it says nothing of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.page.blocks import Prose, Section, Table
from pgstrata.page.results import RunSet, read_results
from pgstrata.report.sections.machines import machines
from pgstrata.report.sections.summary import absolute_table, relative_table
from support.machines import STEP, study


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> RunSet:
    root = tmp_path_factory.mktemp("machines")
    study(root, {"db1": 0.3, "db2": 0.3, "db3": 0.3})
    return read_results(root, base="base")


def tables(section: Section | None) -> dict[str, Table]:
    assert section is not None
    return {block.name: block for block in section.blocks if isinstance(block, Table)}


@pytest.mark.long
def test_each_machine_and_all_of_them(results: RunSet) -> None:
    table = tables(machines(results))["machines-verdicts"]
    titles = [column.title for column in table.columns]
    assert titles == ["Step", "Variant", "db1", "db2", "db3", "all", "machines differ by", "Verdict"]
    row = next(row for row in table.rows if row.cells[0].text == STEP)
    ratios = [cell.value for cell in row.cells[2:6]]
    assert all(isinstance(ratio, float) and ratio == pytest.approx(0.7, abs=0.05) for ratio in ratios)
    assert row.cells[-1].text.replace("\u00a0", " ").startswith("slower on ")


def test_which_machines(results: RunSet) -> None:
    table = tables(machines(results))["machines"]
    assert [row.cells[0].text for row in table.rows] == ["db1", "db2", "db3"]
    assert [row.cells[2].value for row in table.rows] == [4, 4, 4]


def test_whose_details_are_shown_is_said(results: RunSet) -> None:
    section = machines(results)
    assert section is not None
    assert any(isinstance(b, Prose) and "are those of db1" in b.text for b in section.blocks)
    (workload,) = results.workloads
    assert "insert on db1" in absolute_table(results, workload).title
    relative = relative_table(results, workload)
    assert relative is not None and "across 3 machines" in relative.title


def test_one_machine_has_no_such_section(tmp_path: Path) -> None:
    study(tmp_path, {"db1": 0.3}, repeats=1)
    assert machines(read_results(tmp_path, base="base")) is None

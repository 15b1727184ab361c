"""What other programs used stands first: on the page, in the terminal, in the JSON of a comparison."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from pgstrata.page.results import read_results
from pgstrata.report.disturbance import disturbed_steps
from pgstrata.report.terminal import print_summary
from pgstrata.report.write import write_report
from support.page import PageReader
from support.runs import make_campaign


@pytest.fixture
def results(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    make_campaign(root, variants=("a", "b"), repeats=2, seconds=4)
    return root


def beside(results: Path, *, load: float, steps: int, waited: float | None = None) -> None:
    """Lets other programs use this share of the CPUs beside the last steps of each run."""
    for file in results.rglob("run.json"):
        data = json.loads(file.read_text())
        for step in data["steps"][-steps:]:
            step["disturbance"] = {"other_load": load, "allowed": 0.25}
            if waited is not None:
                step["slices"] = [{"pair": 1, "seconds": 1.0, "rate": 1.0, "waited": waited}]
        file.write_text(json.dumps(data))


def terminal(results: Path) -> str:
    out = io.StringIO()
    print_summary(read_results(results), Console(file=out, width=400))
    return out.getvalue()


@pytest.mark.long
def test_a_disturbed_comparison_says_so_before_anything_else(results: Path, tmp_path: Path) -> None:
    beside(results, load=0.71, steps=2)
    text = terminal(results)
    first = text.splitlines()[0]
    assert first.startswith("Disturbed, and so unclear: 2 of ")
    assert "other programs used 71% of the CPUs. Stop other programs" in first
    page = PageReader(write_report(results, out=tmp_path / "report").html)
    assert first in " ".join(page.all_text.split())
    assert "would settle it" not in page.all_text and "would settle it" not in text, "advice is given once"
    comparisons = read_results(results).comparisons
    assert [s.disturbance for c in comparisons for s in c.steps if s.disturbance] == [
        "other programs used 71% of the CPUs"
    ] * 2
    recorded = comparisons[0].record()["steps"][-1]
    assert (recorded["word"], recorded["disturbance"]) == ("unclear", "other programs used 71% of the CPUs")
    assert disturbed_steps(comparisons) == first


@pytest.mark.long
def test_one_run_each_needs_other_runs_and_not_a_quiet_machine(tmp_path: Path) -> None:
    """The same command on a quiet machine would be unclear, too."""
    make_campaign(tmp_path, variants=("a", "b"), speeds={"b": 1.0}, repeats=1, seconds=4)
    assert "This would settle it" in terminal(tmp_path)
    beside(tmp_path, load=0.71, steps=2)
    text = terminal(tmp_path)
    assert text.startswith("Other programs used up to 71% of the CPUs meanwhile.")
    assert "This would settle it" in text and "--until verdict" in text
    assert "and so unclear" not in text and "--fresh" not in text


@pytest.mark.long
def test_many_disturbed_steps_are_counted_and_three_are_named(results: Path) -> None:
    beside(results, load=0.9, steps=5)
    first = terminal(results).splitlines()[0]
    assert first.startswith("Disturbed, and so unclear: 5 of ")
    assert " and 2 more)" in first


@pytest.mark.long
def test_a_load_beside_verdicts_that_hold_is_told(results: Path) -> None:
    beside(results, load=0.2, steps=3)
    first = terminal(results).splitlines()[0]
    assert first == "Other programs used up to 20% of the CPUs meanwhile.", "no slice tells, none is left out"
    beside(results, load=0.2, steps=1, waited=0.01)
    assert "Pairs in which a server waited for a CPU are left out." in terminal(results).splitlines()[0]


@pytest.mark.long
def test_nothing_is_said_of_a_quiet_machine(results: Path) -> None:
    beside(results, load=0.03, steps=3)
    assert "Other programs" not in terminal(results)
    assert "Disturbed" not in terminal(results)

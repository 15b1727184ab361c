"""Why a rate changed, on the page: sentences, plans, wait events, flame graphs."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pgstrata.report.write import write_report
from support.runs import make_campaign

STEP = "qr100"
EVIL = "<script>alert(1)</script>&]]>"
SCAN = [
    {"Plan": {"Node Type": "Index Scan", "Index Name": "pi1_pdc", "Relation Name": "pi1", "Plan Rows": 9}}
]
SORT = [{"Plan": {"Node Type": "Sort", "Plans": [{"Node Type": "Seq Scan", "Relation Name": "pi1"}]}}]
STACKS = {
    0: {"postgres;main;PostgresMain;old": 700, "postgres;main;PostgresMain;same": 300},
    1: {"postgres;main;PostgresMain;same": 300, f"postgres;main;PostgresMain;{EVIL}": 700},
}


def _edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = folder / "run.json"
    data = json.loads(file.read_text())
    change(next(step for step in data["steps"] if step["name"] == STEP))
    file.write_text(json.dumps(data))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two variants, two repeats; the second variant is slower, with another plan and other waits."""
    root = tmp_path / "results"
    folders = make_campaign(root, speeds={"pg17.11.x10a": 0.7}, repeats=2)
    for folder in folders:
        newer = int("pg17" in str(folder))
        lines = "".join(f"{stack} {weight * 5025125}\n" for stack, weight in STACKS[newer].items())
        (folder / "profile").mkdir()
        (folder / "profile" / "q.folded.gz").write_bytes(gzip.compress(lines.encode()))

        def change(step: dict[str, Any], newer: int = newer) -> None:
            role = step["role"]
            step["waits"] = {
                role: {"Client: ClientRead": 0.2, ("LWLock: WalSync" if newer else "LWLock: WALSync"): 0.8},
                "server": {"Activity: CheckpointerMain": 1.0},
            }
            step["waits_cost"] = {
                "polls": 100,
                "wanted": 100,
                "sampler_cpu_seconds": 0.04,
                "backend_cpu_seconds": None,
            }
            step["plans"] = [
                {
                    "name": f"select {EVIL}",
                    "statement": "SELECT 1",
                    "plan": SORT if newer else SCAN,
                    "kind": "custom",
                },
                {
                    "name": "update",
                    "statement": "UPDATE",
                    "plan": SCAN,
                    "kind": "generic" if newer else "custom",
                },
            ]
            step["profile"] = {
                role: {
                    "file": "profile/q.folded.gz",
                    "backends": 1,
                    "samples": 1000,
                    "event": "cpu-clock",
                    "seconds": 10.0,
                    "perf_cpu_seconds": None,
                    "note": "",
                }
            }

        _edit(folder, change)
    return root


@pytest.mark.program
def test_all_of_it(results: Path, tmp_path: Path) -> None:
    report = write_report(results, out=tmp_path / "out")
    page = report.html.read_text()
    assert EVIL not in page
    text = re.sub(r"<[^>]+>", " ", page)
    assert "% slower" in text and "the plan of select" in text
    assert "1 of 2 statements has a plan of another shape" in text
    assert "◆ differs" in text
    plans = (tmp_path / "out" / "tables" / "plans.csv").read_text().splitlines()
    # the plan of `update` has one shape and is of another kind
    kinds = [line for line in plans if ",update," in line]
    assert sum("generic" in line for line in kinds) == sum("for its values" in line for line in kinds) == 1
    assert sum("differs" in line for line in plans) == 1
    # spelt differently by the two versions, and one event
    waits = (tmp_path / "out" / "tables" / "waits.csv").read_text()
    assert waits.count("LWLock") == 1 and "Activity" not in waits
    functions = (tmp_path / "out" / "tables" / "functions.csv").read_text().splitlines()
    # what only one side has is in its caller: that, what both have, and all
    assert len(functions) == 4 and "in the place of old" in functions[1]
    svgs = sorted((tmp_path / "out" / "flames").glob("*.svg"))
    assert len(svgs) == 3 and sum(svg.name.endswith(".diff.svg") for svg in svgs) == 1
    for svg in svgs:
        ElementTree.fromstring(svg.read_text())  # names of functions cannot break out
        assert f'src="flames/{svg.name}"' in page
    # two repeats of 1,000 samples added up
    assert any("2000 samples of cpu-clock" in svg.read_text() for svg in svgs)
    assert "![" in report.markdown.read_text()


@pytest.mark.program
def test_older_drawings_go(results: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "flames").mkdir(parents=True)
    (tmp_path / "out" / "flames" / "old.svg").write_text("<svg/>")
    write_report(results, out=tmp_path / "out")
    assert not (tmp_path / "out" / "flames" / "old.svg").exists()


@pytest.mark.long
def test_without_the_tools_the_tables_are_there(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_TOOLS", "/nowhere/tools")
    page = write_report(results, out=tmp_path / "out").html.read_text()
    assert "could not be drawn" in page and "CPU time by function" in page


@pytest.mark.long
@pytest.mark.parametrize("file", ["../../../../../etc/passwd", "profile/none.gz", "run.json"])
def test_damaged_profiles_are_no_profiles(results: Path, tmp_path: Path, file: str) -> None:
    for folder in results.glob("*/*/*/*"):
        _edit(folder, lambda step: step["profile"][step["role"]].update(file=file))
    page = write_report(results, out=tmp_path / "out").html.read_text()
    assert "Flame graph" not in page


@pytest.mark.long
def test_runs_without_any_of_it(tmp_path: Path) -> None:
    make_campaign(tmp_path / "results")
    page = write_report(tmp_path / "results", out=tmp_path / "out").html.read_text()
    assert "Plans of the statements" not in page and "Wait events" not in page
    assert not (tmp_path / "out" / "flames").exists()

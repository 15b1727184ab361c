"""Imported runs are shown everywhere, and no verdict can rest on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from pgstrata.cli.main import invoke
from pgstrata.errors import UsageError
from pgstrata.judge.compare import compare_all
from pgstrata.judge.spread import repeats_of
from pgstrata.page.results import read_results
from pgstrata.store import BrokenRun, Results, Run
from pgstrata.store.choose import Side
from pgstrata.store.read import read_run
from support import foreign_results as foreign
from support.disks import small_disk
from support.records import step_record, stored_run
from support.runs import make_campaign, sum_anew

RATES = {"scan_range=100": [100.0, 50.0, 25.0], "hot-points_range=100": [10.0, 20.0, 40.0]}
VARIANTS = ["pg16", "pg17", "pg18"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder with a table of three variants, imported twice over."""
    monkeypatch.chdir(tmp_path)
    Path("qps.abs.tsv").write_text(foreign.qps_table(VARIANTS, RATES))
    Path("o.met").write_text(foreign.met_table(VARIANTS, RATES, 40))
    assert invoke(["import", "qps.abs.tsv", "o.met"]) == 0
    return tmp_path / "results"


def runs(folder: Path) -> list[Run]:
    return Results(folder).runs()


def test_a_side_takes_no_imported_run(folder: Path) -> None:
    first, *_ = runs(folder)
    with pytest.raises(UsageError, match="no verdict rests on what another program measured"):
        Side("pg16", (first,))


def test_nothing_is_in_an_imported_run_that_could_be_judged(folder: Path) -> None:
    """Also where a side were made without asking."""
    there = runs(folder)
    assert all(run.steps == () and not run.done and run.comparison is None for run in there)
    sides = []
    for variant in VARIANTS[:2]:
        side = object.__new__(Side)
        object.__setattr__(side, "name", variant)
        object.__setattr__(side, "runs", tuple(run for run in there if run.variant == variant))
        sides.append(side)
    (comparison,) = compare_all(sides[0], sides[1:])
    assert comparison.judged == ()


def test_how_much_runs_differ_is_not_learned_from_them(folder: Path) -> None:
    assert not list(repeats_of(Results(folder), {"sysbench"}))


@pytest.mark.parametrize("key", ["steps", "status"])
def test_a_run_that_claims_both_is_damaged(folder: Path, key: str) -> None:
    run, *_ = runs(folder)
    if key == "steps":
        record = structs.replace(run.record, steps=(step_record("scan", rate=1.0),))
    else:
        record = structs.replace(run.record, status="done")
    import msgspec

    (run.folder / "run.json").write_bytes(msgspec.json.encode(record))
    sum_anew(run.folder)
    assert isinstance(read_run(run.folder), BrokenRun)


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "pg16", "pg17"],
        ["check", "--base", "pg16", "--fail-slower", "3%"],
        ["compare", "pg16", "pg17", "--by", "instructions"],
    ],
)
def test_commands_refuse_them(folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(command) == 2
    assert "was imported, and no verdict rests on" in capsys.readouterr().err


def test_runs_and_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert invoke(["runs", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {(run["status"], run["steps"]) for run in listed} == {("imported", 2)} and len(listed) == 6
    assert invoke(["show", listed[0]["run_id"]]) == 0
    shown = capsys.readouterr().out
    assert "qps.abs.tsv" in shown and "hot-points_range=100" in shown and "None" not in shown


def test_the_page_shows_rates_ratios_and_trends(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert invoke(["report"]) == 0
    summary = capsys.readouterr().out
    assert "nothing is judged" in summary
    page = (folder / "imported.report/report.md").read_text()
    assert "no verdict, colour or exit code rests on it" in page
    csv = (folder / "imported.report/tables/imported-rates.csv").read_text()
    assert "scan_range=100" in csv and "25" in csv
    assert (
        "Imported rates of sysbench, variant by variant"
        in (folder / "imported.report/index.html").read_text()
    )
    assert not read_results(folder).comparisons


def test_beside_own_runs_nothing_changes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdicts of a campaign are the same with and without imported figures under the same labels."""
    make_campaign(folder, campaign="own", variants=["pg16", "pg17"], repeats=3, seconds=5)
    before = [c.record() for c in read_results(folder, "own").comparisons]
    assert before
    assert invoke(["import", "qps.abs.tsv", "--campaign", "own", "--workload", "insert"]) == 0
    results = read_results(folder, "own")
    assert [c.record() for c in results.comparisons] == before
    assert results.variants == ("pg16", "pg17") and len(results.imported) == 3
    capsys.readouterr()
    assert invoke(["compare", "pg16", "pg17", "--campaign", "own"]) == 0
    assert invoke(["bundle", "own", "-o", "own.pgstrata"]) == 0
    assert invoke(["verify", "own.pgstrata", "--report", "page"]) == 0
    assert "Imported rates" in Path("page/index.html").read_text()


def test_the_same_file_is_imported_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert invoke(["import", "qps.abs.tsv", "o.met"]) == 0
    out = capsys.readouterr().out
    assert out.count("is there already") == 6 and len(runs(folder)) == 6
    Path("again.tsv").write_text(foreign.qps_table(VARIANTS, {"scan_range=100": [101.0, 51.0, 26.0]}))
    assert invoke(["import", "again.tsv"]) == 0
    assert {run.repeat for run in runs(folder) if run.variant == "pg16"} == {1, 2, 3}


def test_nothing_is_imported_where_one_file_is_damaged(folder: Path, tmp_path: Path) -> None:
    Path("cut.tsv").write_text(foreign.qps_table(VARIANTS, RATES)[:-10])
    assert invoke(["import", "qps.abs.tsv", "cut.tsv", "--results", "other"]) == 2
    assert not Path("other").exists()


def test_results_are_private(folder: Path) -> None:
    for path in (folder / "imported").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_measured_run_is_still_a_side() -> None:
    assert Side("a", (stored_run("a", 1, step_record("s", rate=1.0)),)).runs


@pytest.mark.program
def test_a_full_disk_leaves_nothing(folder: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with small_disk(place / "disk", "16k") as disk:
        assert invoke(["import", "qps.abs.tsv", "--results", str(disk / "r")]) == 1
        assert "no space left" in capsys.readouterr().err
        assert [path.name for path in (disk / "r").rglob("*") if path.is_file()] == [".lock"]
        assert not Results(disk / "r").survey().broken

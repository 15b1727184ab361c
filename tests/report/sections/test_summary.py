"""Colour means proven: what the summary colours, what it says first, and what would settle the rest."""

from __future__ import annotations

import csv
import io
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console

from pgstrata.campaign.file.reading import Overrides, adhoc_campaign, read_campaign
from pgstrata.cli.main import invoke
from pgstrata.page.results import RunSet, read_results
from pgstrata.report.sections.again import count_command
from pgstrata.report.sections.settle import settle
from pgstrata.report.sections.summary import relative_table
from pgstrata.report.terminal import print_summary
from pgstrata.report.write import write_report
from pgstrata.store import Run, RunKey
from pgstrata.store.record import ConfigFileRecord, Disturbance
from support.page import PageReader, ReadCell, Written
from support.records import comparison_record
from support.runs import clone_run, make_run

FACTORS = {
    "base": (1.0, 1.002, 0.998, 1.001),
    "alike": (1.001, 1.001, 0.999, 1.0),
    "slow": (0.801, 0.803, 0.797, 0.80),
    "quick": (1.301, 1.303, 1.297, 1.30),
    "rough": (0.6, 1.2, 0.7, 1.15),
}
MARKS = {"alike": "same", "slow": "bad", "quick": "good", "rough": "even"}


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp("proven")
    source = make_run(root / "source", RunKey("c", "base", "insert", 1), seconds=3)
    for variant, factors in FACTORS.items():
        for repeat, factor in enumerate(factors, 1):
            clone_run(root / "results", source, RunKey("c", variant, "insert", repeat), factor)
    report = write_report(root / "results", base="base", out=root / "report")
    return Written(root / "results", report, PageReader(report.html))


@pytest.fixture
def once(tmp_path: Path) -> RunSet:
    """One run each, 20 % apart."""
    for variant, factor in (("pg16.11", 1.0), ("pg17.7", 0.8)):
        options = {"rows": 500_000, "seconds": 10, "steps": ["100:range"]}
        key = RunKey("c", variant, "insert", 1)
        make_run(tmp_path, key, speed=factor, seconds=3, options=options, config_file="default")
    return read_results(tmp_path)


def rows(written: Written, caption: str) -> dict[str, list[ReadCell]]:
    table = written.page.table(caption)
    return {cells[0].text: cells[1:] for cells in table.rows}


def mark(cell: ReadCell) -> str:
    return next((c for c in cell.classes if c in ("good", "bad", "same", "even", "missed", "missing")), "")


def printed(results: RunSet, terminal: bool = False) -> str:
    out = io.StringIO()
    print_summary(
        results,
        Console(file=out, force_terminal=terminal, width=160, color_system="standard" if terminal else None),
    )
    return out.getvalue()


def test_a_relative_rate_is_coloured_by_its_verdict(proven: Written) -> None:
    cells = rows(proven, "Relative rates: insert")
    for variant, expected in MARKS.items():
        assert {mark(cell) for cell in cells[variant]} == {expected}, variant
    assert all(cell.text.startswith("=") for cell in cells["alike"])
    assert all("unclear 0." in cell.text for cell in cells["rough"]), "with its interval"


def test_a_rate_is_coloured_only_where_it_is_proven_to_differ(proven: Written) -> None:
    cells = rows(proven, "Rates: insert")
    expected = {"base": "", "alike": "", "slow": "bad", "quick": "good", "rough": ""}
    for variant, colour in expected.items():
        assert {mark(cell) for cell in cells[variant]} == {colour}, variant


def test_the_first_sentence_is_about_what_is_proven(proven: Written) -> None:
    text = " ".join(proven.page.all_text.split())
    first = text[: text.index("Rates: insert")]
    assert "slow proven slower at 10 of 10 steps against base" in first
    assert "quick proven faster at 10 of 10 steps against base" in first
    assert "alike proven the same at 10 of 10 steps against base" in first
    assert "rough nothing proven: unclear at all of 10 steps against base" in first
    assert "would settle it" not in first


def test_the_margin_is_that_of_the_campaign(proven: Written) -> None:
    results = read_results(proven.results, base="base")
    record = comparison_record("base", "slow", margin=0.3)
    runs = [replace(run, record=structs.replace(run.record, comparison=record)) for run in results.runs]
    wide = replace(results, runs=tuple(runs))
    (step,) = (step for step in wide.workloads[0].steps if step.name == "l.i0")
    assert (results.margin, results.word(step, "slow")) == (0.02, "slower")
    assert (wide.margin, wide.word(step, "slow")) == (0.3, "same")
    table = relative_table(wide, wide.workloads[0])
    assert table is not None and "margin 30 %" in table.how


@pytest.mark.long
def test_the_thresholds_of_the_field_stay_an_option(
    proven: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["report", str(proven.results), "--out", str(tmp_path), "--base", "base"]
    assert invoke([*command, "--threshold", "0.05"]) == 0
    assert "slower at 10 (none proven) of 10 steps than base" in " ".join(capsys.readouterr().out.split())
    page = PageReader(tmp_path / "index.html")
    rough = next(cells for cells in page.table("Relative rates: insert").rows if cells[0].text == "rough")
    assert {mark(cell) for cell in rough[1:]} == {"bad"}


def test_terminal_markdown_and_csv_say_the_same(proven: Written) -> None:
    results = read_results(proven.results, base="base")
    plain, coloured = printed(results), printed(results, terminal=True)
    assert "▼ 0.80" in plain and "▲ 1.3" in plain and "= 1.00" in plain
    assert re.search(r"\x1b\[31m\s*▼ 0\.8", coloured) and re.search(r"\x1b\[32m\s*▲ 1\.3", coloured)
    assert not re.search(r"\x1b\[3[12]m\s*0\.9", coloured), "unclear"
    assert "= proven the same" in plain
    markdown = proven.report.markdown.read_text()
    assert "▼ 0.8" in markdown and "= 1.00" in markdown
    lines = list(csv.DictReader(io.StringIO((proven.tables / "relative-rates.csv").read_text())))
    marks = {line["variant"]: line["marks"] for line in lines}
    assert "4 pairs of repeats" in marks["alike"] and marks["rough"] == ""


def test_where_nothing_is_proven_a_command_says_what_would_settle_it(once: RunSet) -> None:
    (sentence,) = settle(once, once.workloads[0])
    assert sentence in " ".join(printed(once).split())
    about, command = sentence.split(": ", 1)
    assert about.startswith("This would settle it, in at most ") and about.endswith("min")
    words = shlex.split(command)
    assert words[:2] == ["pgstrata", "run"]
    given: dict[str, list[str]] = {}
    for option, value in zip(words[2::2], words[3::2], strict=True):
        given.setdefault(option, []).append(value)
    # what it says is a campaign of the same servers and the same work
    campaign = adhoc_campaign(
        Overrides(
            servers=given["--server"],
            workloads=given["--workload"],
            sets=given["--set"],
            fields={"until": given["--until"][0], "name": given["--name"][0]},
        )
    )
    assert campaign.name == "c-verdict"
    assert [v.server for v in campaign.variants] == ["pg:16.11", "pg:17.7"]
    options = campaign.workloads[0].all_options
    assert (options["rows"], options["seconds"], options["steps"]) == (500_000, 10, ["100:range"])
    assert campaign.spec.order == "interleaved"
    assert "▼ 0." not in printed(once), "0.8 by itself is no proof"


def test_the_command_asks_for_what_was_asked_with_the_same_names(once: RunSet) -> None:
    """A margin of 1 %, a busy machine that was allowed, labels, and another base than the first."""

    def changed(run: Run) -> Run:
        folder = "/opt/patched" if run.variant == once.others[0] else "/opt/master"
        server = structs.replace(run.record.server, spec=f"path:{folder}", label="path17.7")
        steps = tuple(
            structs.replace(step, disturbance=Disturbance(other_load=0.5, allowed=1.0))
            if step.measured
            else step
            for step in run.record.steps
        )
        return replace(run, record=structs.replace(run.record, server=server, steps=steps))

    runs = tuple(changed(run) for run in once.workloads[0].runs)
    results = replace(once, base=once.others[0])
    results.__dict__["margin"] = 0.01
    (sentence,) = settle(results, replace(once.workloads[0], runs=runs))
    words = shlex.split(sentence.split(": ", 1)[1])
    first, second = once.base, once.others[0]
    assert words[2:6] == ["--server", f"path:/opt/master={first}", "--server", f"path:/opt/patched={second}"]
    given = dict(zip(words[6::2], words[7::2], strict=True))
    assert (given["--margin"], given["--other-load"], given["--base"]) == ("1%", "100%", second)


def test_where_only_a_campaign_file_can_say_what_was_measured_it_is_named(once: RunSet) -> None:
    def from_file(name: str | None) -> str:
        runs = tuple(
            replace(run, record=structs.replace(run.record, env={"A": "b"}, campaign_file=name))
            for run in once.workloads[0].runs
        )
        (sentence,) = settle(once, replace(once.workloads[0], runs=runs))
        return sentence.split(": ", 1)[1]

    assert from_file("my study.toml").startswith("pgstrata run 'my study.toml' ")
    # Nothing that can be copied and fails: there is no file to name.
    assert from_file(None).startswith("the command that measured this, with --until verdict")


def test_the_command_that_counts_a_query_makes_the_same_variants_and_work(once: RunSet) -> None:
    def counted(file: str | None, **changes: Any) -> list[str]:
        runs = [
            replace(run, record=structs.replace(run.record, campaign_file=file, **changes))
            for run in once.workloads[0].runs
        ]
        return shlex.split(count_command(once, runs, "queries.slow"))

    options = {"queries": ["/q/slow.sql"], "setup": ["/q/a b.sql"], "contents": {"/q/slow.sql": "digest"}}
    fragments = [ConfigFileRecord(name=name, text="") for name in ("default", "work_mem=5MB")]
    config = structs.replace(once.runs[0].record.config, fragments=tuple(fragments))
    words = counted(None, workload="custom", workload_name="custom", options=options, config=config)
    assert words[:4] == ["pgstrata", "count", "--server", "pg:16.11"]
    assert words[words.index("--config") + 1] == "default+work_mem=5MB"
    assert 'queries=["/q/slow.sql"]' in words and 'setup=["/q/a b.sql"]' in words
    assert not any("digest" in word for word in words)
    assert words[-4:] == ["--step", "queries.slow", "--name", once.campaign]
    assert counted("study.toml")[:3] == ["pgstrata", "count", "study.toml"]
    assert counted(None, env={"A": "b"}) == [], "no command line says it"


def test_a_part_of_a_divided_workload_is_settled_by_itself(once: RunSet, tmp_path: Path) -> None:
    """The file has more workloads, and more steps of this one."""
    file = tmp_path / "all.toml"
    file.write_text(
        'servers = ["pg:16", "pg:17"]\n[[workloads]]\nname = "insert"\n'
        '[[workloads]]\nname = "sysbench"\nlabel = "reads"\noptions = { rows = 777 }\n'
    )
    part = {"workload": "reads@EPYC", "workload_name": "sysbench", "options": {"steps": ["point-query"]}}
    runs = tuple(
        replace(run, record=structs.replace(run.record, env={"A": "b"}, campaign_file=str(file), **part))
        for run in once.workloads[0].runs
    )
    (sentence,) = settle(once, replace(once.workloads[0], runs=runs))
    words = shlex.split(sentence.split(": ", 1)[1])
    given = dict(zip(words[3::2], words[4::2], strict=True))
    asked = Overrides(workloads=[given["--workload"]], sets=[given["--set"]])
    (only,) = read_campaign(Path(words[2]), asked).workloads
    assert (only.label, only.all_options["steps"], only.all_options["rows"]) == (
        "reads",
        ["point-query"],
        777,
    )

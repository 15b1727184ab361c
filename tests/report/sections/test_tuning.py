"""The study table, the campaign to run next, level shifts and verdicts, in the report of stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.cli.main import invoke
from pgstrata.judge.overlays import tuning_study
from pgstrata.page.blocks import Table
from pgstrata.page.results import read_results
from pgstrata.report.sections.relative import relative_charts
from pgstrata.report.sections.trend import trends
from pgstrata.report.write import write_report
from pgstrata.store import Results, Run, RunBuilder, RunKey
from pgstrata.store.read import read_run
from pgstrata.store.record import ConfigFileRecord, ConfigRecord
from support.needs import needs
from support.runs import circumstances_of, clone_run, make_run

# Overlay → (rate against the base on l.i1 with 1 client, with 4, settings it changes).
OVERLAYS: dict[str, tuple[float, float, dict[str, str]]] = {
    "a1": (1.08, 1.06, {"wal_compression": "lz4"}),
    "a3": (1.30, 1.30, {"full_page_writes": "off"}),
    "a4": (1.0, 1.0, {}),
    "a9": (0.9, 1.0, {"checkpoint_timeout": "15min"}),
    "a12": (1.03, 1.04, {"wal_buffers": "64MB"}),
}


@pytest.fixture(scope="module")
@needs("long")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    source = make_run(tmp_path_factory.mktemp("source"), RunKey("s", "pg17.11.x", "insert", 1), seconds=2)
    for place, workload in enumerate(("1-client", "4-clients")):
        overlays = {"": (1.0, 1.0, {}), **OVERLAYS}
        for name, overlay in overlays.items():
            for repeat in (1, 2, 3):
                variant = ".".join(["pg17.11", "cached-by-pg", *([name] if name else [])])
                factor = overlay[place] * (1 + 0.001 * repeat * (-1) ** repeat)  # type: ignore[operator]
                write(root, source, RunKey("tuning", variant, workload, repeat), factor, name, overlay[2])
    return root


def write(
    root: Path,
    source: Path,
    key: RunKey,
    factor: float,
    overlay: str,
    changed: dict[str, str],
    workload: str = "insert",
    options: dict[str, Any] | None = None,
) -> None:
    run = read_run(source)
    assert isinstance(run, Run)
    copy = read_run(clone_run(root.parent / "spare", source, key, factor))
    assert isinstance(copy, Run)
    builder: RunBuilder = Results(root).begin(key)
    builder.step(next(s for s in copy.steps if s.name == "l.i1"))
    base = {"full_page_writes": "on", "wal_compression": "off", "synchronous_commit": "on"}
    builder.settings({**run.settings(), **base, **changed})
    names = ("cached-by-pg", *([overlay] if overlay else []))
    config_files = tuple(ConfigFileRecord(name=name, text="") for name in names)
    if options is None:
        clients = int(key.workload[0])
        options = {"rows": 100_000, "rows_i1": 20_000, "seconds": 2, "clients": clients}
    builder.finish(
        structs.replace(
            circumstances_of(copy),
            workload_name=workload,
            options=options,
            config=ConfigRecord(name=key.variant, fragments=config_files, settings={}, dropped=(), mapped=()),
        )
    )


def test_the_next_campaign_of_scripts_is_valid_too(tmp_path: Path) -> None:
    """Options that are tables are written as TOML has them, and those that pgstrata fills in are not."""
    (tmp_path / "mine.sql").write_text("SELECT :customers;\n")
    (tmp_path / "study.toml").write_text(
        """servers = ["pg:17"]
[[workloads]]
name = "custom"
[workloads.options]
define = {customers = 10_000, greeting = "é"}
[[workloads.options.steps]]
scripts = ["mine.sql"]
clients = [1, 8]
reads_only = true
"""
    )
    asked = read_campaign(tmp_path / "study.toml").workloads[0].options
    source = make_run(tmp_path / "source", RunKey("s", "pg17.11.x", "insert", 1), seconds=2)
    options = asked.model_dump(mode="json")
    for name, factor in (("", 1.0), ("a1", 1.3), ("a12", 1.2)):
        for repeat in (1, 2, 3):
            variant = ".".join(["pg17.11", "cached-by-pg", *([name] if name else [])])
            key = RunKey("tuning", variant, "custom", repeat)
            changed = {"work_mem": name or "4MB"}
            write(
                tmp_path / "results", source, key, factor + 0.001 * repeat, name, changed, "custom", options
            )
    out = tmp_path / "next.toml"
    assert invoke(["study", "next", "--results", str(tmp_path / "results"), "--out", str(out)]) == 0
    again = read_campaign(out).workloads[0].options
    assert again.model_dump(mode="json") == options
    assert "contents" in options and "contents" not in out.read_text()


def test_every_overlay_has_its_class(studied: Path) -> None:
    study = tuning_study(Results(studied).runs())
    assert study is not None
    table = study.table
    assert table.set_ups == ("cached-by-pg, 1-client", "cached-by-pg, 4-clients")
    classes = {e.overlay: e.cls for e in table.entries["cached-by-pg, 1-client"]}
    assert classes == {
        "a1": "significant benefit",
        "a3": "ignored",
        "a4": "ignored",
        "a9": "hurt",
        "a12": "small benefit",
    }
    assert table.duplicates == {"a4": None}
    assert list(table.unsafe) == ["a3"]
    assert table.next.overlays == ("a1", "a12")


def test_the_next_campaign_is_valid_and_tries_the_winners(
    studied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "next.toml"
    assert invoke(["study", "next", "--results", str(studied), "--out", str(out)]) == 0
    campaign = read_campaign(out)
    assert [v.config for v in campaign.variants] == [
        ["cached-by-pg"],
        ["cached-by-pg", "a1"],
        ["cached-by-pg", "a12"],
        ["cached-by-pg", "a1", "a12"],
    ]
    clients = [(w.label, w.options.clients) for w in campaign.workloads]
    assert clients == [("1-client", (1,)), ("4-clients", (4,))]
    assert invoke(["study", "next", "--results", str(studied), "--out", str(out)]) == 2
    assert invoke(["study", "next", "--results", str(studied), "--step", "nothing"]) == 2
    capsys.readouterr()
    assert invoke(["study", "show", "--results", str(studied)]) == 0
    output = capsys.readouterr().out
    assert "To try next: a1 + a12 together" in output
    assert "a3 is not safe" in output
    assert "a4 has the same settings as the base" in output


def test_the_report_has_the_table_verdicts_and_intervals(studied: Path, tmp_path: Path) -> None:
    report = write_report(studied, out=tmp_path)
    text = report.markdown.read_text()
    assert "Study of configurations" in text
    assert "a1 1.08" in text
    assert "faster 1.0" in text
    results = read_results(studied)
    chart = relative_charts(results, results.workloads[0])[0]
    hurt = next(trace for trace in chart.data if trace["name"].endswith("a9"))
    verdict = results.verdict(results.workloads[0].steps[0], "pg17.11.cached-by-pg.a9")
    assert verdict is not None
    assert verdict.verdict.word == "slower"
    assert hurt["error_y"]["array"][0] == pytest.approx(
        verdict.verdict.high - verdict.verdict.ratio, abs=2e-3
    )


@pytest.mark.long
def test_a_shift_of_level_is_marked_where_it_happened(tmp_path: Path) -> None:
    source = make_run(tmp_path / "source", RunKey("v", "pg10.1", "insert", 1), seconds=2)
    base = read_run(source)
    assert isinstance(base, Run)
    for version in range(10, 18):
        for repeat in (1, 2, 3):
            factor = (0.9 if version >= 14 else 1.0) * (1 + 0.002 * (repeat - 2))
            variant = f"pg{version}.1"
            run = make_run(tmp_path / "s2", RunKey("v", variant, "insert", repeat), seconds=1, seed=repeat)
            clone_run(tmp_path / "results", run, RunKey("v", variant, "insert", repeat), factor)
    results = read_results(tmp_path / "results")
    section = trends(results, results.workloads[0])
    assert section is not None
    table = next(b for b in section.blocks if isinstance(b, Table))
    marked = {(row.cells[0].text, row.cells[1].text) for row in table.rows}
    assert ("l.i0", "pg14.1") in marked

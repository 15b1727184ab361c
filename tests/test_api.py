"""The public API: what it offers, its words, and that it measures, judges and reads real servers."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pgstrata
from pgstrata import api
from pgstrata.server.find.model import Server
from support.runs import make_campaign

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src/pgstrata"

QUICK = {
    "rows": 2000,
    "steps": ["point-query"],
    "read_seconds": 1,
    "warmup": 0,
    "cache_seconds": 0,
    "settle_base": 0,
}


def test_the_public_surface() -> None:
    assert pgstrata.__all__ == api.__all__ == sorted(api.__all__)
    for name in api.__all__:
        assert getattr(pgstrata, name) is getattr(api, name)
        assert getattr(api, name).__doc__, f"{name} says nothing of itself"
    assert set(api.__all__) <= set(dir(pgstrata))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pgstrata.nothing  # noqa: B018
    assert (SOURCES / "py.typed").is_file()


@pytest.mark.program
def test_an_import_alone_is_light() -> None:
    code = "import sys, pgstrata; print([m for m in ('duckdb', 'numpy', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("keys", "message", "hint"),
    [
        ({"margn": 0.1}, "Study: unknown key `margn`", "did you mean `margin`?"),
        ({"margin": 2.0}, "Study: `margin` must be less than 1.0, not 2.0", "Smallest difference"),
        ({"variants": [{"server": "pg:17", "confg": "x"}]}, "Variant: unknown key `confg`", "`config`"),
        ({"workloads": [{"nam": "sysbench"}]}, "Workload: unknown key `nam`", "`name`"),
    ],
)
def test_what_is_wrong_in_a_study_is_a_sentence_with_the_next_step(
    keys: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(pgstrata.UsageError) as refused:
        pgstrata.Study(**keys)
    assert refused.value.message == message
    assert hint in refused.value.hint


def test_a_study_is_checked_as_a_file_is() -> None:
    with pytest.raises(pgstrata.UsageError, match="study: nothing to compare"):
        pgstrata.run(pgstrata.Study())
    work = pgstrata.Workload(name="sysbnch")
    with pytest.raises(pgstrata.UsageError, match="there is no workload `sysbnch`"):
        pgstrata.run(pgstrata.Study(servers=["pg:17"], workloads=[work]))
    with pytest.raises(ValueError, match="margin must lie between 0 and 1, not 3"):
        pgstrata.Criterion(margin=3)


def test_studies_are_values(tmp_path: Path) -> None:
    study = pgstrata.Study(servers=("pg:16", "pg:17"), results=tmp_path, judge=("p99",))  # type: ignore[arg-type]
    assert study.servers == ["pg:16", "pg:17"]
    assert study.results == str(tmp_path)
    changed = study.replaced(until="verdict")
    assert (study.order, changed.order, changed.judge) == ("sequential", "interleaved", ["p99"])
    with pytest.raises(pgstrata.UsageError, match="Study: `until` must be"):
        study.replaced(until="known")
    with pytest.raises(Exception, match="frozen"):
        study.margin = 0.5  # type: ignore[misc]


def test_stored_runs_are_compared_and_read(tmp_path: Path) -> None:
    make_campaign(tmp_path / "results", seconds=2)
    with pgstrata.open_results(tmp_path / "results") as results:
        (campaign,) = results.campaigns
        assert results.broken == []
        labels = sorted({run.variant for run in results.runs(campaign)})
        rows = results.sql("select distinct variant from runs order by all").fetchall()
        assert [label for (label,) in rows] == labels
        assert results.view("steps").columns[0]
        for statement, why in (
            (f"copy runs to '{tmp_path}/out.csv'", "only reads the results"),
            ("select 1; select 2", "2 statements"),
            ("", "the query is empty"),
        ):
            with pytest.raises(pgstrata.UsageError, match=why):
                results.sql(statement)
    assert not (tmp_path / "out.csv").exists()
    comparison = pgstrata.compare(labels[0], labels[1], results=tmp_path / "results", despite_options=True)
    assert (comparison.base, comparison.other) == (labels[0], labels[1])
    assert {step.verdict.margin for step in comparison.steps} == {0.02}
    wider = pgstrata.Criterion(margin=0.3, confidence=0.99)
    comparison = pgstrata.compare(
        labels[0], labels[1], results=tmp_path / "results", criterion=wider, despite_options=True
    )
    assert {step.verdict.criterion for step in comparison.steps} == {wider}
    with pytest.raises(pgstrata.StoreError, match="no results folder"):
        pgstrata.open_results(tmp_path / "nowhere")


def study_of(place: Path, *servers: Server) -> pgstrata.Study:
    """A study of a second on a data folder of its own."""
    return pgstrata.Study(
        variants=[
            pgstrata.Variant(server=server.spec, label=f"server{number}")
            for number, server in enumerate(servers)
        ],
        workloads=[pgstrata.Workload(name="sysbench", options=QUICK)],
        order="interleaved" if len(servers) > 1 else "sequential",
        results=str(place / "results"),
        data_dir=str(place / "data"),
    )


def test_a_study_is_measured_once_and_judged(
    place: Path, pg17: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    (place / "data").mkdir()
    study = study_of(place, pg17, pg17)
    outcome = pgstrata.run(study)
    assert outcome.failures == ()
    assert [comparison.other for comparison in outcome.comparisons] == ["server1"]
    assert [step.step for step in outcome.comparisons[0].steps] == ["point-query"]
    assert outcome.comparisons[0].steps[0].verdict.word in ("same", "unclear")
    assert sorted(run.variant for run in outcome.runs) == ["server0", "server1"]
    page = outcome.write_report(place / "page")
    assert "server1" in page.read_text()
    again = pgstrata.run(study)
    assert [run.folder for run in again.runs] == [run.folder for run in outcome.runs], (
        "nothing is measured anew"
    )
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", ""), "a library prints nothing unless asked to"


def test_what_fails_is_in_the_outcome(place: Path, pg17: Server) -> None:
    (place / "data").mkdir()
    study = study_of(place, pg17)
    bad = pgstrata.Variant(server=pg17.spec, label="bad", env={"LD_PRELOAD": "/nowhere.so"})
    outcome = pgstrata.run(study.replaced(variants=[*study.variants, bad]))
    (failure,) = outcome.failures
    assert (failure.variant, failure.workload) == ("bad", "sysbench")
    assert failure.reason
    assert [run.variant for run in outcome.runs] == ["server0"]


def test_measuring_on_a_thread(place: Path, pg17: Server) -> None:
    (place / "data").mkdir()
    outcomes: list[pgstrata.Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(pgstrata.run(study_of(place, pg17))))
    thread.start()
    thread.join()
    assert [outcome.failures for outcome in outcomes] == [()]


INTERRUPTED = """
import sys
import pgstrata
study = pgstrata.Study(
    variants=[pgstrata.Variant(server={server!r})],
    workloads=[pgstrata.Workload(name="sysbench", options={options!r})],
    results="results", data_dir="data",
)
try:
    pgstrata.run(study, show_progress=True)
except KeyboardInterrupt:
    print("interrupted, and going on")
"""


def test_ctrl_c_is_a_keyboard_interrupt(place: Path, pg17: Server) -> None:
    (place / "data").mkdir()
    code = INTERRUPTED.format(server=pg17.spec, options={**QUICK, "read_seconds": 60})
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        until = time.monotonic() + 60
        while not list((place / "data").rglob("postmaster.pid")):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
    assert printed == "interrupted, and going on\n"
    assert process.returncode == 0


@pytest.mark.timeout(600)
def test_the_examples_in_the_docs_run(
    place: Path, pg13: Server, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    pages = [ROOT / "README.md", ROOT / "docs/guides/python.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    names: dict[str, Any] = {"__name__": "example"}
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 3
    for code in examples:
        exec(compile(code, "python.md", "exec"), names)
    assert names["outcome"].failures == ()


KEYS = {"variants", "workloads", "servers"}
"""Of a campaign: a dict with two of them is one that is put together by hand."""

READERS = {"campaign/file/reading.py", "campaign/file/template.py", "fleet/portable.py"}
"""Where campaigns are files, or travel as JSON."""


def dict_campaigns(source: str) -> Iterator[int]:
    """Yields the lines of dicts that look like campaigns."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if len(keys & KEYS) > 1:
                yield node.lineno


def test_campaigns_inside_are_studies() -> None:
    assert list(dict_campaigns('x = {"variants": [], "workloads": []}')) == [1]
    places = [
        f"{name}:{line}"
        for path in sorted(SOURCES.rglob("*.py"))
        if (name := path.relative_to(SOURCES).as_posix()) not in READERS
        for line in dict_campaigns(path.read_text(encoding="utf-8"))
    ]
    assert places == []

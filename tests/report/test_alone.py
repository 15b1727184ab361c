"""The report as one file, and the index over the reports of a results folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pgstrata.cli.main import invoke
from pgstrata.errors import StoreError
from pgstrata.files.shipped import chart_script
from pgstrata.page.results import read_results
from pgstrata.report.export_html import asset
from pgstrata.report.index import INDEX, answer_of, write_index
from pgstrata.report.write import write_report_of
from pgstrata.store import Results
from support.browser import BROWSER, Walk, browse, console, needs_browser, requested
from support.page import PageReader
from support.runs import VARIANTS, make_campaign

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two campaigns; the name of one is no friend of pages."""
    root = tmp_path_factory.mktemp("alone") / "results"
    make_campaign(root, campaign="nightly", repeats=3, seconds=4, speeds={VARIANTS[1]: 0.8})
    make_campaign(root, campaign=HOSTILE, repeats=1, seconds=3)
    return root


@pytest.fixture(scope="module")
def alone(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in one file, in a folder that holds nothing else."""
    file = tmp_path_factory.mktemp("one") / "new" / "nightly.html"
    command = ["report", str(results), "--campaign", "nightly", "--out", str(file)]
    assert invoke(command) == 0
    return file


def test_one_file_has_everything_and_names_no_other(alone: Path) -> None:
    assert list(alone.parent.iterdir()) == [alone]
    assert alone.stat().st_mode & 0o777 == 0o600 and alone.parent.stat().st_mode & 0o777 == 0o700
    text = alone.read_text(encoding="utf-8")
    assert chart_script().read_text(encoding="utf-8")[:2000] in text
    without = text.replace(chart_script().read_text(encoding="utf-8"), "").replace(str(asset("page.js")), "")
    targets = re.findall(r'(?:src|href)="([^"]*)"', without)
    assert targets and all(target.startswith(("#", "data:")) for target in targets)


def test_a_name_of_markdown_is_one_file_of_markdown(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "mail" / "nightly.md"
    assert invoke(["report", str(results), "--campaign", "nightly", "--out", str(file)]) == 0
    assert list(file.parent.iterdir()) == [file] and file.stat().st_mode & 0o777 == 0o600
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# nightly\n") and "| Step |" in text
    assert "index.html" not in text, "no chart of a page that is not there"


@pytest.mark.parametrize("name", ["report.pdf", "report.csv"])
def test_a_name_of_another_file_is_no_folder(
    name: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["report", str(results), "--campaign", "nightly", "--out", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert f"is not written as {name[-4:]}" in error and "NAME.html or NAME.md" in error
    assert not (tmp_path / name).exists()


@pytest.mark.program
@needs_browser
def test_one_file_draws_its_charts_with_nothing_beside_it(alone: Path, tmp_path: Path) -> None:
    assert BROWSER
    log = tmp_path / "net.json"
    done = browse(alone, "--dump-dom", f"--log-net-log={log}")
    assert console(done) == []
    with Walk(alone.as_uri()) as walk:
        walk.run("document.querySelectorAll('details').forEach(details => { details.open = true; })")
        walk.run("void document.querySelector('.plot').scrollIntoView()")
        walk.wait_for("document.querySelector('.js-plotly-plot .main-svg')")
        assert walk.console() == []
    assert {url for url in requested(log) if url.startswith("file:")} <= {alone.as_uri()}


@pytest.mark.program
@needs_browser
def test_one_file_and_the_index_fit_400_pixels(alone: Path, index: Path) -> None:
    with Walk(alone.as_uri(), width=400, height=800) as walk:
        for page in (alone, index):
            walk.open(page.as_uri())
            assert walk.run("document.documentElement.scrollWidth") <= 400, page
        assert walk.console() == []


@pytest.fixture(scope="module")
def index(results: Path) -> Path:
    assert invoke(["report", str(results)]) == 0
    return results / INDEX


def test_an_index_leads_to_every_report_and_has_its_answer(index: Path, results: Path) -> None:
    page = PageReader(index)
    answers = {name: answer_of(read_results(results, name)) for name in ("nightly", HOSTILE)}
    assert "proven slower at" in answers["nightly"] and "against pg12.22.x10a" in answers[HOSTILE]
    text = " ".join(page.all_text.split())
    assert all(answer in text for answer in answers.values())
    html = index.read_text(encoding="utf-8")
    links = re.findall(r'href="([^"#]*/index\.html)"', html)
    assert len(links) == 2 and all((results / link).is_file() for link in links)
    assert HOSTILE not in html and 'plotly.min.js" defer' not in html
    assert index.stat().st_mode & 0o777 == 0o600
    assert len(Results(results).entries()) == 8, "the index is no run"


def test_a_single_campaign_needs_no_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_campaign(tmp_path / "results", seconds=3)
    assert invoke(["report", str(tmp_path / "results")]) == 0
    assert not (tmp_path / "results" / INDEX).exists() and "index:" not in capsys.readouterr().out


def test_what_cannot_be_written_is_one_sentence(results: Path, tmp_path: Path) -> None:
    run_set = read_results(results, "nightly")
    (tmp_path / "file").touch()
    (tmp_path / "page.html").mkdir()
    for place in (tmp_path / "file/page.html", tmp_path / "page.html"):
        with pytest.raises(StoreError, match="cannot be written"):
            write_report_of(run_set, place)
    shutil.copytree(results, tmp_path / "results")
    (tmp_path / "results" / INDEX).unlink(missing_ok=True)
    (tmp_path / "results" / INDEX).mkdir()
    with pytest.raises(StoreError, match="cannot write the index"):
        write_index(Results(tmp_path / "results"), {}, {})

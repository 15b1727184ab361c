"""The page in a real browser: no errors, no requests, charts drawn, light and dark, on paper."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pgstrata.report.write import write_report
from pgstrata.store import RunKey
from support.browser import browse, console, needs_browser, requested
from support.runs import make_run

pytestmark = [needs_browser, pytest.mark.program]

SCRIPT = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report that fits into one tall window: two variants whose names are scripts, two steps."""
    root = tmp_path_factory.mktemp("browser")
    for variant in (SCRIPT, "pg17.11.x"):
        folder = make_run(root / "results", RunKey(SCRIPT, variant, "insert", 1), seconds=4)
        data = json.loads((folder / "run.json").read_text())
        data["steps"] = [step for step in data["steps"] if step["name"] in ("l.i1", "qr100")]
        (folder / "run.json").write_text(json.dumps(data))
    return write_report(root / "results", out=root / "report").html


@pytest.mark.timeout(300)
def test_charts_are_drawn_without_errors_or_requests_and_names_do_not_run(page: Path, tmp_path: Path) -> None:
    log = tmp_path / "net.json"
    done = browse(page, "--dump-dom", f"--log-net-log={log}")
    assert console(done) == []
    assert requested(log) == set()
    assert page.read_text().count('class="plot"') == 3
    assert len(re.findall(r'class="plot js-plotly-plot"', done.stdout)) == 3
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None and title.group(1).startswith("&lt;/script&gt;")


@pytest.mark.timeout(300)
def test_a_request_would_be_noticed(tmp_path: Path) -> None:
    asking, log = tmp_path / "page.html", tmp_path / "net.json"
    asking.write_text('<!doctype html><link rel="stylesheet" href="https://fonts.invalid/a.css">')
    browse(asking, f"--log-net-log={log}", "--dump-dom")
    assert requested(log) == {"https://fonts.invalid/a.css"}


@pytest.mark.timeout(300)
def test_charts_out_of_sight_are_left_for_later(page: Path) -> None:
    done = browse(page, "--dump-dom", height=500)
    assert console(done) == []
    assert len(re.findall(r'class="plot js-plotly-plot"', done.stdout)) < 3


@pytest.mark.timeout(300)
def test_a_page_without_its_script_says_so(page: Path, tmp_path: Path) -> None:
    alone = tmp_path / "index.html"
    shutil.copy(page, alone)
    done = browse(alone, "--dump-dom")
    assert done.stdout.count("plotly.min.js is missing beside this page") == 4  # three charts, and the script


@pytest.mark.timeout(300)
def test_dark_is_dark_and_light_is_light(page: Path, tmp_path: Path) -> None:
    seen = {}
    for name, option in (("light", "preferredColorScheme=1"), ("dark", "preferredColorScheme=0")):
        image = tmp_path / f"{name}.png"
        browse(page, f"--blink-settings={option}", f"--screenshot={image}", width=500, height=900)
        seen[name] = image.read_bytes()
    assert seen["light"][:8] == b"\x89PNG\r\n\x1a\n"
    assert seen["light"] != seen["dark"]

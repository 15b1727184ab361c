"""The page in a real browser: no errors, no requests, charts drawn, light and dark, on paper."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pgstrata.report.write import write_report
from pgstrata.store import RunKey
from support.browser import Walk, browse, console, needs_browser, requested
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
    (folded,) = re.findall(r'<details class="part" id="(matrix-[^"]*)"', page.read_text())
    done = browse(page, "--dump-dom", f"--log-net-log={log}", fragment=folded)
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


CLICKS = """
window.addEventListener("load", function () {
  var table = document.querySelector("table.sortable"), said = [];
  function steps() {
    return Array.from(table.tBodies[0].rows).filter(function (row) { return !row.hidden; })
      .map(function (row) { return row.cells[0].firstChild.textContent.trim(); }).join(" ");
  }
  said.push(steps());
  var rate = table.tHead.rows[0].cells[1].querySelector("button");
  rate.click();
  said.push(steps());
  rate.click();
  said.push(steps());
  table.closest("figure").querySelector(".filter input").click();
  said.push(steps());
  document.body.dataset.said = said.join("; ");
});
"""


@pytest.mark.timeout(300)
def test_a_table_that_decides_is_sorted_by_its_heads_and_leaves_what_is_proven(tmp_path: Path) -> None:
    for variant, speed in (("pg12.22.x", 1.0), ("pg17.11.x", 1.4)):
        for repeat in range(1, 6):
            folder = make_run(
                tmp_path / "results", RunKey("c", variant, "insert", repeat), seconds=4, speed=speed
            )
            data = json.loads((folder / "run.json").read_text())
            data["steps"] = [step for step in data["steps"] if step["name"] in ("l.i1", "qr100", "qp1000")]
            for step in data["steps"]:
                if step["name"] == "qr100":
                    step["rate"] = 100.0 + 40 * (repeat % (2 if speed == 1 else 3))
            (folder / "run.json").write_text(json.dumps(data))
    page = write_report(tmp_path / "results", out=tmp_path / "report").html
    (page.parent / "clicks.js").write_text(CLICKS)
    page.write_text(page.read_text().replace("</head>", '<script src="clicks.js"></script></head>'))
    done = browse(page, "--dump-dom")
    assert console(done) == []
    (text,) = re.findall(r'data-said="([^"]*)"', done.stdout)
    first, up, down, proven = text.split("; ")
    assert sorted(first.split()) == ["l.i1", "qp1000", "qr100"]
    assert up.split() == list(reversed(down.split()))
    assert "qr100" in down and "qr100" not in proven and len(proven.split()) == 2


@pytest.mark.timeout(300)
def test_what_has_no_number_comes_last_whichever_way_a_table_is_sorted(tmp_path: Path) -> None:
    for variant, speed in (("pg12.22.x", 1.0), ("pg17.11.x", 1.4)):
        key = RunKey("c", variant, "insert", 1)
        folder = make_run(tmp_path / "results", key, seconds=4, speed=speed)
        data = json.loads((folder / "run.json").read_text())
        steps = ("l.i1", "qp1000", "qr100") if speed == 1 else ("l.i1", "qp1000")
        data["steps"] = [step for step in data["steps"] if step["name"] in steps]
        (folder / "run.json").write_text(json.dumps(data))
    page = write_report(tmp_path / "results", out=tmp_path / "report").html
    (page.parent / "clicks.js").write_text(CLICKS.replace("cells[1]", "cells[2]"))  # of the other variant
    page.write_text(page.read_text().replace("</head>", '<script src="clicks.js"></script></head>'))
    done = browse(page, "--dump-dom")
    (text,) = re.findall(r'data-said="([^"]*)"', done.stdout)
    _, up, down, _ = text.split("; ")
    assert up.split()[-1] == down.split()[-1] == "qr100" and up != down


@pytest.mark.timeout(300)
@pytest.mark.parametrize("width", [400, 1300])
def test_a_label_made_of_many_settings_does_not_make_the_page_scroll_sideways(
    tmp_path: Path, width: int
) -> None:
    label = "pg17.11.enable_indexscan=off.enable_bitmapscan=off.enable_indexonlyscan=off.work_mem=64MB"
    for variant in ("pg17.11", label):
        make_run(tmp_path / "results", RunKey("wide", variant, "insert", 1), seconds=4)
    page = write_report(tmp_path / "results", out=tmp_path / "report").html
    with Walk(page.as_uri()) as walk:
        walk.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        walk.open(page.as_uri() + "?again")
        assert walk.run("document.documentElement.scrollWidth") <= width
        table = "document.querySelector('table.sortable').closest('.scroll')"
        assert walk.run(f"{table}.scrollWidth - {table}.clientWidth") <= 2

"""A site in a browser: hostile texts do not run, commits are compared by keyboard, 400 px suffice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pgstrata.watch.site.command import read_known
from pgstrata.watch.site.write import write_site
from support.browser import Walk, browse, console, needs_browser, requested
from support.tree import git
from support.watched import STEPS, make_watch, raise_alarm

pytestmark = [needs_browser, pytest.mark.program, pytest.mark.timeout(900)]

TORN = """Array.from(document.querySelectorAll('tbody th a')).filter(e => {
  const walk = document.createTreeWalker(e, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let text; text = walk.nextNode();)
    for (const word of text.data.matchAll(/[a-z0-9]+/g)) {
      range.setStart(text, word.index), range.setEnd(text, word.index + word[0].length);
      if (new Set(Array.from(range.getClientRects()).map(r => r.top)).size > 1) return true;
    }
}).map(e => e.innerText)"""
"""The names of steps and commits in whose words a line breaks."""

TAKEN = "document.title='taken'"
HOSTILE = (
    f"</script><script>{TAKEN}</script>",
    f'<img src=x onerror="{TAKEN}">',
    f'" autofocus onfocus="{TAKEN}" x="',
    "<!-- --!> <!--<script>",
    "]]><link rel=stylesheet href=http://hostile.invalid/a.css>",
    "{{7*7}} {% raw %} ${7*7} \x1b[31mred \u202egnp.exe \u2028",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a watch whose name, subjects, reasons, notes and answers are scripts."""
    folder = tmp_path_factory.mktemp("hostile")
    file = make_watch(
        folder,
        [*HOSTILE, *(f"change {n}" for n in range(len(HOSTILE) + 1, 26))],
        {6: -0.03, 20: -0.1},
        name=f"'''{HOSTILE[1]}'''",
        skipped={3: HOSTILE[0]},
        missing={4: HOSTILE[1]},
    )
    raise_alarm(file, 6, -0.03, HOSTILE[0])
    raise_alarm(file, 20, -0.1, HOSTILE[1])
    accepted = git(folder / "repo", "rev-parse", "main~19")
    file.write_text(
        f"{file.read_text()}\n[[acknowledged]]\ncommit = \"{accepted}\"\nnote = '''{HOSTILE[0]}'''\n"
    )
    return write_site(folder / "public", [read_known(file)]).page.parent


def pages(site: Path) -> list[Path]:
    """A page of each kind, those of hostile commits first."""
    folder = next((site / "watch").iterdir())
    commits = sorted((folder / "commits").glob("*.html"), key=lambda page: "<" not in page.read_text()[:900])
    hostile = [page for page in commits if "change " not in page.read_text().partition("<h1>")[2][:60]]
    return [site / "index.html", folder / "compare.html", *(folder / "steps").glob("*.html"), *hostile]


def test_hostile_texts_run_nothing_and_ask_for_nothing(site: Path, tmp_path: Path) -> None:
    assert len(pages(site)) == 4 + len(HOSTILE)
    for number, page in enumerate(pages(site)):
        log = tmp_path / f"{number}.json"
        done = browse(page, "--dump-dom", f"--log-net-log={log}", height=4000)
        assert console(done) == [], page
        assert requested(log) == set(), page
        title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
        assert title and title[1] != "taken"
        assert "49" not in title[1]
        json.loads(page.with_suffix(".json").read_text())
    step = next(page for page in pages(site) if page.parent.name == "steps")
    assert 'class="plot js-plotly-plot"' in browse(step, "--dump-dom", height=4000).stdout


def test_two_commits_are_compared_by_keyboard(site: Path) -> None:
    page = next((site / "watch").iterdir()) / "compare.html"
    rows = "Array.from(document.querySelectorAll('#differences tbody tr')).map(r => r.innerText)"
    with Walk(page.as_uri()) as walk:
        assert len(walk.run(rows)) == 2 and "no change is proven" in walk.run(rows)[1]
        assert "1 of 2 steps moved" in walk.run("said.innerText")
        walk.tab_to("#proven")
        walk.press(" ", 32, " ")
        walk.wait_for(f"{rows}.length == 1")
        assert STEPS[0] in walk.run(rows)[0]
        walk.press(" ", 32, " ")
        walk.wait_for(f"{rows}.length == 2")
        walk.tab_to("[data-sort=change]")
        walk.press("Enter", 13, "\r")
        sort = "document.querySelector('[data-sort=change]').closest('th').getAttribute('aria-sort')"
        walk.wait_for(f"{sort} == 'ascending'")
        assert [STEPS[0] in row for row in walk.run(rows)] == [True, False], "what has no number is last"
        walk.press("Enter", 13, "\r")
        walk.wait_for(f"{sort} == 'descending'")
        walk.open(page.as_uri())
        walk.tab_to("#later")
        walk.press("Home", 36)  # the anchor: both sides are the same commit
        walk.wait_for("said.innerText.includes('no step is proven to have moved')")
        assert walk.run("document.querySelectorAll('#differences .bad, #differences .good').length") == 0
        walk.tab_to("#differences a")
        walk.press("Enter", 13, "\r")
        walk.wait_for("location.href.includes('/steps/')")
        assert walk.console() == []


def test_a_link_leads_to_two_commits(site: Path) -> None:
    page = next((site / "watch").iterdir()) / "compare.html"
    commits = json.loads(page.with_suffix(".json").read_text())["commits"]
    link = f"{page.as_uri()}#{commits[-10]['id'][:10]}..{commits[-1]['id'][:10]}"
    with Walk(link) as walk:
        assert walk.run("said.innerText").startswith(f"{commits[-1]['name']} against {commits[-10]['name']}")


def test_every_page_is_read_and_walked_at_400_pixels(site: Path) -> None:
    with Walk(pages(site)[0].as_uri(), width=400, height=800) as walk:
        for page in pages(site):
            walk.open(page.as_uri())
            walk.wait_for("!document.querySelector('.plot') || document.querySelector('.js-plotly-plot')")
            width = walk.run("document.documentElement.scrollWidth")
            assert width <= 400, (page, width)
            assert walk.run(TORN) == [], page
            walk.tab_to("main a, main summary, main select, main .scroll")
        walk.open(pages(site)[0].as_uri())
        walk.tab_to(".scroll a[href*=commits]")
        walk.press("Enter", 13, "\r")
        walk.wait_for("location.href.includes('/commits/')")
        assert walk.console() == []

"""`pgstrata site`: pages of commits, steps and comparisons; JSON beside them; the feed of alarms."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pgstrata.errors import StoreError
from pgstrata.files import disk
from pgstrata.store import slug
from pgstrata.watch.site.command import read_known
from pgstrata.watch.site.write import write_site
from support.page import PageReader
from support.program import Program
from support.runs import make_campaign
from support.tree import git
from support.watched import STEPS, make_watch, raise_alarm

pytestmark = pytest.mark.program

ATOM = "{http://www.w3.org/2005/Atom}"
FIRST = f"pgbench {STEPS[0]}"
SITE = ["site", "public", "--watch", "watch.toml"]
SUBJECTS = [f"change {n}" for n in range(1, 41)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a watch of forty commits: the tenth is slower and acknowledged, the thirtieth is slower;
    the fifth does not build, and one step of the seventh has no value."""
    folder = tmp_path_factory.mktemp("model")
    file = make_watch(
        folder,
        SUBJECTS,
        {10: -0.03, 30: -0.1},
        skipped={5: "it does not build"},
        missing={7: "no answer"},
    )
    raise_alarm(file, 10, -0.0301)
    raise_alarm(file, 30, -0.1002, "It allocates twice.")
    accepted = git(folder / "repo", "rev-parse", "main~30")
    file.write_text(f'{file.read_text()}\n[[acknowledged]]\ncommit = "{accepted}"\nnote = "it is meant"\n')
    return folder


@pytest.fixture
def watched(model: Path, place: Path) -> Path:
    """A copy of that watch; its file."""
    shutil.copytree(model, place, dirs_exist_ok=True)
    file = place / "watch.toml"
    file.write_text(file.read_text().replace(str(model), str(place)))
    return file


def marks(page: Path) -> list[list[str]]:
    """Colours of the cells of the first page's heat map, row by row."""
    (table,) = (t for t in PageReader(page).tables if t.caption.startswith("Steps and the latest"))
    return [[next(iter({"good", "bad", "missing"} & set(c.classes)), "") for c in row] for row in table.rows]


def test_every_commit_and_step_has_a_page_and_the_same_as_json(
    watched: Path, place: Path, pgstrata: Program
) -> None:
    done = pgstrata(*SITE)
    assert done.returncode == 0, done.stderr
    public = place / "public"
    folder = public / "watch/watched"
    assert len(list((folder / "commits").glob("*.html"))) == 40
    assert len(list((folder / "steps").glob("*.html"))) == 2
    for page in public.rglob("*.html"):
        assert json.loads(page.with_suffix(".json").read_text()), page
        assert page.stat().st_mode & 0o777 == 0o600
        reader = PageReader(page)
        for link in reader.links:
            target = (page.parent / link.partition("#")[0]).resolve()
            assert link.startswith(("#", "data:")) or target.is_file(), (page, link)
    step = json.loads((folder / f"steps/{slug(FIRST)}.json").read_text())
    assert [(c["first"], c["note"]) for c in step["changes"]] == [
        (git(place / "repo", "rev-parse", "main~30"), "it is meant"),
        (git(place / "repo", "rev-parse", "main~10"), None),
    ]
    commit = folder / f"commits/{step['changes'][1]['first']}"
    text = commit.with_suffix(".html").read_text()
    assert "It allocates twice." in text and "10.54 % more instructions" in text
    assert list(json.loads(commit.with_suffix(".json").read_text())["moved"]) == [FIRST]
    skipped = (folder / "commits" / f"{git(place / 'repo', 'rev-parse', 'main~35')}.html").read_text()
    assert "it does not build" in skipped


def test_only_what_is_proven_has_a_colour(watched: Path, place: Path, pgstrata: Program) -> None:
    assert pgstrata(*SITE).returncode == 0
    slower, same = marks(place / "public/index.html")
    # the newest first; behind the name: 31 commits since the tenth, then the nine before, one of them skipped
    assert slower[1:] == ["bad"] * 31 + [""] * 4 + ["missing"] + [""] * 4
    assert same[1:] == [""] * 33 + ["missing", "", "missing"] + [""] * 4
    text = (place / "public/index.html").read_text()
    assert "acknowledged: it is meant" in text and "open alarm" in text
    pages = [page.read_text() for page in (place / "public").rglob("*.html")]
    assert any("+0.00" in page for page in pages) and not any(re.search(r"-0\.00\b", page) for page in pages)


def test_a_page_that_has_not_changed_is_left_and_one_that_is_gone_goes(
    watched: Path, place: Path, pgstrata: Program
) -> None:
    assert pgstrata(*SITE).returncode == 0
    again = pgstrata(*SITE)
    assert "44 pages, 0 files new or changed" in again.stdout
    foreign = place / "public/watch/watched/commits/notes of mine.txt"
    foreign.write_text("mine")
    newest = git(place / "repo", "rev-parse", "main")
    git(place / "repo", "reset", "-q", "--hard", "main~1")
    assert pgstrata(*SITE).returncode == 0
    names = {path.name for path in (place / "public/watch/watched/commits").iterdir()}
    assert f"{newest}.html" not in names and f"{newest}.json" not in names and foreign.name in names
    assert len([name for name in names if name.endswith(".html")]) == 39


def test_two_commits_are_compared_by_the_changes_between_them(
    watched: Path, place: Path, pgstrata: Program
) -> None:
    assert pgstrata(*SITE).returncode == 0
    page = place / "public/watch/watched/compare.html"
    data = json.loads(page.with_suffix(".json").read_text())
    inside = re.search(r'<script type="application/json" id="compared">(.*?)</script>', page.read_text())
    assert inside and json.loads(inside[1]) == data
    assert len(data["commits"]) == 40, "the anchor, and all but the one that does not build"
    step, same = data["steps"]
    assert set(step["levels"]) == {0, 1, 2} and set(same["levels"]) == {0} and same["differences"] == {}
    assert step["differences"]["0-1"]["text"].startswith("3.06 % more instructions")
    assert step["differences"]["1-2"]["text"].startswith("10.54 % more instructions")
    assert step["differences"]["0-2"]["mark"] == "bad"


# --- the feed ---------------------------------------------------------------------------------


def check_atom(text: bytes) -> list[ElementTree.Element]:
    """Checks what RFC 4287 asks of a feed (sections 4.1.1, 4.1.2, 3.3 and 4.2.6); returns its entries."""
    feed = ElementTree.fromstring(text)
    assert feed.tag == f"{ATOM}feed"
    entries = feed.findall(f"{ATOM}entry")
    for element in (feed, *entries):
        for name in ("id", "title", "updated"):
            (child,) = element.findall(f"{ATOM}{name}")
            assert child.text and child.text.strip()
        for date in [*element.findall(f"{ATOM}updated"), *element.findall(f"{ATOM}published")]:
            assert datetime.fromisoformat(date.text or "").tzinfo is not None
        assert (element.findtext(f"{ATOM}id") or "").startswith("urn:uuid:")
        alternates = [link for link in element.findall(f"{ATOM}link") if link.get("rel") == "alternate"]
        assert len(alternates) == 1 and alternates[0].get("href")
    assert [link.get("href") for link in feed.findall(f"{ATOM}link") if link.get("rel") == "self"]
    assert feed.findtext(f"{ATOM}author/{ATOM}name")
    ids = [entry.findtext(f"{ATOM}id") for entry in entries]
    assert len({*ids, feed.findtext(f"{ATOM}id")}) == len(ids) + 1
    return entries


def test_alarms_are_a_feed_with_ids_that_stay(watched: Path, place: Path, pgstrata: Program) -> None:
    assert pgstrata(*SITE).returncode == 0
    feed = place / "public/feed.xml"
    entries = check_atom(feed.read_bytes())
    assert [(entry.findtext(f"{ATOM}title") or "").split(":")[0] for entry in entries] == [FIRST, FIRST]
    assert "Acknowledged: it is meant" in (entries[1].findtext(f"{ATOM}content") or "")
    for entry in entries:
        link = entry.find(f"{ATOM}link")
        assert link is not None and (place / "public" / (link.get("href") or "")).is_file()
    before = [entry.findtext(f"{ATOM}id") for entry in entries]
    alarms = place / "watch/watched/alarms.json"
    data = json.loads(alarms.read_text())
    data["alarms"][1] |= {"state": "open", "commits": [], "good": data["alarms"][0]["bad"], "ended": ""}
    alarms.write_text(json.dumps(data))
    assert pgstrata(*SITE).returncode == 0
    again = check_atom(feed.read_bytes())
    assert [entry.findtext(f"{ATOM}id") for entry in again] == before
    assert "between" in (again[0].findtext(f"{ATOM}title") or "")


def test_a_watch_without_alarms_has_an_empty_feed(place: Path, pgstrata: Program) -> None:
    make_watch(place, ["one", "two"], {}, unmeasured=[1, 2])
    done = pgstrata(*SITE)
    assert done.returncode == 0, done.stderr
    assert check_atom((place / "public/feed.xml").read_bytes()) == []
    assert "Nothing has been measured yet." in (place / "public/index.html").read_text()


# --- results, several watches, mistakes -------------------------------------------------------


def test_reports_of_results_are_written_once(place: Path, pgstrata: Program) -> None:
    make_campaign(place / "results", seconds=3)
    make_campaign(place / "results", campaign="of <one> & two", seconds=3)
    done = pgstrata("site", "public", "--results", "results")
    assert done.returncode == 0, done.stderr
    links = [link for link in PageReader(place / "public/index.html").links if link.startswith("reports/")]
    assert len(links) == 2
    pages = [place / "public" / link for link in links]
    before = [page.stat().st_mtime_ns for page in pages]
    assert not (place / "public/feed.xml").exists()
    make_campaign(place / "results", seconds=3)
    assert pgstrata("site", "public", "--results", "results").returncode == 0
    after = [page.stat().st_mtime_ns for page in pages]
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1, "of the campaign with new runs"


def test_another_machine_shows_what_was_measured(
    watched: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = read_known(watched)
    monkeypatch.setattr("pgstrata.watch.measure.COUNTED_AS", "otherwise")
    assert read_known(watched).epoch == known.epoch
    assert len(read_known(watched).points(known.series[FIRST])) == 40


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["site", "public"], ["nothing to show", "--watch", "--results"]),
        (["site", "public", "--watch", "no.toml"], ["there is no watch file", "no.toml"]),
        (["site", "public", "--results", "nowhere"], ["there is no results folder nowhere"]),
        (["site", "file", "--results", "."], ["file is a file"]),
        (
            ["site", "repo", "--watch", "watch.toml"],
            ["repo has files that are not of a site", "empty"],
        ),
        (
            ["watch", "watch.toml", "--site", "repo"],
            ["repo has files that are not of a site", "empty"],
        ),
        ([*SITE, "--watch", "watch.toml"], ["two watches are called watched", "name"]),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    watched: Path, place: Path, pgstrata: Program, arguments: list[str], words: list[str]
) -> None:
    (place / "file").write_text("")
    done = pgstrata(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert not (place / "repo/index.html").exists()


def test_a_full_disk_is_one_sentence_and_the_next_time_completes_it(
    watched: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, real, written = read_known(watched), disk.replace, 0

    def full(path: Path, *data: bytes, **options: Any) -> None:
        nonlocal written
        written += 1
        if written > 25:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        real(path, *data, **options)

    monkeypatch.setattr(disk, "replace", full)
    with pytest.raises(StoreError, match="no space left to write the site"):
        write_site(place / "public", [known])
    monkeypatch.undo()
    done = write_site(place / "public", [known])
    assert done.pages == 44 and 0 < done.changed < 88
    for page in (place / "public").rglob("*.html"):
        json.loads(page.with_suffix(".json").read_text())
    assert {path.name for path in (place / "public").rglob(".*")} == {".lock"}

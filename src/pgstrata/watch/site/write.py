"""Writes a site: what has not changed is left as it is, and pages of commits that are gone go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from jinja2 import Environment

from pgstrata.errors import UsageError
from pgstrata.files import disk
from pgstrata.files.disk import storing
from pgstrata.files.user_files import shown
from pgstrata.report.export_html import asset, environment, policy
from pgstrata.report.index import campaigns_section
from pgstrata.report.write import copy_plotly, release
from pgstrata.store import Results
from pgstrata.store.lock import ResultsLock, check_results, own_results
from pgstrata.watch.known import Known
from pgstrata.watch.site import feed
from pgstrata.watch.site.campaigns import write_campaigns
from pgstrata.watch.site.sheets import Sheet, WatchSite

PACKAGE = "pgstrata.watch.site"
SCRIPTS = {"compare.js": PACKAGE, "page.js": "pgstrata.report", "style.css": "pgstrata.report"}
"""Files beside the pages, and the packages whose templates have them."""

_PAGE = re.compile(r"[0-9A-Za-z._~-]+\.(?:html|json)")


@dataclass(frozen=True)
class Written:
    """What was written. page: the first; pages: how many there are; changed: how many files are new."""

    page: Path
    pages: int
    changed: int


def check_folder(out: Path) -> None:
    """Raises UsageError for what is no folder, and for a folder with other files than a site's: pages would
    be written over them; StoreError for one that cannot be written."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{shown(out)} is a file", "name a folder, which is made if need be")
    with storing("look into the folder of the site", out), suppress(FileNotFoundError):
        names = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
        if names and next(iter(SCRIPTS)) not in names:
            raise UsageError(
                f"{shown(out)} has files that are not of a site: {shown(names[0])}",
                "name an empty folder, or one that pgstrata site has written",
            )
    check_results(out)


def write_site(out: Path, watches: Sequence[Known], results: Path | None = None) -> Written:
    """Writes the pages of watches, and of the campaigns of a results folder. Raises UsageError for two
    watches of one name and as `check_folder`, StoreError where the site cannot be written."""
    check_folder(out)
    names = [known.watch.name for known in watches]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two watches are called {twice}", "give one of them another `name` in its file")
    with ResultsLock(out), storing("write the site", out):
        sites = [WatchSite(known) for known in watches]
        writer = _Writer(out, sites)
        for name, package in SCRIPTS.items():
            writer.write(name, str(asset(name, package)).encode())
        copy_plotly(out / "plotly.min.js")
        sheets = [sheet for site in sites for sheet in site.sheets()]
        sheets.append(_first(sites, Results(results) if results else None, out))
        for sheet in sheets:
            writer.sheet(sheet)
        if sites:
            writer.write(feed.NAME, feed.atom(sites))
        writer.remove_old(sites)
    return Written(out / "index.html", len(sheets), writer.changed)


def _first(sites: Sequence[WatchSite], results: Results | None, out: Path) -> Sheet:
    """Returns the first page, and writes the reports that it leads to."""
    campaigns = write_campaigns(results, out) if results else []
    sections = [
        section
        for number, site in enumerate(sites)
        for section in site.overview(number, is_only=len(sites) == 1)
    ]
    if results:
        sections.append(campaigns_section(campaigns, len(results.broken)))
    title = ", ".join(site.known.watch.name for site in sites) or "Results"
    data = {
        "watches": [site.record() for site in sites],
        "campaigns": [
            {"campaign": c.name, "runs": len(c.runs), "page": c.address or None} for c in campaigns
        ],
    }
    return Sheet("index", title, "", sections, data)


def render(
    templates: Environment,
    sheet: Sheet,
    *,
    root: str,
    links: Sequence[tuple[str, str]],
    json_name: str,
    feed: str,
) -> bytes:
    """Returns a page. root: the way to the files that all pages share. links: names and addresses of other
    pages. json_name, feed: addresses of the same as JSON, and of the feed from the root; or empty."""
    text = templates.get_template(sheet.template).render(
        title=sheet.title,
        lede=sheet.lede,
        sections=sheet.sections,
        variants=(),
        policy=policy(),
        root=root,
        links=links,
        json_name=json_name,
        feed=feed,
        has_chart=sheet.has_chart,
        made=f"Made by pgstrata {release()}.",
        **sheet.more,
    )
    return text.encode("utf-8", "replace")


class _Writer:
    """Writes the files of a site that are new or have changed. Raises OSError."""

    def __init__(self, out: Path, sites: Sequence[WatchSite]) -> None:
        self.changed = 0
        self._out, self._sites = out, sites
        self._templates = environment(PACKAGE)
        self._written: set[Path] = set()

    def sheet(self, sheet: Sheet) -> None:
        """Writes a page and the JSON beside it."""
        links = [("Overview", f"{sheet.root}index.html")]
        for site in self._sites:
            word = (
                f"Compare commits of {site.known.watch.name}" if len(self._sites) > 1 else "Compare commits"
            )
            links.append((word, f"{sheet.root}{site.folder}/compare.html"))
        page = render(
            self._templates,
            sheet,
            root=sheet.root,
            links=links,
            json_name=f"{sheet.path.rpartition('/')[2]}.json",
            feed=feed.NAME if self._sites else "",
        )
        self.write(f"{sheet.path}.html", page)
        self.write(f"{sheet.path}.json", msgspec.json.encode(sheet.data) + b"\n")

    def write(self, name: str, data: bytes) -> None:
        """Writes a file below the site, unless it has this content already."""
        path = self._out / name
        self._written.add(path)
        with suppress(OSError):
            if path.lstat().st_size == len(data) and disk.read_regular(path, len(data)) == data:
                return
        for folder in reversed(path.relative_to(self._out).parents):
            own_results(self._out / folder)
        disk.replace(path, data, durable=False)
        self.changed += 1

    def remove_old(self, sites: Sequence[WatchSite]) -> None:
        """Removes pages of commits and steps that are no longer watched."""
        for site in sites:
            for folder in (self._out / site.folder / "commits", self._out / site.folder / "steps"):
                for path in folder.glob("*"):
                    if path not in self._written and _PAGE.fullmatch(path.name):
                        path.unlink()


__all__ = ["PACKAGE", "SCRIPTS", "Written", "check_folder", "render", "write_site"]

"""Reads a report's page with the standard library's parser, as a browser would see its structure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from pgstrata.report.write import Report


@dataclass
class ReadCell:
    text: str = ""
    classes: tuple[str, ...] = ()
    title: str = ""


@dataclass
class ReadTable:
    caption: str = ""
    head: list[str] = field(default_factory=list)
    rows: list[list[ReadCell]] = field(default_factory=list)
    row_classes: list[str] = field(default_factory=list)


class PageReader(HTMLParser):
    """Tables, headings, scripts, links and figures of a page.

    What an assistive technology reads in addition (class `aside`) and the signs are part of a cell's text.
    """

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tables: list[ReadTable] = []
        self.headings: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.figures: dict[str, Any] = {}
        self.text: list[str] = []
        self._caption = ""
        self._into = ""
        self._figure = ""
        self.feed(page.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if given.get("id"):
            self.ids.append(given["id"] or "")
        if tag == "script":
            self.scripts.append(given)
            self._into = "figure" if given.get("type") == "application/json" else "script"
            self._figure = given.get("id") or ""
        elif tag == "style":
            self._into = "style"
        elif tag == "figcaption":
            self._into, self._caption = "caption", ""
        elif tag in ("h1", "h2", "h3", "h4"):
            self._into = "heading"
            self.headings.append("")
        elif tag == "table":
            self.tables.append(ReadTable(self._caption.strip()))
        elif tag == "thead":
            self._into = "head"
        elif tag == "tbody":
            self._into = "body"
        elif tag == "tr" and self._into == "body":
            self.tables[-1].rows.append([])
            self.tables[-1].row_classes.append(given.get("class") or "")
        elif tag in ("td", "th"):
            if self._into == "head":
                self._into = "head cell"
                self.tables[-1].head.append("")
            else:
                self._into = "cell"
                classes = tuple((given.get("class") or "").split())
                self.tables[-1].rows[-1].append(ReadCell("", classes, given.get("title") or ""))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        for name in ("src", "srcset", "action", "poster"):
            if given.get(name):
                self.links.append(given[name] or "")
        if tag == "link" and given.get("href"):
            self.links.append(given["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._into = "body" if self._into == "cell" else "head"
        elif tag in ("script", "style", "figcaption", "h1", "h2", "h3", "h4", "table"):
            self._into = ""

    def handle_data(self, data: str) -> None:
        if self._into == "figure":
            self.figures[self._figure] = json.loads(data)
        elif self._into == "caption":
            self._caption += data
        elif self._into == "heading":
            self.headings[-1] += data
        elif self._into == "head cell":
            self.tables[-1].head[-1] += data
        elif self._into == "cell":
            self.tables[-1].rows[-1][-1].text += data
        if self._into not in ("script", "style", "figure"):
            self.text.append(data)

    def table(self, caption: str) -> ReadTable:
        """The first table whose caption begins like this."""
        return next(table for table in self.tables if table.caption.startswith(caption))

    @property
    def all_text(self) -> str:
        return "".join(self.text)


@dataclass(frozen=True)
class Written:
    """A report, the folder of its runs, and its page as read."""

    results: Path
    report: Report
    page: PageReader

    @property
    def tables(self) -> Path:
        return self.report.html.parent / "tables"

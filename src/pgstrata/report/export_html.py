"""The report as one HTML page that opens from disk without a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pgstrata.page.blocks import SIGNS, Block, Chart, Section, Table
from pgstrata.page.charts import color

SPOKEN = {
    "good": "better",
    "bad": "worse",
    "same": "the same",
    "missed": "service level missed",
}


@dataclass(frozen=True)
class Switch:
    """A variant in the navigation, by which it is shown or hidden on the whole page."""

    label: str
    color: str
    base: bool


@dataclass(frozen=True)
class Page:
    """Everything the template needs."""

    title: str
    lede: str
    sections: Sequence[Section]
    variants: Sequence[Switch]
    csv_names: Sequence[str]
    run_count: int
    version: str
    made: str


def embedded(value: Any) -> str:
    """JSON that is safe inside a <script>: nothing in it can end the element or open a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for char in ("<", ">", "&", "\u2028", "\u2029"):
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _figure(chart: Chart) -> Markup:
    return Markup(embedded({"data": chart.data, "layout": chart.layout}))  # escaped by `embedded`


def _kind(block: Block) -> str:
    return type(block).__name__


@dataclass(frozen=True)
class _Style:
    """How the cells of a column look, worked out once for all of them."""

    css: str
    long: bool
    swatch: bool


def _styled(table: Table) -> list[_Style]:
    made = []
    for index, column in enumerate(table.columns):
        names = [column.align, "lead" if index < table.lead else "", "rule" if column.rule else ""]
        css = " ".join(name for name in names if name)
        made.append(_Style(css, column.align == "left", column.key == "variant"))
    return made


@cache
def _asset(name: str) -> Markup:
    return Markup((files("pgstrata.report") / "templates" / name).read_text(encoding="utf-8"))


def policy(script: str) -> str:
    """A content security policy that lets the page run its own two scripts and reach nothing else.

    `file:` is there because browsers do not count a page opened from disk as its own origin.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' file: 'sha256-{digest}'; "
        "style-src 'unsafe-inline'; img-src 'self' file: data: blob:; base-uri 'none'; form-action 'none'"
    )


def write_html(page: Page) -> str:
    """The page. All text in it is escaped by the template engine, JSON by `embedded`."""
    environment = Environment(
        loader=PackageLoader("pgstrata.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        kind_of=_kind,
        styled=_styled,
        figure=_figure,
        palette=color,
        signs=SIGNS,
        spoken=SPOKEN,
        colors={variant.label: variant.color for variant in page.variants},
    )
    script = _asset("page.js")
    return environment.get_template("page.html.j2").render(
        **vars(page), style=_asset("style.css"), script=script, policy=policy(str(script))
    )

"""The report as one HTML page that opens from disk without a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pgstrata.files.shipped import chart_script
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
    """Everything the template needs. alone: nothing lies beside the page, not even the script of charts."""

    title: str
    lede: str
    sections: Sequence[Section]
    variants: Sequence[Switch]
    csv_names: Sequence[str]
    run_count: int
    version: str
    created: str
    alone: bool = False


def embedded(value: Any) -> str:
    """Returns JSON that is safe inside a <script>: nothing in it can end the element or open a comment."""
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
    styles = []
    for index, column in enumerate(table.columns):
        names = [column.align, "lead" if index < table.lead else "", "rule" if column.rule else ""]
        css = " ".join(name for name in names if name)
        styles.append(_Style(css, column.align == "left", column.key == "variant"))
    return styles


@cache
def asset(name: str, package: str = "pgstrata.report") -> Markup:
    """Returns a file that the pages of a package are made with: `style.css`, `page.js`."""
    return Markup((files(package) / "templates" / name).read_text(encoding="utf-8"))


def policy(*scripts: str) -> str:
    """Returns a content security policy that lets the page run the scripts beside it and these, which are in
    it, and reach nothing else.

    `file:` is there because browsers do not count a page opened from disk as its own origin.
    """
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(["'self' file:", *(f"'sha256-{digest}'" for digest in hashes)])
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'self' file: 'unsafe-inline'; "
        "img-src 'self' file: data: blob:; base-uri 'none'; form-action 'none'"
    )


def environment(package: str = "", *, colors: Mapping[str, str] | None = None) -> Environment:
    """Returns the template engine with what the templates of blocks need.

    package: has templates of its own, which may extend those of reports. colors: of variants by label.
    """
    loaders = [PackageLoader(name, "templates") for name in ("pgstrata.report", package) if name]
    templates = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals.update(
        kind_of=_kind,
        styled=_styled,
        figure=_figure,
        palette=color,
        signs=SIGNS,
        spoken=SPOKEN,
        colors=colors or {},
        has_csv=not package,
    )
    return templates


def write_html(page: Page) -> str:
    """Returns the page as HTML. All text in it is escaped by the template engine, JSON by `embedded`."""
    script = asset("page.js")
    plotly = _chart_script() if page.alone and _has_chart(page.sections) else Markup("")
    templates = environment(colors={variant.label: variant.color for variant in page.variants})
    templates.globals["has_csv"] = not page.alone
    return templates.get_template("page.html.j2").render(
        **vars(page),
        style=asset("style.css"),
        script=script,
        plotly=plotly,
        policy=policy(str(script), *([str(plotly)] if plotly else [])),
    )


def _chart_script() -> Markup:
    """Returns the script of the charts as it may stand in a page: nothing in it ends the element."""
    text = chart_script().read_text(encoding="utf-8")
    return Markup(text.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


def _has_chart(sections: Sequence[Section]) -> bool:
    return any(
        any(isinstance(block, Chart) for block in section.blocks) or _has_chart(section.parts)
        for section in sections
    )

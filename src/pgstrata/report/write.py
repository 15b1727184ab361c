"""Writes the report of a campaign: one page, and the same tables as Markdown and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

from pgstrata.errors import StoreError
from pgstrata.files import disk
from pgstrata.files.ownership import own_folder, write_private
from pgstrata.files.shipped import chart_script
from pgstrata.page.blocks import Section
from pgstrata.page.charts import color
from pgstrata.page.frames import Frames
from pgstrata.page.results import RunSet, read_results
from pgstrata.report.export_csv import write_csv
from pgstrata.report.export_html import Page, Switch, write_html
from pgstrata.report.export_markdown import write_markdown
from pgstrata.report.flames import FOLDER as FLAMES
from pgstrata.report.flames import draw_flames, read_flames
from pgstrata.report.page import lede, sections, tables
from pgstrata.report.parts import report_parts

ALONE = (".html", ".md")
"""How the names of files end that are written alone."""


@dataclass(frozen=True)
class Report:
    """What was written. `tables` are the CSV files, by name; a page alone has neither these nor Markdown."""

    campaign: str
    html: Path
    markdown: Path
    tables: tuple[Path, ...] = ()


def write_report(
    results: Path,
    campaign: str | None = None,
    base: str | None = None,
    *,
    out: Path,
    thresholds: tuple[float, float] | None = None,
    title: str | None = None,
) -> Report:
    """Writes `out`/index.html, plotly.min.js, report.md and tables/*.csv; files of these names are replaced.

    campaign: needed where the results hold several. base: label of the variant the others are held
    against, the first if None. title: of the page, the campaign's name if None.
    Raises StoreError without runs or where `out` cannot be written, UsageError for a name that is not there.
    """
    run_set = read_results(results, campaign, base, thresholds)
    return write_report_of(run_set, out, title=title)


def write_report_of(run_set: RunSet, out: Path, *, title: str | None = None) -> Report:
    """Writes the report of runs that have been read already; title: as in `write_report`. A name that ends
    with .html or .md is that of one file, which nothing lies beside.

    Raises StoreError where `out` cannot be written, and OwnershipError where it is another user's, who could
    have files of these names lead elsewhere.
    """
    if out.suffix in ALONE:
        return _write_alone(run_set, out, title)
    try:
        for folder in (out, out / "tables", *([out / FLAMES] if (out / FLAMES).exists() else [])):
            own_folder(
                folder,
                "the folder of the report",
                advice="name another one with --out",
                mode=0o700,
                way=False,
            )
        stacks = read_flames(run_set)
        for part in report_parts():
            stacks |= part.flames_of(run_set)
        flames, trouble = draw_flames(run_set, stacks, out)
    except OSError as cause:
        raise _unwritable(out, cause) from cause
    page_sections = sections(run_set, Frames(run_set), flames, trouble)
    names = write_page(
        title or run_set.campaign,
        lede(run_set),
        page_sections,
        out,
        run_count=_run_count(run_set),
        variants=_switches(run_set),
    )
    return Report(
        run_set.campaign,
        out / "index.html",
        out / "report.md",
        tuple(out / "tables" / name for name in names),
    )


def _write_alone(run_set: RunSet, file: Path, title: str | None) -> Report:
    """Writes the report into one file: without flame graphs, which are images beside other reports."""
    parts = sections(run_set, Frames(run_set))
    if file.suffix == ".md":
        text = write_markdown(title or run_set.campaign, lede(run_set), parts, alone=True)
    else:
        page = Page(
            title=title or run_set.campaign,
            lede=lede(run_set),
            sections=parts,
            variants=_switches(run_set),
            csv_names=(),
            run_count=_run_count(run_set),
            version=release(),
            created=made_now(),
            alone=True,
        )
        text = write_html(page)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(file, text)
    except OSError as cause:
        raise _unwritable(file, cause) from cause
    return Report(run_set.campaign, file, file)


def _switches(run_set: RunSet) -> list[Switch]:
    return [Switch(v, color(run_set.color(v)), v == run_set.base) for v in run_set.variants]


def _run_count(run_set: RunSet) -> int:
    return sum(map(len, (run_set.runs, run_set.failed, run_set.counted, run_set.imported)))


def made_now() -> str:
    """Returns when a page is made, as it says at its end."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def write_page(
    title: str,
    lede: str,
    sections: Sequence[Section],
    out: Path,
    *,
    run_count: int,
    variants: Sequence[Switch] = (),
) -> tuple[str, ...]:
    """Writes sections as a page, `out`/index.html, with its script, as Markdown and as CSV; returns the names
    of the CSV files. Raises StoreError.
    """
    sheets = write_csv(tables(list(sections)))
    page = Page(
        title=title,
        lede=lede,
        sections=sections,
        variants=variants,
        csv_names=sorted(sheets),
        run_count=run_count,
        version=release(),
        created=made_now(),
    )
    try:
        own_folder(
            out / "tables", "the folder of the report", advice="name another one", mode=0o700, way=False
        )
        for name, text in sheets.items():
            write_file(out / "tables" / name, text)
        write_file(out / "report.md", write_markdown(title, lede, list(sections)))
        copy_plotly(out / "plotly.min.js")
        write_file(out / "index.html", write_html(page))
    except OSError as cause:
        raise _unwritable(out, cause) from cause
    return tuple(sorted(sheets))


def _unwritable(out: Path, cause: OSError) -> StoreError:
    return StoreError(
        f"the report cannot be written to {out}: {cause.strerror or cause}",
        "Name another folder with --out.",
    )


def write_file(path: Path, text: str) -> None:
    """Writes a file whole or not at all. Text that is not valid Unicode (names taken from a server's bytes)
    is replaced."""
    disk.replace(path, text.encode("utf-8", "replace"), durable=False)


def copy_plotly(path: Path) -> None:
    """Copies the script of the charts (MIT licence, named in its head). Raises OSError."""
    source = chart_script()
    if not path.exists() or path.stat().st_size != source.stat().st_size:
        write_private(path, source.read_bytes())


def release() -> str:
    """Returns the version of pgstrata that is installed."""
    try:
        return installed_version("pgstrata")
    except PackageNotFoundError:
        return "from a source tree"

"""What the server shows of runs: a list of campaigns, of runs, and a page for each run."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from pgstrata.cli.show import lines
from pgstrata.errors import harmless
from pgstrata.numbers import counted
from pgstrata.page.blocks import Block, Column, Listing, Prose, Row, Section, Table, words
from pgstrata.report.index import CampaignRuns, campaigns_section
from pgstrata.store import Run, slug
from pgstrata.store.catalogue import Entry
from pgstrata.watch.serve.folder import is_folder
from pgstrata.watch.serve.snapshot import Snapshot
from pgstrata.watch.site.sheets import Sheet

PAGE_ROWS = 200
"""Rows of a list on one page."""


def overview(results: Path | None, snapshot: Snapshot | None, page: int) -> Sheet:
    """Returns the first page: campaigns, the latest first."""
    sections: list[Section] = []
    data: dict[str, Any] = {"is_read": results is None or snapshot is not None}
    if results is None:
        sections.append(
            Section("results", "Results", [Prose("No results folder is shown: --results names one.")])
        )
    elif snapshot is None or snapshot.trouble:
        sections.append(Section("campaigns", "Campaigns", [Prose(_why(snapshot))]))
    else:
        part = snapshot.campaigns[page * PAGE_ROWS :][:PAGE_ROWS]
        shown = [CampaignRuns(c.name, c.runs, _address(results, c)) for c in part]
        sections.append(campaigns_section(shown, snapshot.broken))
        sections.append(_pages("/", {}, page, len(snapshot.campaigns), "campaign"))
        data["campaigns"] = [{"campaign": c.name, "runs": len(c.runs), "page": c.address} for c in shown]
        data["total"] = len(snapshot.campaigns)
    return Sheet("index", "Results", f"{results.resolve()}" if results else "", sections, data)


def _why(snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "The runs are being read for the first time: load this page again in a moment."
    return f"The runs cannot be read: {snapshot.trouble}"


def _address(results: Path, campaign: CampaignRuns) -> str:
    """Returns the address of a campaign's report, or of its runs where none was written."""
    name = f"{slug(campaign.name)}.report"
    if is_folder(results, name):
        return f"/reports/{name}/"
    return f"/runs?{urlencode({'campaign': campaign.name})}"


def run_list(snapshot: Snapshot | None, campaign: str | None, page: int) -> Sheet:
    """Runs, the latest first. campaign: only of this one."""
    title = f"Runs of {campaign}" if campaign else "Runs"
    if snapshot is None or snapshot.trouble:
        return Sheet(
            "runs", title, "", [Section("runs", "Runs", [Prose(_why(snapshot))])], {"is_read": False}
        )
    runs = snapshot.runs
    if campaign is not None:
        runs = snapshot.by_campaign.get(campaign, ())
    part = runs[page * PAGE_ROWS :][:PAGE_ROWS]
    columns = [
        Column(name, title_, align="left")
        for name, title_ in (
            ("run", "Run"),
            ("campaign", "Campaign"),
            ("variant", "Variant"),
            ("workload", "Workload"),
            ("repeat", "Repeat"),
            ("status", "Status"),
        )
    ]
    rows = [
        Row(
            [
                words(run.run_id, href=f"/runs/{quote(run.run_id, safe='')}"),
                words(run.campaign),
                words(run.variant),
                words(run.workload),
                words(str(run.repeat)),
                words(run.status, run.error or ""),
            ]
        )
        for run in part
    ]
    blocks: list[Block] = [Prose("There are none.", "even")]
    if rows:
        blocks = [Table("runs", "The latest first", columns, rows, "", stacked=True)]
    query = {"campaign": campaign} if campaign else {}
    sections = [Section("runs", "Runs", blocks), _pages("/runs", query, page, len(runs), "run")]
    data = {"is_read": True, "total": len(runs), "runs": [_fields(run) for run in part]}
    return Sheet("runs", title, "", sections, data)


def _fields(run: Entry) -> dict[str, Any]:
    wanted = ("run_id", "campaign", "variant", "workload", "repeat", "status", "started", "error", "steps")
    return {name: getattr(run, name) for name in wanted}


def _pages(path: str, query: dict[str, str], page: int, total: int, what: str) -> Section:
    """Returns a section that says which part of a list is shown, with links to the other parts."""
    last = max(0, -(-total // PAGE_ROWS) - 1)
    columns = [Column("page", "Page", align="left")]
    rows = [
        Row([words(word, href=f"{path}?{urlencode({**query, 'page': number + 1})}")])
        for word, number in (("newer", page - 1), ("older", page + 1), ("oldest", last))
        if 0 <= number <= last and number != page
    ]
    prose = Prose(f"{counted(total, what)}, page {page + 1:,} of {last + 1:,}.", "even")
    ways: list[Block] = [Table("pages", "Other pages", columns, rows, "")] if rows else []
    return Section("pages", "Pages", [prose, *ways])


def run_page(run: Run) -> Sheet:
    """Returns the page of one run, as `pgstrata show` shows it."""
    record = run.record
    text = "\n".join(harmless(line) for line in lines(run))
    where = f"{record.campaign}, {record.variant}, {record.workload}, repeat {record.repeat}"
    section = Section("run", "Run", [Listing("As `pgstrata show` shows it", text, open=True)])
    return Sheet(run.run_id, run.run_id, where, [section], msgspec.to_builtins(record))


__all__ = ["overview", "run_list", "run_page"]

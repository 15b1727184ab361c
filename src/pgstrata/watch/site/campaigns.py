"""The campaigns of a results folder on a site: a list of them, and the report of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pgstrata.errors import PgstrataError
from pgstrata.files import disk
from pgstrata.files.bounded import BoundError, json_any
from pgstrata.numbers import counted
from pgstrata.page.blocks import Column, Prose, Row, Section, Table, words
from pgstrata.page.results import read_results
from pgstrata.report.write import release, write_report_of
from pgstrata.store import Results, slug
from pgstrata.store.catalogue import Entry
from pgstrata.store.kept import digest

MOST_REPORTS = 100
"""Campaigns whose reports are on the site, the latest."""

MOST_BYTES = 64 << 20
RUNS = "runs.json"


@dataclass(frozen=True)
class CampaignRuns:
    """A campaign and its runs. address: of its report, empty where there is none."""

    name: str
    runs: Sequence[Entry]
    address: str = ""

    @property
    def latest(self) -> str:
        """When its last run began (ISO 8601)."""
        return max(run.started for run in self.runs)


def campaign_runs(entries: Sequence[Entry]) -> list[CampaignRuns]:
    """Returns the campaigns of these runs, the latest first."""
    by_name: dict[str, list[Entry]] = {}
    for entry in entries:
        by_name.setdefault(entry.campaign, []).append(entry)
    found = [CampaignRuns(name, runs) for name, runs in by_name.items()]
    return sorted(found, key=lambda campaign: campaign.latest, reverse=True)


def write_campaigns(results: Results, out: Path) -> list[CampaignRuns]:
    """Writes the reports of the latest campaigns below `out`/reports, unless they are there already of the
    same runs; returns all campaigns. Raises StoreError."""
    campaigns = campaign_runs(results.entries())
    return [
        CampaignRuns(c.name, c.runs, _write_report(results, c, out)) if number < MOST_REPORTS else c
        for number, c in enumerate(campaigns)
    ]


def _write_report(results: Results, campaign: CampaignRuns, out: Path) -> str:
    """Returns the address of the report; empty where none can be made of these runs."""
    name = f"reports/{slug(campaign.name)}"
    folder = out / name
    made_of = digest([release(), *(f"{run.folder} {run.signature}" for run in campaign.runs)])
    if _made_of(folder / RUNS) != made_of:
        try:
            write_report_of(read_results(results, campaign.name, None, None), folder)
        except PgstrataError:
            return ""  # all its runs failed, say: the list says how many did
        data = {"made_of": made_of, "campaign": campaign.name, "runs": [_run(run) for run in campaign.runs]}
        with disk.storing("store a report", folder):
            disk.replace(folder / RUNS, msgspec.json.encode(data) + b"\n", durable=False)
    return f"{name}/index.html"


def _made_of(path: Path) -> str:
    try:
        return str(json_any(disk.read_regular(path, MOST_BYTES))["made_of"])
    except (OSError, BoundError, KeyError, TypeError):
        return ""


def _run(run: Entry) -> dict[str, Any]:
    wanted = ("run_id", "variant", "workload", "repeat", "status", "started", "error")
    return {name: getattr(run, name) for name in wanted}


def campaigns_section(campaigns: Sequence[CampaignRuns], broken: int) -> Section:
    """Returns the list of campaigns. broken: runs that cannot be read."""
    note = f"{counted(broken, 'run')} cannot be read: `pgstrata runs` says why." if broken else ""
    if not campaigns:
        return Section("campaigns", "Campaigns", [Prose(note or "There are no runs yet.", "even")])
    columns = [
        Column("campaign", "Campaign", align="left"),
        Column("runs", "Runs"),
        Column("failed", "Failed"),
        Column("variants", "Variants", align="left"),
        Column("latest", "Latest", align="left"),
    ]
    rows = [
        Row(
            [
                words(c.name, href=c.address),
                words(f"{len(c.runs):,}"),
                words(f"{sum(not run.done for run in c.runs):,}"),
                words(_some(sorted({run.variant for run in c.runs}))),
                words(c.latest[:16].replace("T", " ")),
            ]
        )
        for c in campaigns
    ]
    table = Table(
        "campaigns", "The latest first", columns, rows, "", stacked=True, notes=[note] if note else []
    )
    return Section("campaigns", "Campaigns", [table])


def _some(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


__all__ = ["MOST_REPORTS", "CampaignRuns", "campaign_runs", "campaigns_section", "write_campaigns"]

"""The campaigns of a results folder on a site: the report of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pgstrata.errors import PgstrataError
from pgstrata.files import disk
from pgstrata.files.bounded import BoundError, json_any
from pgstrata.page.results import read_results
from pgstrata.report.index import CampaignRuns, campaign_runs
from pgstrata.report.write import release, write_report_of
from pgstrata.store import Results, slug
from pgstrata.store.catalogue import Entry
from pgstrata.store.kept import digest

MOST_REPORTS = 100
"""Campaigns whose reports are on the site, the latest."""

MOST_BYTES = 64 << 20
RUNS = "runs.json"


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


__all__ = ["MOST_REPORTS", "write_campaigns"]

"""The index of a results folder: its campaigns, what came of each, and the way to their reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgstrata.files.disk import storing
from pgstrata.numbers import counted
from pgstrata.page.blocks import Column, Findings, Prose, Row, Section, Table, words
from pgstrata.page.results import RunSet
from pgstrata.report.export_html import Page, write_html
from pgstrata.report.sections.findings import findings
from pgstrata.report.write import made_now, release, write_file
from pgstrata.store import Results
from pgstrata.store.catalogue import Entry

INDEX = "index.html"


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
    campaigns = [CampaignRuns(name, runs) for name, runs in by_name.items()]
    return sorted(campaigns, key=lambda campaign: campaign.latest, reverse=True)


def answer_of(results: RunSet) -> str:
    """Returns the answer of a campaign as one text: what is proven of each variant, else why nothing is."""
    blocks = findings(results)
    all_findings = [finding for block in blocks if isinstance(block, Findings) for finding in block.findings]
    return "; ".join(f"{finding.variant} {finding.headline}" for finding in all_findings) or " ".join(
        block.text for block in blocks if isinstance(block, Prose)
    )


def write_index(results: Results, pages: Mapping[str, Path], answers: Mapping[str, str]) -> Path:
    """Writes the index into the results folder and returns it. pages, answers: of each campaign, by its name.

    Raises StoreError where it cannot be written.
    """
    address = {name: page.relative_to(results.root).as_posix() for name, page in pages.items()}
    campaigns = [replace(c, address=address.get(c.name, "")) for c in campaign_runs(results.entries())]
    runs = counted(sum(len(c.runs) for c in campaigns), "run")
    page = Page(
        title=results.root.resolve().name,
        lede=f"{counted(len(campaigns), 'campaign')}, {runs}.",
        sections=[campaigns_section(campaigns, len(results.broken), answers)],
        variants=(),
        csv_names=(),
        run_count=0,
        version=release(),
        created=made_now(),
        alone=True,
    )
    with storing("write the index", results.root):
        write_file(results.root / INDEX, write_html(page))
    return results.root / INDEX


def campaigns_section(
    campaigns: Sequence[CampaignRuns], broken: int, answers: Mapping[str, str] | None = None
) -> Section:
    """Returns the list of campaigns. broken: runs that cannot be read. answers: what came
    of each, by name."""
    note = f"{counted(broken, 'run')} cannot be read: `pgstrata runs` says why." if broken else ""
    if not campaigns:
        return Section("campaigns", "Campaigns", [Prose(note or "There are no runs yet.", "even")])
    columns = [
        Column("campaign", "Campaign", align="left"),
        *([] if answers is None else [Column("answer", "Answer", align="left")]),
        Column("runs", "Runs"),
        Column("failed", "Failed"),
        Column("variants", "Variants", align="left"),
        Column("latest", "Latest", align="left"),
    ]
    rows = [
        Row(
            [
                words(c.name, href=c.address),
                *([] if answers is None else [words(answers.get(c.name, ""))]),
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


__all__ = ["INDEX", "CampaignRuns", "answer_of", "campaign_runs", "campaigns_section", "write_index"]

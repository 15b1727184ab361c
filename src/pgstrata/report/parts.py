"""What capabilities add to a report: sections, flame graphs, tables in the terminal, explanations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from pgstrata.page.blocks import Section, Table
from pgstrata.page.results import RunSet, StepResults
from pgstrata.registry import capabilities, load
from pgstrata.report.flames import Flame, Flames, Key


class ReportPart(Protocol):
    """The module that a capability names as `report`."""

    def flames_of(self, results: RunSet) -> dict[Key, dict[str, Flame]]:
        """Returns flame graphs of its runs, beside those of profiles."""
        ...

    def section(self, results: RunSet, flames: Flames) -> Section | None:
        """Returns its section; None where it has no data."""
        ...

    def terminal_tables(self, results: RunSet) -> list[Table]:
        """Returns its tables of the summary in the terminal."""
        ...

    def answers(self, results: RunSet) -> list[str]:
        """Returns what it has proven, a sentence for each variant; nothing where it has no data."""
        ...

    def explanation(self, results: RunSet, workload: str, step: StepResults, variant: str) -> str:
        """Returns what it knows of why a step's rate changed; empty where that is nothing."""
        ...


def report_parts() -> Iterator[ReportPart]:
    """Yields what capabilities add to a report, in their order."""
    for offer in capabilities():
        if offer.report:
            part: ReportPart = load(offer.report)
            yield part


__all__ = ["ReportPart", "report_parts"]

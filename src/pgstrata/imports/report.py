"""What imported figures add to a report (`pgstrata.report.parts.ReportPart`)."""

from __future__ import annotations

from pgstrata.imports.results import imported_results
from pgstrata.imports.section import imported_section, rate_table
from pgstrata.page.blocks import Section, Table
from pgstrata.page.results import RunSet, StepResults
from pgstrata.report.flames import Flame, Flames, Key


def flames_of(results: RunSet) -> dict[Key, dict[str, Flame]]:
    """Returns none: other programs' files have no stacks."""
    return {}


def section(results: RunSet, flames: Flames) -> Section | None:
    """Returns the section on imported figures; None where there are none."""
    return imported_section(results)


def terminal_tables(results: RunSet) -> list[Table]:
    """Returns the table of imported rates of each workload."""
    return [rate_table(imported) for imported in imported_results(results)]


def answers(results: RunSet) -> list[str]:
    """Returns none: imported figures are shown, never judged."""
    return []


def explanation(results: RunSet, workload: str, step: StepResults, variant: str) -> str:
    """Returns nothing: what another program measured explains no verdict."""
    return ""

"""A series of patches as tables to paste into a mail: Markdown and plain text; and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgstrata import numbers
from pgstrata.judge.stacks import ShareChange, moved
from pgstrata.page.results import read_results
from pgstrata.report import verdicts
from pgstrata.report.disturbance import disturbed_steps, load_beside
from pgstrata.report.flames import read_flames
from pgstrata.report.write import write_report
from pgstrata.search.patch.compare import RUNS, Compared, MeasuredSeries
from pgstrata.store import slug

Json = dict[str, Any]

FUNCTIONS = 5
"""So many functions of each step are in a mail; all are on the page."""


def write_pages(outcome: MeasuredSeries) -> list[Path]:
    """The report of each comparison, with flame graphs against the one before. Raises StoreError."""
    pages = []
    for one in outcome.compared:
        base, title = one.comparison.base, one.comparison.title
        out = outcome.folder / f"{slug(one.campaign)}.report"
        pages.append(write_report(outcome.folder / RUNS, one.campaign, base, out=out, title=title).html)
    return pages


def record(outcome: MeasuredSeries) -> Json:
    """As JSON can hold it."""
    return {
        "base": outcome.series.base,
        "members": [{"name": m.name, "what": m.what} for m in outcome.series.members],
        "comparisons": [
            {
                **one.comparison.record(),
                "whole": one.whole,
                "functions": [
                    {"step": step, "role": role, "function": m.function, "before": m.own_base, "after": m.own}
                    for step, role, _, functions in _functions(outcome, one)
                    for m in functions
                ],
            }
            for one in outcome.compared
        ],
        "folder": str(outcome.folder),
    }


def text(outcome: MeasuredSeries, *, markdown: bool) -> str:
    """What was compared with what and how, a table for each comparison, and the functions that moved."""
    lines = [*_head(outcome), ""]
    for one in outcome.compared:
        beside = disturbed_steps([one.comparison]) or load_beside(one.runs)
        lines += [beside, ""] * bool(beside)
        if markdown:
            lines += verdicts.markdown([one.comparison]).rstrip("\n").splitlines()
        else:
            lines.append(one.comparison.title)
            columns, cells = verdicts.rows(one.comparison)
            lines += _aligned(columns, cells)
            lines += verdicts.notes(one.comparison)
        more = list(_moved_lines(outcome, one))
        lines += ["", *(f"- {line}" if markdown else line for line in more)] if more else []
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _head(outcome: MeasuredSeries) -> list[str]:
    """Everything somebody else needs to believe the table, or to make it again."""
    members = outcome.series.members
    lines = [f"Base: {members[0].what}"]
    for number, member in enumerate(members[1:], 1):
        # A file of a patch is named like its member.
        name = "" if member.what.startswith(member.name) else f"{member.name}: "
        lines.append(f"{number}. {name}{member.what}")
    run = next((run for one in outcome.compared for run in one.runs), None)
    if run is not None:
        host, server = run.record.host, run.record.server
        flags = server.built.cflags if server.built is not None else ""
        with_ = f", {server.built.compiler.partition(',')[0]}, {flags}" if server.built is not None else ""
        machine = ", ".join(str(part) for part in (host.cpu_model, host.kernel) if part)
        lines.append(f"PostgreSQL {server.version}{with_}" + (f"; {machine}" if machine else ""))
    work = outcome.work
    options = " ".join([f"scale {work.scale}"] * bool(work.scale) + list(work.sets))
    how = f"{work.workload} {options}".strip()
    lines.append(
        f"{how}; taken in turns of {work.slice_seconds * 1000:.0f} ms, margin {work.margin * 100:g} %"
    )
    return lines


def _functions(
    outcome: MeasuredSeries, one: Compared
) -> Iterator[tuple[str, str, tuple[int, int], list[ShareChange]]]:
    """Step, role, samples of both sides and what moved between their profiles, where there are some."""
    results = read_results(outcome.folder / RUNS, one.campaign, one.comparison.base)
    for (_, step, role), flames in read_flames(results).items():
        base, other = flames.get(one.comparison.base), flames.get(one.comparison.other)
        if base is not None and other is not None:
            found = moved(base.stacks, base.samples, other.stacks, other.samples)
            yield step, role, (base.samples, other.samples), found[:FUNCTIONS]


def _moved_lines(outcome: MeasuredSeries, one: Compared) -> Iterator[str]:
    for step, _, samples, functions in _functions(outcome, one):
        if not functions:
            taken = " and ".join(map(str, samples))
            yield f"profile of {step}: no function's share moved by more than chance, of {taken} samples"
            continue
        shares = ", ".join(
            f"{m.function} {numbers.significant(100 * m.own_base)} → {numbers.significant(100 * m.own)} %"
            for m in functions
        )
        yield f"profile of {step}, own share of samples: {shares}"


def _aligned(columns: list[str], cells: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    rule = ["-" * width for width in widths]
    return [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in (columns, rule, *cells)
    ]


__all__ = ["record", "text", "write_pages"]

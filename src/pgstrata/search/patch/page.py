"""A series of patches as tables to paste into a mail: Markdown and plain text; and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from pgstrata.count import text as counts
from pgstrata.count.text import sides_of
from pgstrata.count.verdicts import CountComparisonRecord
from pgstrata.judge.compare import StepVerdictRecord
from pgstrata.judge.costs import connection_cpu
from pgstrata.judge.curves import CurveVerdict
from pgstrata.report import verdicts
from pgstrata.report.disturbance import disturbed_steps, load_beside
from pgstrata.report.write import write_report
from pgstrata.search.patch.compare import RUNS, Compared, MeasuredSeries, pairs_of
from pgstrata.search.patch.series import Series
from pgstrata.store import Results, slug

Json = dict[str, Any]


def write_pages(outcome: MeasuredSeries) -> list[Path]:
    """Writes the report of each comparison, with flame graphs against the member before, and returns the
    pages. Raises StoreError."""
    pages = []
    for compared in outcome.compared:
        base, title = compared.base, compared.title
        out = outcome.folder / f"{slug(compared.campaign)}.report"
        pages.append(write_report(outcome.folder / RUNS, compared.campaign, base, out=out, title=title).html)
    return pages


class MemberRecord(TypedDict):
    """A member of a series as JSON."""

    name: str
    what: str


class CpuRecord(TypedDict):
    """CPU of a connection per operation as JSON."""

    base: float
    other: float


class ComparedRecord(TypedDict):
    """A comparison of a series as JSON; without the keys of `pgstrata compare` where nothing was timed."""

    base: str
    other: str
    steps: NotRequired[list[StepVerdictRecord]]
    differences: NotRequired[list[str]]
    only_base: NotRequired[list[str]]
    only_other: NotRequired[list[str]]
    curves: NotRequired[list[CurveVerdict]]
    counts: NotRequired[CountComparisonRecord]
    cpu: dict[str, CpuRecord]
    whole: bool


class SeriesRecord(TypedDict):
    """A measured series as JSON."""

    base: str
    members: list[MemberRecord]
    comparisons: list[ComparedRecord]
    contradictions: list[str]
    disagreements: list[str]
    not_compared: list[str]
    folder: str


class PairRecord(TypedDict):
    """Two members that are compared, as JSON."""

    base: str
    other: str


class SeriesPlanRecord(TypedDict):
    """What would be built and compared, as JSON. not_built: a sentence for each member that is not."""

    members: list[MemberRecord]
    comparisons: list[PairRecord]
    not_built: list[str]
    folder: str


def plan_json(series: Series, folder: Path) -> SeriesPlanRecord:
    """Returns what would be built and compared, as JSON can hold it."""
    return {
        "members": [{"name": member.name, "what": member.what} for member in series.members],
        "comparisons": [{"base": base.name, "other": other.name} for base, other in pairs_of(series)],
        "not_built": list(series.not_built),
        "folder": str(folder),
    }


def series_json(outcome: MeasuredSeries) -> SeriesRecord:
    """Returns a measured series as JSON can hold it."""
    record: Json = {
        "base": outcome.series.base,
        "members": [{"name": m.name, "what": m.what} for m in outcome.series.members],
        "comparisons": [
            {
                **(dict(compared.comparison.record()) if compared.comparison is not None else {}),
                "base": compared.base,
                "other": compared.other,
                **({"counts": compared.counts.record()} if compared.counts is not None else {}),
                "cpu": {step: {"base": a, "other": b} for step, (a, b) in _cpu(compared).items()},
                "whole": compared.whole,
            }
            for compared in outcome.compared
        ],
        "contradictions": outcome.contradictions,
        "disagreements": outcome.disagreements,
        "not_compared": list(outcome.not_compared),
        "folder": str(outcome.folder),
    }
    return cast(SeriesRecord, record)


def text(outcome: MeasuredSeries, *, markdown: bool) -> str:
    """Returns the series as text: the members and how they were compared, a table for each comparison, and
    the functions that moved."""
    lines = [*_doubts(outcome.disagreements, markdown), *_head(outcome), ""]
    lines += _doubts(outcome.contradictions, markdown)
    for compared in outcome.compared:
        lines += [*_timed(compared, markdown), *_counted(outcome, compared, markdown)]
        more = list(_cpu_lines(compared))
        lines += ["", *(f"- {line}" if markdown else line for line in more)] if more else []
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _doubts(sentences: Sequence[str], markdown: bool) -> list[str]:
    """Returns sentences that must not be missed, and an empty line; an empty list without sentences."""
    return [*(f"**{text}**" if markdown else text for text in sentences), ""] if sentences else []


def _timed(compared: Compared, markdown: bool) -> list[str]:
    if compared.comparison is None:
        return []
    beside = disturbed_steps([compared.comparison]) or load_beside(compared.runs)
    lines = [beside, ""] * bool(beside)
    if markdown:
        return lines + verdicts.markdown([compared.comparison]).rstrip("\n").splitlines()
    title, columns, cells = verdicts.table(compared.comparison)
    return [*lines, title, *_aligned(columns, cells), *verdicts.notes(compared.comparison)]


def _counted(outcome: MeasuredSeries, compared: Compared, markdown: bool) -> list[str]:
    if compared.counts is None:
        return []
    apart = [""] if compared.comparison is not None else []
    if markdown:
        return [*apart, *counts.markdown([compared.counts]).rstrip("\n").splitlines()]
    base, others = sides_of(Results(outcome.folder / RUNS), compared.campaign, compared.base)
    return [*apart, *counts.text(base, others, [compared.counts], _aligned)]


def _cpu(compared: Compared) -> dict[str, tuple[float, float]]:
    """Returns the CPU of the connections per operation in µs, of both sides by step."""
    by_side: dict[str, dict[str, float]] = {}
    for run in compared.runs:
        for record in run.steps if run.record.counted is None else ():
            if record.measured and (cpu := connection_cpu(record)) is not None:
                by_side.setdefault(run.variant, {})[record.name] = cpu
    base, other = (by_side.get(label, {}) for label in (compared.base, compared.other))
    return {step: (base[step], other[step]) for step in base if step in other and base[step]}


def _cpu_lines(compared: Compared) -> Iterator[str]:
    if compared.comparison is not None and (costs := _cpu(compared)):
        each = ", ".join(f"{step} {b / a:.3f} ({a:.3g} → {b:.3g} µs)" for step, (a, b) in costs.items())
        yield f"CPU per operation, which load hardly touches, against the base: {each}"


def _head(outcome: MeasuredSeries) -> list[str]:
    """Returns the lines that a reader needs to believe the table, or to measure it again."""
    members = outcome.series.members
    lines = [f"Base: {members[0].what}"]
    for number, member in enumerate(members[1:], 1):
        # A file of a patch is named like its member.
        name = "" if member.what.startswith(member.name) else f"{member.name}: "
        lines.append(f"{number}. {name}{member.what}")
    lines += [f"- {sentence}" for sentence in outcome.not_compared]
    run = next((run for compared in outcome.compared for run in compared.runs), None)
    if run is not None:
        host, server = run.record.host, run.record.server
        flags = server.built.cflags if server.built is not None else ""
        with_ = f", {server.built.compiler.partition(',')[0]}, {flags}" if server.built is not None else ""
        machine = ", ".join(str(part) for part in (host.cpu_model, host.kernel) if part)
        lines.append(f"PostgreSQL {server.version}{with_}" + (f"; {machine}" if machine else ""))
    work = outcome.work
    options = " ".join([f"scale {work.scale}"] * bool(work.scale) + list(work.sets))
    how = f"{work.workload} {options}".strip()
    if outcome.by != "instructions":
        how += f"; taken in turns of {work.slice_seconds * 1000:.0f} ms, margin {work.margin * 100:g} %"
    lines.append(how + ("; instructions counted" if outcome.by != "rate" else ""))
    return lines


def _aligned(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    rule = ["-" * width for width in widths]
    return [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in (columns, rule, *cells)
    ]


__all__ = ["plan_json", "series_json", "text", "write_pages"]
